"""Keyword search finds words in every script, however they are spelled, and not by function words alone."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from sentemb.data.bm25 import bm25_scores, bm25_weights, count_query_terms, count_terms
from sentemb.errors import InputError
from sentemb.search import SearchIndex, manifest
from sentemb.search.manifest import Manifest
from tests.search.bag_of_words import BagOfWords

SPELLINGS = [
    ("the \ufb01nal o\ufb03ce", "final office"),
    ("Stra\u00dfe und Gr\u00f6\u00dfe", "STRASSE"),
    ("\uff26\uff55\uff4c\uff4c \uff37\uff49\uff44\uff54\uff48 \uff12\uff10\uff12\uff16", "width 2026"),
    ("co\u00adoper\u00adation", "cooperation"),
    ("plain\ufeff zero\u2060width\u200b", "zerowidth"),
    (unicodedata.normalize("NFD", "Ti\u1ebfng Vi\u1ec7t"), "Ti\u1ebfng"),
    ("\u0401\u043b\u043a\u0430 \u0438 \u0439\u043e\u0434", unicodedata.normalize("NFD", "\u0451\u043b\u043a\u0430")),
    ("\u0418\u0306\u043e\u0433\u0443\u0440\u0442", "\u0439\u043e\u0433\u0443\u0440\u0442"),
    ("\u1f48\u03b4\u03c5\u03c3\u03c3\u03b5\u03cd\u03c2", "\u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3"),
    ("\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd", "\u05e9\u05dc\u05d5\u05dd"),
    ("\u0645\u064f\u062d\u064e\u0645\u0651\u064e\u062f", "\u0645\u062d\u0645\u062f"),
    ("\u0643\u0640\u0640\u0640\u062a\u0627\u0628", "\u0643\u062a\u0627\u0628"),
    ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\u0645\u06cc\u062e\u0648\u0627\u0647\u0645"),
    ("\u0928\u092e\u0938\u094d\u200d\u0924\u0947", "\u0928\u092e\u0938\u094d\u0924\u0947"),
    ("\u0915\u093c\u0932\u092e", "\u0958\u0932\u092e"),
    ("\u0e01\u0e34\u0e19\u0e19\u0e49\u0e33\u0e0a\u0e32", "\u0e19\u0e49\u0e4d\u0e32\u0e0a\u0e32"),
    ("\u0e9e\u0eb2\u0eaa\u0eb2\u0ea5\u0eb2\u0ea7", "\u0ea5\u0eb2\u0ea7"),
    (unicodedata.normalize("NFD", "\ud55c\uad6d\uc758 \uc11c\uc6b8\uc740"), "\uc11c\uc6b8"),
    ("\ubb3c\uc744 \ub9c8\uc2e0\ub2e4", "\ubb3c"),
    ("\uff76\uff9e\uff97\uff7d", "\u30ac\u30e9\u30b9"),
    ("\u6771\u4eac\u30bf\u30ef\u30fc\u306b\u884c\u304f", "\uff80\uff9c\uff70"),
    ("\u5317\u4eac\u5927\u5b66", "\u5b66"),
    ("\u2f08\u5de5\u667a\u80fd", "\u4eba\u5de5"),
    ("\u0540\u0561\u0575\u0561\u057d\u057f\u0561\u0576 \u0587", "\u0540\u0531\u0545\u0531\u054d\u054f\u0531\u0546"),
    ("\u10e1\u10d0\u10e5\u10d0\u10e0\u10d7\u10d5\u10d4\u10da\u10dd", "\u1ca1\u1c90\u1ca5\u1c90\u1ca0\u1c97\u1c95\u1c94\u1c9a\u1c9d"),
    ("\u0130stanbul \u0131\u015f\u0131k", "I\u015eIK"),
    ("\u06f2\u06f0\u06f4\u06f8 \u062a\u0639\u062f\u0627\u062f", "2048"),
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
    index.update([(0, "\uff41 \ufb02ag"), (21, "\u5317")])
    found = [[hit.id for hit in own] for own in index.search(["final", "FLAG", "\u5b66"], 9, mode="keyword")]
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
    as_of_format_3(folder)
    index = SearchIndex.load(folder, words)
    assert index.search("Acme\u2122 pump", 1)[0].id == len(DOCUMENTS) - 1
    with pytest.raises(InputError, match=f"{folder} was built with other keyword rules") as refused:
        index.search("acme", mode="keyword")
    assert f"sentemb index compact {folder}" in str(refused.value.hint)
    index.delete([0])
    index.add([("new", "stra\u00dfe")])
    with pytest.raises(InputError, match="other keyword rules"):
        SearchIndex.load(folder, words).search("acme", mode="hybrid")
    index.compact()
    assert index.manifest.language == "vi"
    assert {hit.id for hit in index.search("strasse", mode="keyword")} == {1, "new"}


def as_of_format_3(folder: Path) -> None:
    """Make the manifest that of an index from before keyword rules had numbers."""
    value = json.loads((folder / manifest.NAME).read_text())
    del value["checksum"], value["keyword_rules"], value["format"]
    (folder / manifest.NAME).write_text(manifest._sealed(value, 3))
    assert Manifest.read(folder).keyword_rules == 1
