"""Hybrid search is the fusion of the two rankings."""

from __future__ import annotations

from typing import Any

import pytest

from sentemb.errors import InputError
from sentemb.search import Hit, SearchIndex
from tests.search.bag_of_words import BagOfWords

QUERIES = ["w1 w2 w3", "w17", "w5 w5 w299"]


def fused(index: SearchIndex, query: str, k: int, where: Any = None) -> list[tuple[Any, float]]:
    """Reciprocal ranks, summed up by hand; of equal ones the document that was given first."""
    scores: dict[Any, float] = {}
    for mode in ("dense", "keyword"):
        for rank, hit in enumerate(index.search(query, 1000, mode=mode, where=where), 1):  # type: ignore[call-overload]
            scores[hit.id] = scores.get(hit.id, 0) + 1 / (60 + rank)
    return sorted(scores.items(), key=lambda pair: (-round(pair[1], 12), pair[0]))[:k]


def same(hits: list[Hit], expected: list[tuple[Any, float]]) -> bool:
    return [(hit.id, hit.score) for hit in hits] == [(key, pytest.approx(score)) for key, score in expected]


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_ranks_are_fused(corpus: list[str], words: BagOfWords, kind: str) -> None:
    index = SearchIndex.build([(n, text, {"n": n}) for n, text in enumerate(corpus)], words, kind=kind)
    for query, hits in zip(QUERIES, index.search(QUERIES, 20, mode="hybrid"), strict=True):
        assert same(hits, fused(index, query, 20))
        assert [hit.text for hit in hits] == [corpus[hit.id] for hit in hits]
    few = {"n": {"<": 8}}
    hits = index.search(QUERIES[0], 20, mode="hybrid", where=few)
    assert len(hits) == 8 and same(hits, fused(index, QUERIES[0], 20, few))
    least = index.search(QUERIES[0], 20, mode="hybrid")[4].score
    assert len(index.search(QUERIES[0], 20, mode="hybrid", min_score=least)) == 5
    with pytest.raises(InputError, match="only scores of vectors have"):
        index.search("w1", mode="hybrid", min_score="99%")


def test_more_than_the_fused_may_be_asked_for(corpus: list[str], words: BagOfWords) -> None:
    index = SearchIndex.build(corpus, words)
    assert {hit.id for hit in index.search("w1", 9999, mode="hybrid")} == set(range(len(corpus)))


def test_a_query_without_words_is_dense(corpus: list[str], words: BagOfWords) -> None:
    index = SearchIndex.build(corpus, words)
    dense, hybrid = (
        index.search("!?", 5, mode=mode, vectors=words.encode(["w9"])) for mode in ("dense", "hybrid")
    )  # type: ignore[call-overload]
    assert [hit.id for hit in hybrid] == [hit.id for hit in dense]
