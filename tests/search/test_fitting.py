"""Hybrid search is the fusion of the two rankings, whose weights are fitted, saved and applied."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.search import SearchIndex
from tests.search.bag_of_words import BagOfWords
from tests.search.reference import Scores, agree, fused

QUERIES = ["w1 w2 w3", "w17", "w5 w5 w299"]


class Deaf(BagOfWords):
    """Encoder whose vectors do not reflect the words of a text."""

    def _vector(self, text: str) -> np.ndarray:
        return super()._vector(text[::-1].replace(" ", "-"))


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Return 400 texts of 12 words, each from 5 of 2,000 words."""
    rng = np.random.default_rng(0)
    topics = rng.integers(2000, size=(400, 5))
    return [" ".join(f"w{word}" for word in rng.choice(topic, 12)) for topic in topics]


def queries_of(texts: Sequence[str], count: int) -> list[str]:
    return [" ".join(text.split()[:4]) for text in texts[:count]]


def test_a_bad_encoder_is_found_out_by_judged_queries(
    tmp_path: Path, texts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    SearchIndex.build(texts, Deaf()).save(tmp_path / "index")
    index, reader = (SearchIndex.load(tmp_path / "index", Deaf()) for _ in range(2))
    weight = index.fit(queries_of(texts, 30), [[number] for number in range(30)])
    assert weight is not None and weight.judged and weight.queries == 30 and weight.weight < 0.2
    assert weight.keyword > 0.9 and weight.dense < 0.2 and weight.one_is_bad
    assert index.manifest.hybrid == reader.manifest.hybrid == weight
    with caplog.at_level(logging.WARNING):
        for query in queries_of(texts, 40)[30:]:
            keyword, hybrid = (reader.search(query, 1, mode=mode)[0].id for mode in ("keyword", "hybrid"))  # type: ignore[call-overload]
            assert keyword == hybrid
    assert [record.message for record in caplog.records] == [weight.reason()]
    assert "favors keyword search" in weight.reason() and "30 queries with qrels" in weight.reason()
    index.add(["one more"])
    index.compact()
    assert SearchIndex.load(tmp_path / "index", Deaf()).manifest.hybrid == weight


def test_the_weight_decides_the_ranks(texts: list[str]) -> None:
    index = SearchIndex.build(texts, Deaf())
    query, vector = queries_of(texts, 1)[0], Deaf().encode([texts[7]])
    before = index.search(query, 5, mode="hybrid", vectors=vector)
    index.fit(queries_of(texts, 30), [{number: 2} for number in range(30)])
    after = index.search(query, 5, mode="hybrid", vectors=vector)
    assert after != before and after[0].id == 0


def test_queries_are_cut_from_documents_where_none_are_judged(
    texts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = (SearchIndex.build(texts, encoder).fit() for encoder in (BagOfWords(), Deaf()))
    assert good is not None and bad is not None
    assert (good.judged, good.queries) == (bad.judged, bad.queries) == (False, 40)
    assert not good.one_is_bad and bad.one_is_bad and 0.25 <= bad.weight < 0.5
    index = SearchIndex.build(texts, Deaf())
    with caplog.at_level(logging.WARNING):
        index.search("w1", mode="hybrid")
        index.search("w2", mode="hybrid")
    assert [record.message for record in caplog.records] == [bad.reason()]
    assert index.manifest.hybrid is None


def test_ready_vectors_ask_the_encoder_for_nothing(texts: list[str]) -> None:
    encoder = BagOfWords()
    index = SearchIndex.build(texts, encoder)
    encoded, vectors = len(encoder.encoded), BagOfWords().encode(["w1"])
    assert index.search(["w1"], mode="hybrid", vectors=vectors)
    assert len(encoder.encoded) == encoded


def test_few_documents_weigh_both_alike(words: BagOfWords) -> None:
    index = SearchIndex.build([f"w{n} a b c d e f g" for n in range(150)], words)
    assert index.fit() is None
    assert len(words.encoded) == 150


def test_what_cannot_be_fitted_is_refused(texts: list[str], words: BagOfWords) -> None:
    index = SearchIndex.build(texts, words)
    for queries, relevant, message in [
        (["w1"], None, "need each other"),
        (["w1"], [[0], [1]], "1 queries, but relevant documents for 2"),
        (["w1", " "], [[0], [1]], "query 1 is blank"),
        (["w1"], [[]], "none of the queries has a relevant document"),
        (["w1"], [{0: 0}], "none of the queries has a relevant document"),
        (["w1"], [["0"]], "does not contain any of the relevant documents, such as '0'"),
        (["w1"], ["0"], "must be a list of ids or a dict of grades, not '0'"),
        (["w1"], [{0: "high"}], "the grade of document 0 is 'high'"),
        (["w1"], [[1.5]], "the id 1.5 is neither"),
    ]:
        with pytest.raises(InputError, match=message):
            index.fit(queries, relevant)  # type: ignore[arg-type]
    assert index.manifest.hybrid is None


def test_documents_that_are_gone_are_counted(
    texts: list[str], words: BagOfWords, caplog: pytest.LogCaptureFixture
) -> None:
    index = SearchIndex.build(texts, words)
    queries = queries_of(texts, 12)
    whole = index.fit(queries, [[number] for number in range(12)])
    with caplog.at_level(logging.WARNING):
        part = index.fit(queries, [[number, f"gone{number}"] for number in range(12)])
    assert whole is not None and part is not None and part.dense < whole.dense
    assert "12 of 24 relevant documents are not in the index" in caplog.text


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
