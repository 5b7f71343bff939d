"""BM25 is what SQLite's own function computes, for repeated words too."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from sentemb.data.bm25 import bm25_scores, bm25_weights, count_query_terms, count_terms
from sentemb.data.retrieval import RetrievalSet, retrieval_set
from sentemb.data.words import tokenizer
from sentemb.evaluation.retrieval import KeywordSearcher


def test_scores_are_sqlites(judged_set: RetrievalSet) -> None:
    texts = [*judged_set.documents, "birds birds fly", ""]
    queries = ["cat", "birds fly fly", "the the", "running dogs", "nothing of this kind"]
    counts, terms = count_terms(texts, "en")
    asked, _ = count_query_terms(queries, "en", terms)
    found = np.concatenate([*bm25_scores(bm25_weights(counts), asked, block=2)])
    database = sqlite3.connect("")
    database.execute(f'CREATE VIRTUAL TABLE texts USING fts5(text, tokenize="{tokenizer("en")}")')
    database.executemany("INSERT INTO texts(rowid, text) VALUES (?, ?)", enumerate(texts))
    for query, scores in zip(queries, found, strict=True):
        expression = " OR ".join(f'"{word}"' for word in query.split())
        select = "SELECT rowid, -bm25(texts) FROM texts WHERE texts MATCH ?"
        expected = np.zeros(len(texts))
        for row, score in database.execute(select, (expression,)):
            expected[row] = score
        assert scores == pytest.approx(expected, abs=1e-9), query


def test_only_documents_with_a_word_of_the_query_are_found() -> None:
    documents = {"a": "cats sleep", "b": "dogs bark", "c": "", "d": "a cat barks"}
    queries = {"1": "Cat?", "2": "?!", "3": "fish"}
    data = retrieval_set(documents, queries, {name: {"a": 1} for name in queries}, name="mine")
    found = [[documents_of(one) for one in hits.documents] for hits in KeywordSearcher().search(data, 10)]
    assert found == [["a", "d"], [], []]


def documents_of(number: int) -> str:
    return "abcd"[number]
