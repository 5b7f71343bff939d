from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sentemb.errors import InputError
from sentemb.modules.rounding import RoundedVectors


def test_int8_stays_within_half_a_step_and_cuts_what_is_larger() -> None:
    vectors = torch.tensor([[1.0, -0.5], [-0.2, 0.25]])
    module = RoundedVectors(2, "int8").fit(vectors)
    found = module({"sentence_embedding": vectors})["sentence_embedding"]
    assert ((found - vectors).abs() <= module.step / 2 + 1e-7).all()
    cut = module({"sentence_embedding": torch.tensor([[3.0, 0.0]])})["sentence_embedding"]
    assert torch.allclose(cut, torch.tensor([[1.0, 0.0]]))
    assert (module.bytes, RoundedVectors(10, "binary").bytes) == (2, 2)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    module = RoundedVectors(2, "int8").fit(torch.tensor([[1.0, -0.5]]))
    module.save(str(tmp_path))
    read = RoundedVectors.load(str(tmp_path))
    assert read.kind == "int8" and torch.equal(read.step, module.step)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InputError, match="unknown rounding 'int4'"):
        RoundedVectors(2, "int4")  # type: ignore[arg-type]
