"""BM25 for many queries at once, with the terms and the formula of SQLite's full-text index.

SQLite cuts the texts; the scores are one sparse product. They equal SQLite's own `bm25()`, which takes about
a second for a query of two hundred words.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from sentemb.data.keywords import K1, SUPPORT, B, bm25_idf, document_text, query_texts, tokenizer

Double = npt.NDArray[np.float64]

CountedTerms = tuple[csr_array, dict[str, int]]
"""Counts of shape (texts, terms), and the number of each term."""


def count_terms(documents: Sequence[str], language: str) -> CountedTerms:
    """Count the terms of documents.

    Args:
        documents: Their texts.
        language: Code of their language.

    Returns:
        How often each document has each term, of shape (documents, terms), and the numbers of the terms.
    """
    return _count(map(document_text, documents), len(documents), language, None)


class CountedQueries(NamedTuple):
    """Counts of shape (queries, terms).

    Args:
        content: Those of the terms that a document must have one of.
        support: Those of function words, where a query has other words too.
    """

    content: csr_array
    support: csr_array


def count_query_terms(
    queries: Sequence[str], language: str, known: Mapping[str, int] | None = None
) -> tuple[CountedQueries, dict[str, int]]:
    """Count the terms that queries look for.

    Args:
        queries: The queries.
        language: Code of the documents' language.
        known: Numbers of the terms that count; by default all of them do, and are numbered.

    Returns:
        The counts, and the numbers of the terms.
    """
    contents, wholes = (
        zip(*(query_texts(one, language) for one in queries), strict=True) if queries else ((), ())
    )
    whole, numbers = _count(wholes, len(queries), language, known)
    content, _ = _count(contents, len(queries), language, numbers)
    support = csr_array(whole - content)
    support.eliminate_zeros()
    return CountedQueries(csr_array(content), support), numbers


def _count(texts: Iterable[str], total: int, language: str, known: Mapping[str, int] | None) -> CountedTerms:
    numbers: dict[str, int] = {} if known is None else dict(known)
    rows, columns = array("q"), array("q")
    with closing(sqlite3.connect("")) as database:  # on disk where it is large, and gone at the end
        terms = f'tokenize="{tokenizer(language)}"'
        database.execute(f"CREATE VIRTUAL TABLE texts USING fts5(text, content='', {terms})")
        database.executemany("INSERT INTO texts(rowid, text) VALUES (?, ?)", enumerate(texts))
        database.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(texts, instance)")
        for term, row in database.execute("SELECT term, doc FROM terms"):
            number = numbers.get(term) if known is not None else numbers.setdefault(term, len(numbers))
            if number is not None:
                rows.append(row)
                columns.append(number)
    ones = np.ones(len(rows))
    return csr_array((ones, (rows, columns)), shape=(total, len(numbers))), numbers


def bm25_weights(counts: csr_array) -> csr_array:
    """What each term of each document adds to the score of a query that has it, from `count_terms`."""
    total = counts.shape[0]
    lengths = counts.sum(axis=1)  # (documents,)
    holding = np.bincount(counts.indices, minlength=counts.shape[1])  # documents with each term
    idf = bm25_idf(total, holding)
    shares = 1 - B + B * lengths / max(lengths.mean(), 1e-12)
    own = np.repeat(shares, np.diff(counts.indptr))  # of the document of each count
    weights = counts.copy()
    weights.data = idf[counts.indices] * counts.data * (K1 + 1) / (counts.data + K1 * own)
    return weights


def bm25_scores(weights: csr_array, queries: CountedQueries, block: int) -> Iterator[Double]:
    """The scores of all documents for some queries at a time: shape (some, documents), 0 without a term."""
    for start in range(0, queries.content.shape[0], block):
        content, support = ((part[start : start + block] @ weights.T).toarray() for part in queries)
        yield content + SUPPORT * np.where(content > 0, support, 0.0)
