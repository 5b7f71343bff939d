"""Weights follow queries with qrels; generated queries never give all the weight to one ranking."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from sentemb._fusion import EVEN, Ranking, fuse
from sentemb._fusion_weights import Judged, fit_weight, lean

TOTAL = 300


def queries(count: int, *, dense: float, keyword: float, seed: int = 0) -> Iterator[Judged]:
    """Queries whose relevant documents stand out by so many deviations in either ranking."""
    generator = np.random.default_rng(seed)
    for _ in range(count):
        relevant = generator.choice(TOTAL, 2, replace=False)
        scores = generator.normal(size=(2, TOTAL))
        scores[0, relevant] += dense
        scores[1, relevant] += keyword
        scores[1] = np.maximum(scores[1], 0)
        order = np.argsort(-scores, axis=1)
        found = [Ranking(own, score[own]) for own, score in zip(order, scores, strict=True)]
        yield Judged(found[0], found[1], TOTAL, {int(relevant[0]): 2.0, int(relevant[1]): 1.0})


@pytest.mark.parametrize("count", [10, 20, 50])
@pytest.mark.parametrize(("dense", "keyword"), [(0.0, 4.0), (4.0, 0.0), (3.0, 3.0)])
def test_a_fitted_weight_is_about_as_good_on_other_queries_as_the_better_ranking(
    dense: float, keyword: float, count: int
) -> None:
    fit = fit_weight(queries(count, dense=dense, keyword=keyword))
    assert fit.queries == count
    other = [*queries(200, dense=dense, keyword=keyword, seed=1)]
    by_weight = {weight: np.mean([ndcg(one, weight) for one in other]) for weight in (0.0, fit.weight, 1.0)}
    assert by_weight[fit.weight] > max(by_weight[0.0], by_weight[1.0]) - 0.02
    if dense == keyword:
        assert by_weight[fit.weight] > max(by_weight[0.0], by_weight[1.0])
    else:
        assert (fit.weight < EVEN) == (dense < keyword)


def ndcg(query: Judged, weight: float) -> float:
    found = fuse(query.dense, query.keyword, query.total, weight)
    scores, gains = np.zeros(TOTAL), np.zeros(TOTAL)
    scores[found.documents] = 1000.0 - np.arange(len(found.documents))
    for document, grade in query.grades.items():
        gains[document] = grade
    return float(ndcg_score(gains[None], scores[None], k=10))


def test_the_figures_of_a_fit_are_ndcg() -> None:
    some = [*queries(15, dense=1.0, keyword=2.0)]
    fit = fit_weight(some)
    expected = [np.mean([ndcg(one, weight) for one in some]) for weight in (1.0, 0.0, fit.weight)]
    assert [fit.dense, fit.keyword, fit.fused] == pytest.approx(expected)


def test_cut_queries_lean_on_the_better_ranking_and_leave_some_to_the_other() -> None:
    to_keywords = lean(queries(200, dense=0.0, keyword=4.0))
    to_vectors = lean(queries(200, dense=4.0, keyword=0.0))
    assert 0.25 <= to_keywords.weight < EVEN < to_vectors.weight <= 0.7
    reason = to_keywords.reason("generated queries")
    assert reason.startswith("favors keyword search (dense weight 0.")
    assert "NDCG@10 on 200 generated queries is" in reason
    assert to_vectors.reason("queries").startswith("favors dense search")


def test_nothing_is_fitted_on_nothing() -> None:
    nothing = fit_weight([])
    assert (nothing.weight, nothing.queries) == (EVEN, 0)
    unanswered = [one._replace(grades={-1: 1.0}) for one in queries(5, dense=1.0, keyword=1.0)]
    assert fit_weight(unanswered).weight == lean(unanswered).weight == EVEN
    ungraded = [one._replace(grades={}) for one in queries(5, dense=1.0, keyword=1.0)]
    assert fit_weight(ungraded).weight == EVEN
