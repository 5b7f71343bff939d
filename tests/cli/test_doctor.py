"""`sentemb doctor`: versions and kernels, and a check that vectors do not depend on the batch."""

from __future__ import annotations

import numpy as np
import pytest

from sentemb._machine import arithmetic
from sentemb.encoding import linear, load_encoder
from sentemb.encoding.rows import compare_batches
from tests.cli.conftest import Command
from tests.encoding.test_linear import unsteady


def test_a_machine_that_keeps_the_bits(sentemb: Command) -> None:
    code, out, _ = sentemb("doctor", "sg-bert-mini")
    assert code == 0
    assert f"arithmetic {arithmetic()}" in out and "torch 2" in out
    assert out.count("identical alone and in a batch (62 texts)") == 2


def test_a_kernel_that_does_not_keep_them_is_found(sentemb: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "_product_by", unsteady)
    monkeypatch.setattr(linear, "row_plan", lambda kernel, shape: linear.RowPlan(linear.SIZES))
    code, out, err = sentemb("doctor", "sg-bert-mini")
    assert code == 1
    assert "texts depend on the batch, by up to" in out and "results agree only up to rounding" in err


def test_every_way_of_batching_is_compared() -> None:
    def numbered(texts: list[str]) -> np.ndarray:
        return np.array([[len(text), 1.0 + 1e-6 * len(texts)] for text in texts], dtype=np.float32)

    changed, largest = compare_batches(load_encoder(numbered), ["a", "bb", "ccc"])
    assert changed == 3
    assert largest == pytest.approx(2e-6, rel=0.1)
