"""Hybrid search is the fusion of the two rankings."""

from __future__ import annotations

from typing import Any

import pytest

from sentemb.errors import InputError
from sentemb.search import SearchIndex
from tests.search.bag_of_words import BagOfWords
from tests.search.reference import Scores, agree, fused

QUERIES = ["w1 w2 w3", "w17", "w5 w5 w299"]


def expected(index: SearchIndex, query: str, k: int, where: Any = None) -> Scores:
    """The fusion of what each part finds, whose documents' ids are the order in which they were given."""
    dense = index.search(query, 1000, where=where)
    keyword = index.search(query, 1000, mode="keyword", where=where)
    return fused(dense, keyword, range(len(index)), k, total=8 if where else len(index))


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_rankings_are_fused(corpus: list[str], words: BagOfWords, kind: str) -> None:
    index = SearchIndex.build([(n, text, {"n": n}) for n, text in enumerate(corpus)], words, kind=kind)
    for query, hits in zip(QUERIES, index.search(QUERIES, 20, mode="hybrid"), strict=True):
        assert agree(hits, expected(index, query, 20))
        assert [hit.text for hit in hits] == [corpus[hit.id] for hit in hits]
    few = {"n": {"<": 8}}
    hits = index.search(QUERIES[0], 20, mode="hybrid", where=few)
    assert len(hits) == 8 and agree(hits, expected(index, QUERIES[0], 20, few))
    least = index.search(QUERIES[0], 20, mode="hybrid")[4].score
    assert len(index.search(QUERIES[0], 20, mode="hybrid", min_score=least)) == 5
    with pytest.raises(InputError, match="works only in dense search"):
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
