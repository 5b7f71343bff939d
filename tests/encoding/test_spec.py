"""A description of an encoder loads the same encoder, also after its folder was moved with the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sentemb.encoding.spec import EncoderSpec
from sentemb.errors import InputError


def test_a_model_is_found_from_a_folder_that_was_moved_with_it(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    (before / "index").mkdir(parents=True)
    (before / "words.txt").write_text("small 1 2\n")
    spec = EncoderSpec(str(before / "words.txt"))
    seen = spec.seen_from(before / "index")
    assert seen.model == "../words.txt"
    before.rename(after)
    located = seen.located(after / "index")
    assert located.model == str((after / "words.txt").resolve())
    np.testing.assert_array_equal(located.load().encode(["small"]), [[1, 2]])
    assert EncoderSpec("static-mini").seen_from(after) == EncoderSpec("static-mini").located(after)


def test_only_arguments_that_decide_the_vectors_are_kept() -> None:
    spec = EncoderSpec.of({"model": "static-mini", "max_length": 8, "device": "cpu", "cache_dir": "vectors"})
    assert spec == EncoderSpec("static-mini", max_length=8)
    with pytest.raises(InputError, match="unknown precision 'half'"):
        EncoderSpec("static-mini", precision="half").load()  # type: ignore[arg-type]
