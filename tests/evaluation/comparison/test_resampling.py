"""Scores of weighted items are the scores of the items written out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from sentemb.evaluation.comparison.resampling import (
    bootstrap_scores,
    permutation_differences,
    weighted_ranks,
    weighted_scores,
)
from sentemb.evaluation.comparison.runs import SetRuns

RNG = np.random.default_rng(0)


def runs(count: int = 2, items: int = 30, *, classes: bool = False, seed: int = 0) -> SetRuns:
    generator = np.random.default_rng(seed)
    if classes:
        gold = np.random.default_rng(7).integers(3, size=items).astype(float)
        predictions = np.where(generator.random((count, items)) < 0.6, gold, 1.0)
    else:
        gold = np.random.default_rng(7).integers(6, size=items).astype(float)  # many ties
        predictions = gold + 2 * generator.normal(size=(count, items))
    return SetRuns(gold, predictions, "same")


def test_ranks_of_repeated_items() -> None:
    values = np.array([3.0, 1.0, 3.0, 2.0, 5.0])
    counts = np.array([[1, 1, 1, 1, 1], [2, 0, 1, 3, 1]], dtype=float)
    for ranks, count in zip(weighted_ranks(values, counts.T).T, counts.astype(int), strict=True):
        written_out = stats.rankdata(np.repeat(values, count))
        assert np.array_equal(np.repeat(ranks, count), written_out)


@pytest.mark.parametrize("measure", ["spearman", "pearson", "accuracy"])
def test_weighted_scores_are_those_of_the_items_written_out(measure: str) -> None:
    some = runs(classes=measure == "accuracy")
    counts = RNG.multinomial(30, np.full(30, 1 / 30), size=5).astype(float)
    scores = weighted_scores(some, measure, counts.T)
    for row, count in zip(scores, counts.astype(int), strict=True):
        gold = np.repeat(some.gold, count)
        for score, run in zip(row, some.predictions, strict=True):
            predicted = np.repeat(run, count)
            if measure == "accuracy":
                expected = np.mean(predicted == gold)
            else:
                expected = getattr(stats, f"{measure}r")(predicted, gold).statistic
            assert score == pytest.approx(expected, abs=1e-12)


def test_a_resample_without_variation_is_left_out() -> None:
    tiny = SetRuns(np.array([0.0, 1.0]), np.array([[0.0, 1.0]]), "same")
    first, second = bootstrap_scores(tiny, tiny, "pearson", draws=200, generator=np.random.default_rng(0))
    assert 0 < len(first) < 200
    assert np.array_equal(first, second) and np.allclose(first, 1)


@pytest.mark.parametrize("measure", ["spearman", "pearson", "accuracy"])
def test_exchanges_are_those_of_the_definition(measure: str) -> None:
    items = 6
    one, other = (runs(2, items, classes=measure == "accuracy", seed=seed) for seed in (1, 2))
    observed, found = permutation_differences(
        one, other, measure, draws=400, generator=np.random.default_rng(0)
    )
    possible = []
    for exchanged in itertools.product([False, True], repeat=items):
        mask = np.array(exchanged)
        differences = []
        for first, second in zip(one.predictions, other.predictions, strict=True):
            if measure == "spearman":
                first, second = stats.rankdata(first), stats.rankdata(second)
                gold = stats.rankdata(one.gold)
            else:
                gold = one.gold
            if measure == "accuracy":
                first, second = (first == gold).astype(float), (second == gold).astype(float)
                left, right = np.where(mask, second, first), np.where(mask, first, second)
                differences.append(left.mean() - right.mean())
                continue
            first, second = (side - side.mean() for side in (first, second))
            first, second = (side / np.sqrt((side**2).sum()) for side in (first, second))
            left, right = np.where(mask, second, first), np.where(mask, first, second)
            differences.append(np.corrcoef(left, gold)[0, 1] - np.corrcoef(right, gold)[0, 1])
        possible.append(np.mean(differences))
    assert observed == pytest.approx(possible[0], abs=1e-12)
    assert np.abs(found[:, None] - np.array(possible)[None]).min(axis=1).max() < 1e-12
    assert len({round(value, 9) for value in found.tolist()}) > 3


def test_a_single_run_stands_against_each_of_several() -> None:
    one, several = runs(1, seed=1), runs(3, seed=2)
    observed, _ = permutation_differences(
        several, one, "spearman", draws=100, generator=np.random.default_rng(0)
    )
    scores = [stats.spearmanr(run, one.gold).statistic for run in several.predictions]
    single = stats.spearmanr(one.predictions[0], one.gold).statistic
    assert observed == pytest.approx(np.mean(scores) - single, abs=1e-12)
