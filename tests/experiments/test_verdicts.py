"""A method is better than the baseline only if other test rows and other seeds would say so too."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sentemb.evaluation.record import load_predictions
from sentemb.evaluation.schema import Record
from sentemb.experiments import summarize
from sentemb.experiments.verdicts import Verdict, verdicts_of
from tests.experiments.made import record, runs


def verdict(ours: list[Record], baseline: list[Record]) -> Verdict:
    (found,) = verdicts_of(summarize([*baseline, *ours]), "ce").values()
    return found


def test_a_clear_difference_is_found_and_none_is_not() -> None:
    clear = verdict(runs("a", 0.85), runs("ce", 0.7))
    assert clear.difference is not None and clear.seeds == 5 and clear.marker == " ↑"
    assert clear.difference.size == pytest.approx(15, abs=4)
    assert clear.p is not None and clear.p < 0.001
    none = verdict(runs("a", 0.7, draw=1), runs("ce", 0.7))
    assert none.p is not None and none.p > 0.05 and none.marker == ""


def test_the_larger_p_value_decides() -> None:
    gold = np.zeros(1000, np.int64)
    gold[::2] = 1
    # One lucky seed of two: many rows say yes, the seeds do not.
    lucky = [record("a", 0, gold, gold), record("a", 1, gold, np.zeros_like(gold))]
    found = verdict(lucky, [record("ce", seed, gold, np.zeros_like(gold)) for seed in range(2)])
    assert found.difference is not None and found.difference.p_items < 0.01
    assert found.p == pytest.approx(stats.ttest_1samp([0.5, 0.0], 0).pvalue)
    # Four rows of difference that every seed agrees on: the rows do not suffice.
    few = gold.copy()
    few[:4] = 1 - few[:4]
    agreeing = verdict(
        [record("a", seed, gold, gold) for seed in range(6)],
        [record("ce", seed, gold, few) for seed in range(6)],
    )
    assert agreeing.difference is not None and agreeing.difference.p_seeds == 2.0**-5
    assert agreeing.p == agreeing.difference.p_items > 0.1


def test_what_cannot_be_compared_is_not() -> None:
    ours, theirs = runs("a", 0.8, seeds=1), runs("ce", 0.7, seeds=1)
    single = verdict(ours, theirs)
    assert single.p is None and single.difference is not None and single.difference.p_items < 0.05
    found = load_predictions(ours[0])
    other = [record("a", 0, found.gold["toy"], found.values["toy"], content="other")]
    assert verdict(other, theirs) == Verdict(None, 1, None)
    assert verdict(runs("a", 0.8, seeds=2)[1:], theirs) == Verdict(None, 0, None)


def test_equal_predictions_differ_in_nothing() -> None:
    found = verdict(runs("a", 0.7), runs("ce", 0.7))
    assert found.difference is not None and found.p == 1
    assert (found.difference.size, found.difference.p_items, found.difference.p_seeds) == (0.0, 1.0, 1.0)
