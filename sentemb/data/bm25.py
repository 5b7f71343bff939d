"""BM25 with the terms and the formula of SQLite's full-text index, for many queries at once.

SQLite splits the texts into terms; the scores are sparse products. They equal SQLite's own `bm25()`, which
takes about a second for a query of two hundred words. `stored_bm25_scores` yields the same scores, to the
last bit, for any number of texts: their terms are on disk.
"""

from __future__ import annotations

import sqlite3
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from sentemb.data.keywords import K1, SUPPORT, B, bm25_idf, document_text, query_texts, tokenizer, varints

Double = npt.NDArray[np.float64]

CountedTerms = tuple[csr_array, dict[str, int]]
"""Counts of shape (texts, terms), and the number of each term."""
_SIZES = """
SELECT group_concat(hex(sz), '') FROM (SELECT sz FROM texts_docsize WHERE id >= ? AND id < ? ORDER BY id)
"""
_SIZES_BATCH = 1 << 20  # texts
# SQLite joins lists of numbers: a row for each number would take ten times as long.
_INSTANCES = "SELECT group_concat(doc) FROM terms WHERE term = ?"


def count_terms(documents: Sequence[str], language: str) -> CountedTerms:
    """Count the terms of documents in a language: (documents, terms), and the number of each term."""
    return _count(map(document_text, documents), len(documents), language, None)


class CountedQueries(NamedTuple):
    """Counts of shape (queries, terms).

    Args:
        content: Those of the terms of which a document must have one.
        support: Those of function words, if a query has other words too.
    """

    content: csr_array
    support: csr_array


def count_query_terms(
    queries: Sequence[str], language: str, known: Mapping[str, int] | None = None
) -> tuple[CountedQueries, dict[str, int]]:
    """Count the terms of queries to documents in a language; only `known` terms, if these are given."""
    texts = [query_texts(query, language) for query in queries]
    whole, numbers = _count((whole for _, whole in texts), len(queries), language, known)
    content, _ = _count((content for content, _ in texts), len(queries), language, numbers)
    support = csr_array(whole - content)
    support.eliminate_zeros()
    return CountedQueries(csr_array(content), support), numbers


def _count(texts: Iterable[str], total: int, language: str, known: Mapping[str, int] | None) -> CountedTerms:
    numbers: dict[str, int] = {} if known is None else dict(known)
    rows, columns = array("q"), array("q")
    with closing(_index_terms(texts, language)) as database:
        for term, row in database.execute("SELECT term, doc FROM terms"):
            number = numbers.get(term) if known is not None else numbers.setdefault(term, len(numbers))
            if number is not None:
                rows.append(row)
                columns.append(number)
    ones = np.ones(len(rows))
    return csr_array((ones, (rows, columns)), shape=(total, len(numbers))), numbers


def _index_terms(texts: Iterable[str], language: str) -> sqlite3.Connection:
    """Index texts in a temporary database, which SQLite keeps on disk if it is large."""
    database = sqlite3.connect("")
    rules = f'tokenize="{tokenizer(language)}"'
    database.execute(f"CREATE VIRTUAL TABLE texts USING fts5(text, content='', {rules})")
    database.executemany("INSERT INTO texts(rowid, text) VALUES (?, ?)", enumerate(texts))
    database.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(texts, instance)")
    return database


def bm25_weights(counts: csr_array) -> csr_array:
    """Return what each term of each document adds to the score of a query, from the counts of terms."""
    shares = _length_shares(counts.sum(axis=1))  # (documents,)
    holding = np.bincount(counts.indices, minlength=counts.shape[1])  # documents with each term
    own = np.repeat(shares, np.diff(counts.indptr))  # of the document of each count
    weights = counts.copy()
    weights.data = _weigh(bm25_idf(counts.shape[0], holding)[counts.indices], counts.data, own)
    return weights


def _length_shares(lengths: Double) -> Double:
    """Return by how much the length of each text raises what a term must have."""
    shares: Double = 1 - B + B * lengths / max(lengths.mean() if len(lengths) else 0.0, 1e-12)
    return shares


def _weigh(idf: Double, counts: Double, shares: Double) -> Double:
    weights: Double = idf * counts * (K1 + 1) / (counts + K1 * shares)
    return weights


def bm25_scores(weights: csr_array, queries: CountedQueries, block: int) -> Iterator[Double]:
    """Yield the scores of all documents for a block of queries, shape (block, documents)."""
    for start in range(0, queries.content.shape[0], block):
        content, support = ((part[start : start + block] @ weights.T).toarray() for part in queries)
        yield content + SUPPORT * np.where(content > 0, support, 0.0)


class _Posting(NamedTuple):
    """Where the texts with a term and their weights are in a file."""

    start: int  # bytes
    texts: int


def stored_bm25_scores(texts: Iterable[str], queries: Sequence[str], language: str) -> Iterator[Double]:
    """Yield the scores of any number of texts for one query after another, in one array that is reused."""
    counts, numbers = count_query_terms(queries, language)
    # Sums are in the order of SQLite's list of terms, which is that of their bytes.
    order = sorted(numbers, key=str.encode)
    places = np.argsort([numbers[term] for term in order]) if order else np.empty(0, dtype=np.int64)
    with (
        closing(_index_terms(map(document_text, texts), language)) as database,
        tempfile.TemporaryFile() as file,
    ):
        shares = _length_shares(_lengths(database))
        postings = []
        for term in order:
            documents, weights = _postings(database, term, shares)
            postings.append(_Posting(file.tell(), len(documents)))
            file.write(documents.tobytes() + weights.tobytes())
        scores, support = np.zeros(len(shares)), np.zeros(len(shares))
        for row in range(len(queries)):
            for part, sums in zip(counts, (scores, support), strict=True):
                own = slice(part.indptr[row], part.indptr[row + 1])
                sums[:] = 0
                for place, often in sorted(
                    zip(places[part.indices[own]].tolist(), part.data[own], strict=True)
                ):
                    posting = postings[place]
                    file.seek(posting.start)
                    documents = np.frombuffer(file.read(4 * posting.texts), dtype=np.int32)
                    sums[documents] += often * np.frombuffer(file.read(8 * posting.texts))
            yield np.add(scores, SUPPORT * np.where(scores > 0, support, 0.0), out=scores)


def _lengths(database: sqlite3.Connection) -> Double:
    """Return the number of terms of each text."""
    (total,) = database.execute("SELECT COUNT(*) FROM texts_docsize").fetchone()
    parts = [np.empty(0, dtype=np.int64)]
    for start in range(0, total, _SIZES_BATCH):
        (sizes,) = database.execute(_SIZES, (start, start + _SIZES_BATCH)).fetchone()
        parts.append(varints(bytes.fromhex(sizes or "")))
    return np.concatenate(parts).astype(np.float64)


def _postings(
    database: sqlite3.Connection, term: str, shares: Double
) -> tuple[npt.NDArray[np.int32], Double]:
    """Return the texts that have a term, and what it adds to the score of each."""
    (joined,) = database.execute(_INSTANCES, (term,)).fetchone()
    instances = np.fromstring(joined or "", dtype=np.int32, sep=",")
    starts = np.flatnonzero(np.diff(instances, prepend=-1))
    documents = instances[starts]
    counts = np.diff(starts, append=len(instances)).astype(np.float64)
    return documents, _weigh(bm25_idf(len(shares), len(documents)), counts, shares[documents])
