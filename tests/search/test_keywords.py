"""Keyword search gives what BM25 says of the documents that are alive."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from sentemb.data.bm25 import varints
from sentemb.errors import InputError
from sentemb.search import SearchIndex
from sentemb.search.keywords import query_terms, terms_of
from tests.search.bag_of_words import BagOfWords
from tests.search.reference import agree, bm25

Documents = dict[str | int, str]

ENGLISH = "the cat is sleeping on the mat|cats sleep|a dog and the cat were running|running dogs|...|the end"
CHINESE = "北京是中国的首都|上海 is a city|京|中国 中国 历史|北|한국의 수도"
QUERIES = [
    "cat",
    "the sleeping dog",
    "cat cat dog",
    'cat AND "dog" OR NEAR(* ^ : - {}',
    "'; DROP TABLE keywords; --",
    "!?.,;",
    "\x00cat\x00",
    "nothing-of-this",
    "text : cat*",
    "北京",
    "中国历史 city",
    "京",
    "수도",
]


@pytest.mark.parametrize(("language", "texts"), [("en", ENGLISH), ("mul", ENGLISH), ("mul", CHINESE)])
def test_scores_are_those_of_live_documents(
    tmp_path: Path, words: BagOfWords, language: str, texts: str
) -> None:
    rng = random.Random(1)
    given = texts.split("|")
    documents: Documents = {number: text for number, text in enumerate(given * 2)}
    SearchIndex.build(documents.items(), words, language=language).save(tmp_path / "index")
    index = SearchIndex.load(tmp_path / "index", words)
    reader = SearchIndex.load(tmp_path / "index", words)
    for step in range(8):
        if step % 4 == 1:
            new = {f"new{step}{n}": f"{rng.choice(given)} {rng.choice(given)}" for n in range(3)}
            index.add(new.items())
        elif step % 4 == 2:
            new = {key: rng.choice(given) for key in rng.sample(list(documents), 4)}
            index.update(new.items())
        elif step % 4 == 3:
            gone, new = rng.sample(list(documents), 3), {}
            index.delete(gone)
            documents = {key: text for key, text in documents.items() if key not in gone}
        else:
            index.compact()
            new = {}
        documents = {key: text for key, text in documents.items() if key not in new} | new
        for query in QUERIES:
            hits = reader.search(query, 4, mode="keyword")
            (asked,) = query_terms([query], language)
            assert agree(hits, bm25(documents, asked, 4, lambda text: terms_of([text], language)[0])), query
            assert [hit.text for hit in hits] == [documents[hit.id] for hit in hits]
    assert SearchIndex.load(tmp_path / "index", words).search(QUERIES, 99, mode="keyword") == reader.search(
        QUERIES, 99, mode="keyword"
    )


def test_scores_are_those_of_sqlite(words: BagOfWords, corpus: list[str]) -> None:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE texts USING fts5(text)")
    database.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", enumerate(corpus))
    ask = "SELECT rowid, -bm25(texts) FROM texts WHERE texts MATCH ? ORDER BY 2 DESC, 1 LIMIT 20"
    index = SearchIndex.build(corpus, words)
    for query in ("w1 w2 w3", "w17", "w5 w5 w6"):
        rows = database.execute(ask, (query.replace(" ", " OR "),)).fetchall()
        hits = index.search(query, 20, mode="keyword")
        assert [(hit.id, hit.score) for hit in hits] == [(row, pytest.approx(score)) for row, score in rows]
    database.close()


def test_a_filter_leaves_the_scores_and_finds_k(words: BagOfWords, corpus: list[str]) -> None:
    index = SearchIndex.build([(n, text, {"n": n}) for n, text in enumerate(corpus)], words)
    everything = index.search("w1 w2 w3 w4 w5 w6", len(corpus), mode="keyword")
    for limit in (1500, 700, 30, 0):
        expected = [hit for hit in everything if hit.metadata["n"] < limit]
        found = index.search("w1 w2 w3 w4 w5 w6", 10, mode="keyword", where={"n": {"<": limit}})
        assert found == expected[:10]
    late = {"n": {">=": 1400}}
    assert (
        index.search("w1 w2", 9, mode="keyword", where=late)
        == [hit for hit in index.search("w1 w2", 1500, mode="keyword") if hit.id >= 1400][:9]
    )


def test_min_score_is_of_bm25(words: BagOfWords, corpus: list[str]) -> None:
    index = SearchIndex.build(corpus, words)
    hits = index.search("w1 w2", 50, mode="keyword")
    least = hits[4].score
    found = index.search("w1 w2", 50, mode="keyword", min_score=least)
    assert found == [hit for hit in hits if hit.score >= least]
    with pytest.raises(InputError, match="works only in dense search"):
        index.search("w1", mode="keyword", min_score="99%")


def test_keywords_need_no_encoder(tmp_path: Path, words: BagOfWords) -> None:
    index = SearchIndex.build(["w1 w2", "w2"], words)
    encoded = len(words.encoded)
    assert [hit.id for hit in index.search(["w1"], mode="keyword")[0]] == [0]
    assert len(words.encoded) == encoded
    with pytest.raises(InputError, match="an unpaired surrogate"):
        index.search("\ud800", mode="keyword")
    with pytest.raises(InputError, match="unknown mode 'both'"):
        index.search("w1", mode="both")  # type: ignore[call-overload]


def test_the_language_decides_which_words_are_the_same(words: BagOfWords) -> None:
    texts = ["the dogs are running with a ball", "cà phê"]
    assert SearchIndex.build(texts, words).manifest.language == "en"
    for language, query, found in [
        ("en", "run", [0]),
        ("und", "run", []),
        ("vi", "ca phe", []),
        ("fr", "ca", [1]),
    ]:
        index = SearchIndex.build(texts, words, language=language)
        assert [hit.id for hit in index.search(query, mode="keyword")] == found
    with pytest.raises(InputError, match="'English' is not an ISO 639 code"):
        SearchIndex.build(texts, words, language="English")


def test_a_text_that_cannot_be_cut_leaves_nothing_behind() -> None:
    with pytest.raises(UnicodeEncodeError):
        terms_of(["cat", "\ud800"], "en")
    assert terms_of(["dogs dogs"], "en") == [{"dog": 2}]


def test_integers_of_varying_length() -> None:
    numbers = [0, 1, 127, 128, 129, 16383, 16384, 2**28 - 1, 2**28, 2**40]
    data = b""
    for number in numbers:
        groups = [number >> shift & 127 for shift in range(0, 49, 7)]
        while len(groups) > 1 and not groups[-1]:
            groups.pop()
        data += bytes([*(group | 128 for group in groups[:0:-1]), groups[0]])
    assert varints(data).tolist() == numbers
    assert varints(b"").tolist() == []
