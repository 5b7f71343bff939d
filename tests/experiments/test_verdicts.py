from __future__ import annotations

import itertools
from statistics import fmean

import numpy as np
import pytest
from scipy import stats

from sentemb.evaluation.classification import Metric
from sentemb.evaluation.record import Record, load_predictions
from sentemb.experiments.verdicts import compare_trials
from tests.experiments.made import record, runs, task


@pytest.mark.parametrize("metric", ["accuracy", "matthews"])
def test_permutation_is_that_of_all_exchanges(metric: Metric) -> None:
    """On six rows all 64 exchanges can be tried, with the task's own scores."""
    rng = np.random.default_rng(3)
    gold = rng.integers(0, 2, 6)
    first, second = rng.integers(0, 2, (2, 2, 6))
    ours = [record("a", seed, gold, first[seed], metric=metric) for seed in range(2)]
    theirs = [record("ce", seed, gold, second[seed], metric=metric) for seed in range(2)]

    def difference(exchange: tuple[bool, ...]) -> float:
        pairs = [
            (np.where(exchange, second[seed], first[seed]), np.where(exchange, first[seed], second[seed]))
            for seed in range(2)
        ]
        score = task(metric).scores
        return fmean(score(gold, one)[metric] - score(gold, other)[metric] for one, other in pairs)

    observed = abs(difference((False,) * 6))
    exact = fmean(
        abs(difference(exchange)) >= observed - 1e-12
        for exchange in itertools.product((False, True), repeat=6)
    )
    found = compare_trials(ours, theirs, draws=5000)
    assert found is not None and found.difference.p_items == pytest.approx(exact, abs=0.03)


def test_a_clear_difference_is_found_and_none_is_not() -> None:
    clear = compare_trials(runs("a", 0.85), runs("ce", 0.7))
    assert clear is not None and clear.seeds == 5
    assert clear.size == pytest.approx(0.15, abs=0.04)
    assert clear.p is not None and clear.p < 0.001
    none = compare_trials(runs("a", 0.7, draw=1), runs("ce", 0.7))
    assert none is not None and none.p is not None and none.p > 0.05


def test_under_the_null_hypothesis_few_are_significant() -> None:
    found = [
        compare_trials(
            runs("a", 0.7, rows=60, seeds=3, draw=draw),
            runs("ce", 0.7, rows=60, seeds=3, draw=1000 + draw),
            draws=200,
        )
        for draw in range(20)
    ]
    assert sum(one is not None and one.p is not None and one.p < 0.05 for one in found) <= 3


def test_the_larger_p_value_decides() -> None:
    gold = np.zeros(1000, np.int64)
    gold[::2] = 1
    # One lucky seed of two: many rows say yes, the seeds do not.
    lucky = [record("a", 0, gold, gold), record("a", 1, gold, np.zeros_like(gold))]
    base = [record("ce", seed, gold, np.zeros_like(gold)) for seed in range(2)]
    found = compare_trials(lucky, base)
    assert found is not None and found.difference.p_items < 0.01 and found.p == found.difference.p_seeds
    assert found.difference.p_seeds == pytest.approx(stats.ttest_1samp([0.5, 0.0], 0).pvalue)
    # Four rows of difference that every seed agrees on: the rows do not suffice.
    few = gold.copy()
    few[:4] = 1 - few[:4]
    agreeing = compare_trials(
        [record("a", seed, gold, gold) for seed in range(6)],
        [record("ce", seed, gold, few) for seed in range(6)],
    )
    assert (
        agreeing is not None
        and agreeing.difference.p_seeds == 2.0**-5
        and agreeing.p == agreeing.difference.p_items > 0.1
    )


def test_what_cannot_be_compared_is_not() -> None:
    ours, theirs = runs("a", 0.8, seeds=1), runs("ce", 0.7, seeds=1)
    single = compare_trials(ours, theirs)
    assert single is not None and single.p is None and single.difference.p_items < 0.05

    def of(run: Record) -> tuple[np.ndarray, np.ndarray]:
        found = load_predictions(run)
        return found.gold["toy"], found.values["toy"]

    other = [record("a", 0, *of(run), sha256="b" * 64) for run in ours]
    assert compare_trials(other, theirs) is None
    assert compare_trials(runs("a", 0.8, seeds=2)[1:], theirs) is None


def test_equal_predictions_differ_in_nothing() -> None:
    found = compare_trials(runs("a", 0.7), runs("ce", 0.7))
    assert found is not None and (found.size, found.difference.p_items, found.difference.p_seeds) == (
        0.0,
        1.0,
        1.0,
    )
