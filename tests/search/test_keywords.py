"""Keyword search: BM25 of the live documents, in every script, and snippets that show the matched words."""

from __future__ import annotations

import random
import sqlite3
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from sentemb.data.bm25 import bm25_scores, bm25_weights, count_query_terms, count_terms, varints
from sentemb.data.words import document_places, document_text, fold
from sentemb.errors import InputError
from sentemb.search import SearchIndex
from sentemb.search.keywords import LENGTH, query_terms, snippets_of, terms_of
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


SPELLINGS = [
    ("the ﬁnal oﬃce", "final office"),
    ("Straße und Größe", "STRASSE"),
    ("Ｆｕｌｌ Ｗｉｄｔｈ \uff12\uff10\uff12\uff16", "width 2026"),
    ("co\u00adoper\u00adation", "cooperation"),
    ("plain\ufeff zero\u2060width\u200b", "zerowidth"),
    (unicodedata.normalize("NFD", "Tiếng Việt"), "Tiếng"),
    ("Ёлка и йод", unicodedata.normalize("NFD", "ёлка")),
    ("И\u0306огурт", "йогурт"),
    ("Ὀδυσσεύς", "ΟΔΥΣΣΕΥΣ"),
    ("ש\u05c1\u05b8לו\u05b9ם", "שלום"),
    ("م\u064fح\u064eم\u0651\u064eد", "محمد"),
    ("كـــتاب", "كتاب"),
    ("می\u200cخواهم", "میخواهم"),
    ("नमस\u094d\u200dत\u0947", "नमस\u094dत\u0947"),
    ("क\u093cलम", "क़लम"),
    ("ก\u0e34นน\u0e49ำชา", "น\u0e49\u0e4dาชา"),
    ("ພາສາລາວ", "ລາວ"),
    (unicodedata.normalize("NFD", "한국의 서울은"), "서울"),
    ("물을 마신다", "물"),
    ("ｶﾞﾗｽ", "ガラス"),
    ("東京タワーに行く", "ﾀﾜｰ"),
    ("北京大学", "学"),
    ("\u2f08工智能", "人工"),
    ("Հայաստան և", "ՀԱՅԱՍՏԱՆ"),
    ("საქართველო", "ᲡᲐᲥᲐᲠᲗᲕᲔᲚᲝ"),
    ("İstanbul ışık", "IŞIK"),
    ("\u06f2\u06f0\u06f4\u06f8 تعداد", "2048"),
    ("Acme\u2122 pump", "acme"),
]
DOCUMENTS = [document for document, _ in SPELLINGS]


@pytest.mark.parametrize("language", ["und", "en", "vi"])
def test_each_query_finds_the_one_document_with_its_words(words: BagOfWords, language: str) -> None:
    queries = [query for _, query in SPELLINGS]
    index = SearchIndex.build(DOCUMENTS, words, language=language)
    hits = index.search(queries, 10, mode="keyword")
    assert [[hit.id for hit in own] for own in hits] == [[number] for number in range(len(queries))]
    for own in hits:
        snippet = own[0].snippet
        assert snippet is not None and snippet.spans
    counts, terms = count_terms(DOCUMENTS, language)
    asked, _ = count_query_terms(queries, language, terms)
    scores = np.concatenate([*bm25_scores(bm25_weights(counts), asked, 8)])
    assert np.array_equal(scores > 0, np.eye(len(queries), dtype=bool))


def test_changes_of_documents_forget_their_spellings(words: BagOfWords) -> None:
    index = SearchIndex.build(DOCUMENTS, words)
    index.update([(0, "ａ ﬂag"), (21, "北")])
    found = [[hit.id for hit in own] for own in index.search(["final", "FLAG", "学"], 9, mode="keyword")]
    assert found == [[], [0], []]


COMMANDS = [
    "kindleclip: print My Clippings of how it will be",
    "sensors: show how hot a processor is",
    "cal: print a calendar",
    "to be or not to be",
    "guidelines of the WHO on malaria",
]


@pytest.mark.parametrize("language", ["en", "und"])
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("how hot is my processor", [1]),
        ("how is my dishwasher", []),
        ("Who will print it for me?", [0, 2]),
        ("to be or not to be", [3, 0]),
        ("WHO malaria", [4]),
    ],
)
def test_function_words_find_nothing_beside_other_words(
    words: BagOfWords, language: str, query: str, found: list[int]
) -> None:
    index = SearchIndex.build(COMMANDS, words, language=language)
    assert [hit.id for hit in index.search(query, 10, mode="keyword")] == found


def shown(query: str, text: str, language: str) -> list[str]:
    (snippet,) = snippets_of(query, [text], language)
    assert text[snippet.start :].startswith(snippet.text)
    assert list(snippet.spans) == sorted(snippet.spans)
    return [snippet.text[start:stop] for start, stop in snippet.spans]


@pytest.mark.parametrize(
    ("query", "text", "language", "words"),
    [
        ("run dictionary", "Dictionaries: he RUNS, running", "en", ["Dictionaries", "RUNS", "running"]),
        ("operational", "an operation operates", "en", ["operation", "operates"]),
        ("run", "running runs", "mul", []),
        ("cafe", "un café, CAFÉ", "fr", ["café", "CAFÉ"]),
        ("cà", "ca cà", "vi", ["cà"]),
        ("首都北京", "北京是中国的首都。", "zh", ["北京", "首都"]),
        ("中国的首都", "他在中国的首都 city", "zh", ["中国的首都"]),
        ("京", "京 and 北京", "zh", ["京", "京"]),
        ("strasse finden", "Die STRA\u00adẞE, find\u00aden", "de", ["STRA\u00adẞE", "find\u00aden"]),
        ("cafe\u0301", "ﬁn: café cafe\u0301", "vi", ["café", "cafe\u0301"]),
        ("수도", "한국의 수도는", "ko", ["수도"]),
        ("how hot is my cpu", "my CPU is hot", "en", ["CPU", "hot"]),
        ("ab", "\x00ab\x00 AB \U000f0000ab\U000f0001", "mul", ["ab", "AB"]),
        ("ab", "a\U0001f600b ab \u0301ab", "mul", ["ab", "\u0301ab"]),
        ('" OR * NEAR(', "or near", "mul", ["or", "near"]),
        ("?!", "anything", "mul", []),
        ("b c d", "d b-c B", "mul", ["d", "b", "c", "B"]),
    ],
)
def test_words_are_shown_where_they_are(query: str, text: str, language: str, words: list[str]) -> None:
    assert shown(query, text, language) == words


def test_characters_of_pairs_are_those_of_the_text() -> None:
    rng = random.Random(1)
    for _ in range(300):
        text = "".join(rng.choice("aB 北京\n中ไทยßﬁ한e\u0301\u00ad") for _ in range(rng.randrange(12)))
        indexed = document_text(text)
        starts, stops = document_places(text)
        assert len(indexed) == len(starts) == len(stops)
        for letter, start, stop in zip(indexed, starts, stops, strict=True):
            assert letter == " " or letter in fold(text[start:stop])


def test_a_long_text_is_shown_where_most_different_words_are() -> None:
    filler = "nothing to see here " * 30
    text = f"{filler}cat cat cat {filler}a cat met a dog {filler}dog {filler}"
    (snippet,) = snippets_of("cat dog", [text], "en")
    assert "a cat met a dog" in snippet.text
    assert len(snippet.text) <= LENGTH
    assert text[snippet.start - 1] == " " and text[snippet.start + len(snippet.text)] == " "
    (none,) = snippets_of("bird", [text], "en")
    assert (none.start, none.spans) == (0, ()) and len(none.text) <= LENGTH
    (near,) = snippets_of("bird", [text], "en", [608])
    assert near.start == 608 and near.text.startswith("cat nothing to see") and not near.spans
    (end,) = snippets_of("bird", [text], "en", [len(text) - 3])
    assert text.endswith(end.text) and len(end.text) <= LENGTH
    (long,) = snippets_of("x" * 999, ["w " * 300 + "x" * 999], "en")
    assert long.text == "x" * 999


def test_hits_carry_snippets(words: BagOfWords) -> None:
    texts = ["w1 w2 w3", "w4 w1"]
    index = SearchIndex.build(texts, words)
    assert [hit.snippet for hit in index.search("w1")] == [None, None]
    for mode in ("keyword", "hybrid"):
        for hits in index.search(["w1 w3", "w4"], mode=mode):  # type: ignore[call-overload]
            for hit in hits:
                assert hit.snippet is not None and hit.snippet.text == hit.text
    ((hit, other),) = index.search(["w1 w3"], mode="keyword")
    assert hit.snippet.spans == ((0, 2), (6, 8)) and other.snippet.spans == ((3, 5),)
