"""Fusion is what plain loops compute; it does not depend on the units of either ranking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb._fusion import Ranking, fuse, fused_ranks
from tests.fusion_loops import fused_by_loops

RUN = st.lists(st.integers(0, 8), unique=True)


def of(documents: list[int], scores: list[float] | None = None) -> Ranking:
    scores = scores or [-float(place) for place in range(len(documents))]
    return Ranking(np.array(documents, dtype=np.int32), np.array(scores))


def drawn(total: int, seed: int = 0) -> tuple[Ranking, Ranking]:
    """A background, with a document or two that stand out; keyword search finds some."""
    generator = np.random.default_rng(seed)
    similarities = generator.normal(0.2, 0.1, total)
    similarities[:2] += 0.6
    words = np.where(generator.random(total) < 0.3, generator.exponential(3.0, total), 0.0)
    dense, keyword = (np.argsort(-scores)[:1000] for scores in (similarities, words))
    keyword = keyword[words[keyword] > 0]
    return Ranking(dense, similarities[dense]), Ranking(keyword, words[keyword])


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("total", [40, 900, 20000])
def test_fusion_is_what_loops_compute(total: int, weight: float) -> None:
    dense, keyword = drawn(total)
    pairs = [
        list(zip(part.documents.tolist(), part.scores.tolist(), strict=True)) for part in (dense, keyword)
    ]
    expected = fused_by_loops(pairs[0], pairs[1], total, weight)
    order = sorted(expected, key=lambda document: (-expected[document], document))
    for depth in (5, None):
        fused = fuse(dense, keyword, total, weight, depth)
        assert fused.scores == pytest.approx([expected[document] for document in order[:depth]], rel=1e-9)
        assert [expected[document] for document in fused.documents.tolist()] == pytest.approx(fused.scores)


def test_the_units_of_scores_do_not_matter() -> None:
    dense, keyword = drawn(5000)
    fused = fuse(dense, keyword, 5000)
    other = fuse(
        Ranking(dense.documents, 7 * dense.scores - 3), Ranking(keyword.documents, 9 * keyword.scores), 5000
    )
    assert other.documents[:50].tolist() == fused.documents[:50].tolist()
    assert other.scores == pytest.approx(fused.scores)


def test_the_spread_is_that_of_all_similarities_however_many_are_found() -> None:
    deep, keyword = drawn(50000)
    nothing = Ranking(keyword.documents[:0], keyword.scores[:0])
    for depth in (100, 1000):
        shallow = Ranking(deep.documents[:depth], deep.scores[:depth])
        apart = np.diff(fuse(shallow, nothing, 50000, 1.0).scores[[10, 0]])[0]
        assert apart == pytest.approx((deep.scores[0] - deep.scores[10]) / 0.1, rel=0.3)


def test_an_encoder_whose_first_does_not_stand_out_hardly_moves_what_keywords_find() -> None:
    _, keyword = drawn(5000)
    noise = np.random.default_rng(3).normal(0.8, 0.01, 5000)
    order = np.argsort(-noise)[:1000]
    fused = fuse(Ranking(order, noise[order]), keyword, 5000)
    assert keyword.documents[0] in fused.documents[:2].tolist()


@pytest.mark.parametrize(
    ("dense", "keyword"), [([], []), ([3], []), ([], [3]), ([4, 3], [3]), ([1, 2, 3], [])]
)
def test_short_rankings_are_fused_too(dense: list[int], keyword: list[int]) -> None:
    fused = fuse(of(dense), of(keyword, [2.0] * len(keyword)), max(len(dense), 1))
    assert {*fused.documents.tolist()} == {*dense, *keyword}
    assert np.isfinite(fused.scores).all()


@pytest.mark.parametrize("noise", [0.0, 1e-17, 1e-9])
def test_similarities_that_are_all_alike_are_no_unit(noise: float) -> None:
    """Their deviation is 0 but for rounding, by which nothing may be divided."""
    dense = of([3, 4, 6, 7, 5], [1.0, 1.0 - noise, 1.0, 1.0, 0.7])
    keyword = of([3, 4, 6, 7, 5], [2e-6, 2e-6, 2e-6, 2e-6, 1e-6])
    fused = fuse(dense, keyword, 5)
    assert fused.scores.max() < 1e4 and fused.scores.min() > 0
    pairs = [
        list(zip(part.documents.tolist(), part.scores.tolist(), strict=True)) for part in (dense, keyword)
    ]
    expected = fused_by_loops(pairs[0], pairs[1], 5)
    assert fused.scores.tolist() == pytest.approx([expected[key] for key in fused.documents.tolist()])


def test_equal_scores_go_by_number() -> None:
    same = of([5, 2, 9], [0.4, 0.4, 0.4])
    assert fuse(same, of([]), 3).documents.tolist() == [2, 5, 9]


@given(RUN, RUN)
def test_fusion_of_ranks_adds_their_reciprocals(dense: list[int], keyword: list[int]) -> None:
    gains: dict[int, float] = {}
    for part in (dense, keyword):
        for rank, document in enumerate(part, start=1):
            gains[document] = gains.get(document, 0.0) + 1 / (60 + rank)
    fused = fused_ranks(of(dense), of(keyword))
    assert dict(zip(fused.documents.tolist(), fused.scores.tolist(), strict=True)) == pytest.approx(gains)
