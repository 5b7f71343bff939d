"""Keyword search finds words in every script, however they are spelled, and not by function words alone."""

from __future__ import annotations

import contextlib
import sqlite3
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sentemb.data.bm25 import bm25_scores, bm25_weights, count_query_terms, count_terms
from sentemb.errors import InputError
from sentemb.search import SearchIndex
from sentemb.search.folder import read_manifest, write_facts
from tests.search.bag_of_words import BagOfWords

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


def test_an_index_of_other_keyword_rules_is_told_apart(tmp_path: Path, words: BagOfWords) -> None:
    folder = tmp_path / "index"
    SearchIndex.build(DOCUMENTS, words, language="vi").save(folder)
    (path,) = folder.glob("index-*.sqlite")
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        write_facts(database, replace(read_manifest(folder), keyword_rules=1), folder)
    index = SearchIndex.load(folder, words)
    assert index.search("Acme\u2122 pump", 1)[0].id == len(DOCUMENTS) - 1
    with pytest.raises(InputError, match=f"{folder} has keywords of an older version") as refused:
        index.search("acme", mode="keyword")
    assert f"sentemb index compact {folder}" in str(refused.value.hint)
    index.delete([0])
    index.add([("new", "straße")])
    with pytest.raises(InputError, match="keywords of an older version"):
        SearchIndex.load(folder, words).search("acme", mode="hybrid")
    index.compact()
    assert index.manifest.language == "vi"
    assert {hit.id for hit in index.search("strasse", mode="keyword")} == {1, "new"}
