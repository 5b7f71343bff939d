"""Budgets by steps and by wall time, and the faster precision."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sentemb.pretraining.run import Budget, faster_precision
from sentemb.training import resolve


def budget_of(**settings: Any) -> Budget:
    return Budget(resolve("mlm", overrides={"corpus": ["a.txt"], "output": "o", **settings}))


def test_steps_or_the_clock_end_a_run_whichever_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    assert budget_of(max_steps=10).progress(4) == pytest.approx(0.4)
    budget = budget_of(max_steps=10, max_minutes=2)
    budget.elapsed = 30  # of earlier parts of the run
    assert budget.progress(0) == pytest.approx(0.25)
    budget.on_train_begin()
    now[0] += 60
    assert budget.seconds() == 90
    assert budget.progress(2) == pytest.approx(0.75)
    assert budget.progress(9) == pytest.approx(0.9)
    now[0] += 1000
    assert budget.progress(2) == 1.0


def test_the_rate_rises_then_falls_to_zero() -> None:
    budget = budget_of(max_steps=100, warmup=0.1)
    factors = [budget.learning_rate(step) for step in range(101)]
    assert (factors[0], factors[10], factors[100]) == (0.0, 1.0, 0.0)
    assert factors[:11] == sorted(factors[:11])
    assert factors[10:] == sorted(factors[10:], reverse=True)
    assert budget_of(max_steps=10, warmup=0.0).learning_rate(0) == 1.0


def test_the_faster_precision_is_measured_once() -> None:
    assert faster_precision() is faster_precision()
