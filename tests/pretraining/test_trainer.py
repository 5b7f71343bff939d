"""Budgets by steps and by wall time, and the faster precision."""

from __future__ import annotations

import itertools
import time

import pytest
import torch

from sentemb.errors import InputError
from sentemb.pretraining import throughput
from sentemb.pretraining.throughput import choose_dtype, matmul_rate
from sentemb.pretraining.trainer import Budget, learning_rate_factor


def test_steps_or_the_clock_end_a_run_whichever_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    assert Budget(max_steps=10).progress(4) == pytest.approx(0.4)
    budget = Budget(max_steps=10, max_minutes=2)
    budget.elapsed = 30  # of earlier parts of the run
    assert budget.progress(0) == pytest.approx(0.25)
    budget.on_train_begin()
    now[0] += 60
    assert budget.seconds() == 90
    assert budget.progress(2) == pytest.approx(0.75)
    assert budget.progress(9) == pytest.approx(0.9)
    now[0] += 1000
    assert budget.progress(2) == 1.0
    with pytest.raises(InputError, match="is not limited"):
        Budget()


def test_the_rate_rises_then_falls_to_zero() -> None:
    factors = [learning_rate_factor(step / 100, 0.1) for step in range(101)]
    assert (factors[0], factors[10], factors[100]) == (0.0, 1.0, 0.0)
    assert factors[:11] == sorted(factors[:11])
    assert factors[10:] == sorted(factors[10:], reverse=True)
    assert learning_rate_factor(0.0, 0.0) == 1.0


@pytest.mark.parametrize("fast", [torch.float32, torch.bfloat16])
def test_precision_is_what_was_asked_or_measured_faster(
    fast: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = torch.device("cpu")
    assert choose_dtype("float32", device) is torch.float32
    assert choose_dtype("bfloat16", device) is torch.bfloat16
    monkeypatch.setattr(throughput, "matmul_rate", lambda dtype, device: 2.0 if dtype is fast else 1.0)
    assert choose_dtype("auto", device) is fast


def test_the_rate_of_products_is_counted_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(step=0.125)
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    # Products are multiplied until half a second has passed: three at an eighth of a second each.
    assert matmul_rate(torch.float32, torch.device("cpu")) == 3 * 2 * 512**3 / 0.5
