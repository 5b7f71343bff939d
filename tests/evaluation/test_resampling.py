"""Scores of resamples are the scores of the items written out, and exchanges those of the definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from sentemb.evaluation.measures import measure
from sentemb.evaluation.resampling import bootstrap, exchange, resamples

GOLD = np.random.default_rng(7).integers(6, size=30).astype(float)  # many ties
METRICS = ["spearman", "pearson", "accuracy", "f1", "macro_f1", "matthews"]


def predictions(metric: str, count: int = 2, items: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    gold = GOLD[:items]
    if metric in ("spearman", "pearson"):
        found = gold + 2 * generator.normal(size=(count, items))
        found[:, ::3] = np.round(found[:, ::3])  # ties among predictions
        return found, gold
    gold = gold % (2 if metric == "f1" else 3)
    return np.where(generator.random((count, items)) < 0.6, gold, 1.0), gold


@pytest.mark.parametrize("metric", METRICS)
def test_resampled_scores_are_those_of_the_items_written_out(metric: str) -> None:
    runs, gold = predictions(metric)
    found = bootstrap(metric, runs, gold, draws=70, generator=np.random.default_rng(1))
    (counts,) = resamples(30, 70, np.random.default_rng(1))
    assert found.shape == (2, 70) and (counts.sum(axis=0) == 30).all()
    for draw, count in enumerate(counts.T):
        for run, score in zip(runs, found[:, draw], strict=True):
            classes = 0 if metric in ("spearman", "pearson") else int(max(gold.max(), runs.max())) + 1
            expected = measure(metric, np.repeat(run, count), np.repeat(gold, count), classes=classes)
            assert score == pytest.approx(expected, abs=1e-12)


def test_a_resample_without_variation_has_no_score() -> None:
    tiny = np.array([0.0, 1.0])
    for metric in ("pearson", "spearman"):
        found = bootstrap(metric, tiny[None], tiny, draws=200, generator=np.random.default_rng(0))[0]
        assert 0 < np.isfinite(found).sum() < 200
        np.testing.assert_allclose(found[np.isfinite(found)], 1)


def test_other_runs_beside_change_nothing() -> None:
    runs, gold = predictions("spearman", 3)
    alone = bootstrap("spearman", runs[:1], gold, draws=40, generator=np.random.default_rng(2))
    together = bootstrap("spearman", runs, gold, draws=40, generator=np.random.default_rng(2))
    np.testing.assert_array_equal(alone[0], together[0])


@pytest.mark.parametrize("metric", METRICS)
def test_exchanges_are_those_of_the_definition(metric: str) -> None:
    items = 8
    runs, gold = predictions(metric, 4, items)
    pairs = [(np.array([0, 1]), np.array([2, 3])), (np.array([3]), np.array([1]))]
    observed, found = exchange(metric, runs, gold, pairs, draws=400, generator=np.random.default_rng(0))
    for place, (one, other) in enumerate(pairs):
        possible = []
        for exchanged in itertools.product([False, True], repeat=items):
            mask = np.array(exchanged)
            differences = []
            for first, second in zip(runs[one], runs[other], strict=True):
                if metric == "spearman":
                    first, second = stats.rankdata(first), stats.rankdata(second)
                if metric in ("spearman", "pearson"):
                    first, second = (side - side.mean() for side in (first, second))
                    first, second = (side / np.sqrt((side**2).sum()) for side in (first, second))
                left, right = np.where(mask, second, first), np.where(mask, first, second)
                key = "pearson" if metric == "spearman" else metric
                right_gold = stats.rankdata(gold) if metric == "spearman" else gold
                classes = 0 if key == "pearson" else int(max(gold.max(), runs.max())) + 1
                scores = [measure(key, side, right_gold, classes=classes) for side in (left, right)]
                differences.append(scores[0] - scores[1])
            possible.append(np.mean(differences))
        assert observed[place] == pytest.approx(possible[0], abs=1e-12)
        assert np.abs(found[place][:, None] - np.array(possible)[None]).min(axis=1).max() < 1e-12
    assert len({round(value, 9) for value in found[0].tolist()}) > (1 if metric == "f1" else 3)
