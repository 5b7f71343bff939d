"""Fusion is what plain loops compute, in any units; weights follow what queries agree on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from sentemb._fusion import EVEN, Judged, Ranking, fit_weight, fuse, fused_ranks, lean
from tests.fusion_loops import fused_by_loops

RUN = st.lists(st.integers(0, 8), unique=True)
TOTAL = 300


def of(documents: list[int], scores: list[float] | None = None) -> Ranking:
    scores = scores or [-float(place) for place in range(len(documents))]
    return Ranking(np.array(documents, dtype=np.int32), np.array(scores))


def pairs_of(*rankings: Ranking) -> list[list[tuple[int, float]]]:
    return [list(zip(part.documents.tolist(), part.scores.tolist(), strict=True)) for part in rankings]


def drawn(total: int, seed: int = 0) -> tuple[Ranking, Ranking]:
    """A background, with a document or two that stand out; keyword search finds some."""
    generator = np.random.default_rng(seed)
    similarities = generator.normal(0.2, 0.1, total)
    similarities[:2] += 0.6
    words = np.where(generator.random(total) < 0.3, generator.exponential(3.0, total), 0.0)
    dense, keyword = (np.argsort(-scores)[:1000] for scores in (similarities, words))
    keyword = keyword[words[keyword] > 0]
    return Ranking(dense, similarities[dense]), Ranking(keyword, words[keyword])


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("total", [40, 900, 20000])
def test_fusion_is_what_loops_compute(total: int, weight: float) -> None:
    dense, keyword = drawn(total)
    expected = fused_by_loops(*pairs_of(dense, keyword), total, weight)
    order = sorted(expected, key=lambda document: (-expected[document], document))
    for depth in (5, None):
        fused = fuse(dense, keyword, total, weight, depth)
        assert fused.scores == pytest.approx([expected[document] for document in order[:depth]], rel=1e-9)
        assert [expected[document] for document in fused.documents.tolist()] == pytest.approx(fused.scores)
    other = Ranking(dense.documents, 7 * dense.scores - 3), Ranking(keyword.documents, 9 * keyword.scores)
    assert fuse(*other, total, weight).scores == pytest.approx(fused.scores)


def test_the_spread_is_that_of_all_similarities_however_many_are_found() -> None:
    deep, keyword = drawn(50000)
    nothing = Ranking(keyword.documents[:0], keyword.scores[:0])
    for depth in (100, 1000):
        shallow = Ranking(deep.documents[:depth], deep.scores[:depth])
        apart = np.diff(fuse(shallow, nothing, 50000, 1.0).scores[[10, 0]])[0]
        assert apart == pytest.approx((deep.scores[0] - deep.scores[10]) / 0.1, rel=0.3)
    noise = np.random.default_rng(3).normal(0.8, 0.01, 50000)  # of an encoder whose first does not stand out
    order = np.argsort(-noise)[:1000]
    fused = fuse(Ranking(order, noise[order]), keyword, 50000)
    assert keyword.documents[0] in fused.documents[:2].tolist()


@pytest.mark.parametrize(
    ("dense", "keyword"), [([], []), ([3], []), ([], [3]), ([4, 3], [3]), ([1, 2, 3], [])]
)
def test_short_rankings_are_fused_and_equal_scores_go_by_number(dense: list[int], keyword: list[int]) -> None:
    fused = fuse(of(dense), of(keyword, [2.0] * len(keyword)), max(len(dense), 1))
    assert {*fused.documents.tolist()} == {*dense, *keyword}
    assert np.isfinite(fused.scores).all()
    assert fuse(of([5, 2, 9], [0.4, 0.4, 0.4]), of([]), 3).documents.tolist() == [2, 5, 9]


@pytest.mark.parametrize("noise", [0.0, 1e-17, 1e-9])
def test_similarities_that_are_all_alike_are_no_unit(noise: float) -> None:
    """Their deviation is 0 but for rounding, by which nothing may be divided."""
    dense = of([3, 4, 6, 7, 5], [1.0, 1.0 - noise, 1.0, 1.0, 0.7])
    keyword = of([3, 4, 6, 7, 5], [2e-6, 2e-6, 2e-6, 2e-6, 1e-6])
    fused = fuse(dense, keyword, 5)
    assert fused.scores.max() < 1e4 and fused.scores.min() > 0
    expected = fused_by_loops(*pairs_of(dense, keyword), 5)
    assert fused.scores.tolist() == pytest.approx([expected[key] for key in fused.documents.tolist()])


@given(RUN, RUN)
def test_fusion_of_ranks_adds_their_reciprocals(dense: list[int], keyword: list[int]) -> None:
    gains: dict[int, float] = {}
    for part in (dense, keyword):
        for rank, document in enumerate(part, start=1):
            gains[document] = gains.get(document, 0.0) + 1 / (60 + rank)
    fused = fused_ranks(of(dense), of(keyword))
    assert dict(zip(fused.documents.tolist(), fused.scores.tolist(), strict=True)) == pytest.approx(gains)


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


@pytest.mark.parametrize("count", [10, 50])
@pytest.mark.parametrize(("dense", "keyword"), [(0.0, 4.0), (4.0, 0.0), (3.0, 3.0)])
def test_a_fitted_weight_is_about_as_good_on_other_queries_as_the_better_ranking(
    dense: float, keyword: float, count: int
) -> None:
    some = [*queries(count, dense=dense, keyword=keyword)]
    fit = fit_weight(some)
    figures = [np.mean([ndcg(one, weight) for one in some]) for weight in (1.0, 0.0, fit.weight)]
    assert fit.queries == count and [fit.dense, fit.keyword, fit.fused] == pytest.approx(figures)
    other = [*queries(200, dense=dense, keyword=keyword, seed=1)]
    by_weight = {weight: np.mean([ndcg(one, weight) for one in other]) for weight in (0.0, fit.weight, 1.0)}
    assert by_weight[fit.weight] > max(by_weight[0.0], by_weight[1.0]) - 0.02
    if dense == keyword:
        assert by_weight[fit.weight] > max(by_weight[0.0], by_weight[1.0]) and not fit.one_is_bad
    else:
        assert (fit.weight < EVEN) == (dense < keyword) and fit.one_is_bad


def ndcg(query: Judged, weight: float) -> float:
    found = fuse(query.dense, query.keyword, query.total, weight)
    scores, gains = np.zeros(TOTAL), np.zeros(TOTAL)
    scores[found.documents] = 1000.0 - np.arange(len(found.documents))
    for document, grade in query.grades.items():
        gains[document] = grade
    return float(ndcg_score(gains[None], scores[None], k=10))


def test_generated_queries_lean_on_the_better_ranking_and_leave_some_to_the_other() -> None:
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
    for grades in ({-1: 1.0}, {}):  # never found, and none
        some = [one._replace(grades=grades) for one in queries(5, dense=1.0, keyword=1.0)]
        assert fit_weight(some).weight == lean(some).weight == EVEN
