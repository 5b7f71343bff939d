"""BM25 with the terms and the formula of SQLite's full-text index, for many queries at once.

SQLite splits the texts into terms; the scores are sparse products. They equal SQLite's own `bm25()`, which
takes about a second for a query of two hundred words.
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

from sentemb.data.words import document_text, query_texts, tokenizer

Double = npt.NDArray[np.float64]
CountedTerms = tuple[csr_array, dict[str, int]]
"""Counts of shape (texts, terms), and the number of each term."""
SUPPORT = 0.4
"""The weight of function words in a query; documents that have no other word of it are not found."""
K1, B = 1.2, 0.75
"""The constants of BM25 in SQLite, and in most systems."""
# SQLite joins lists of numbers: a row for each number would take ten times as long.
_SIZES = """SELECT group_concat(id), group_concat(hex(sz), '')
FROM (SELECT id, sz FROM {}_docsize WHERE id >= ? AND id < ? ORDER BY id)"""
_SIZES_BATCH = 1 << 20  # texts
_INSTANCES = "SELECT group_concat(doc) FROM terms WHERE term = ?"


class CountedQueries(NamedTuple):
    """Counts (queries, terms): of terms of which a document must have one; of function words next to such."""

    content: csr_array
    support: csr_array


def count_terms(documents: Sequence[str], language: str) -> CountedTerms:
    """Count the terms of documents in a language: (documents, terms), and the number of each term."""
    return _count(map(document_text, documents), len(documents), language)


def count_query_terms(
    queries: Sequence[str], language: str, known: Mapping[str, int] | None = None
) -> tuple[CountedQueries, dict[str, int]]:
    """Count the terms of queries to documents in a language; only `known` terms, if these are given."""
    texts = [query_texts(query, language) for query in queries]
    whole, numbers = _count((whole for _, whole in texts), len(queries), language, known)
    content, _ = _count((content for content, _ in texts), len(queries), language, numbers)
    support = csr_array(whole - content)
    support.eliminate_zeros()
    return CountedQueries(content, support), numbers


def _count(
    texts: Iterable[str], total: int, language: str, known: Mapping[str, int] | None = None
) -> CountedTerms:
    numbers = dict(known or {})
    rows, columns = array("q"), array("q")
    with closing(_index_terms(texts, language)) as database:
        for term, row in database.execute("SELECT term, doc FROM terms"):  # by the bytes of the terms
            number = numbers.get(term) if known is not None else numbers.setdefault(term, len(numbers))
            if number is not None:
                rows.append(row)
                columns.append(number)
    return csr_array((np.ones(len(rows)), (rows, columns)), shape=(total, len(numbers))), numbers


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


def bm25_idf(documents: int, holding: npt.ArrayLike) -> Double:
    """Return the weight of a term by how many of the documents have it; as in SQLite at least 1e-6."""
    holding = np.asarray(holding)
    return np.maximum(np.log((documents - holding + 0.5) / (holding + 0.5)), 1e-6)


def _length_shares(lengths: Double) -> Double:
    """Return by how much the length of each text raises what a term must have."""
    return np.asarray(1 - B + B * lengths / max(lengths.mean() if len(lengths) else 0.0, 1e-12))


def _weigh(idf: Double, counts: Double, shares: Double) -> Double:
    return np.asarray(idf * counts * (K1 + 1) / (counts + K1 * shares))


def bm25_scores(weights: csr_array, queries: CountedQueries, block: int) -> Iterator[Double]:
    """Yield the scores of all documents for a block of queries, shape (block, documents)."""
    for start in range(0, queries.content.shape[0], block):
        content, support = ((part[start : start + block] @ weights.T).toarray() for part in queries)
        yield content + SUPPORT * np.where(content > 0, support, 0.0)


class Postings:
    """The texts of an FTS5 table, with row ids from 0, that have a term of its vocabulary `terms`."""

    def __init__(self, connection: sqlite3.Connection, table: str = "texts") -> None:
        self._connection = connection
        (last,) = connection.execute(f"SELECT MAX(id) FROM {table}_docsize").fetchone()
        parts = []
        for start in range(0, 0 if last is None else last + 1, _SIZES_BATCH):
            rows, sizes = connection.execute(_SIZES.format(table), (start, start + _SIZES_BATCH)).fetchone()
            parts.append((_integers(rows), varints(bytes.fromhex(sizes or ""))))
        rows, lengths = map(np.concatenate, zip(*parts, strict=True)) if parts else (_integers(""),) * 2
        self.texts = len(rows)
        self.shares = np.ones(0 if last is None else last + 1)
        """The share of each text by its length, 1 for a row id without a text."""
        self.shares[rows] = _length_shares(lengths.astype(np.float64))

    def read(
        self, term: str, connection: sqlite3.Connection | None = None
    ) -> tuple[npt.NDArray[np.int64], Double]:
        """Return the row ids of the texts that have a term, ascending, and what it adds to their scores."""
        instances = _integers((connection or self._connection).execute(_INSTANCES, (term,)).fetchone()[0])
        starts = np.flatnonzero(np.diff(instances, prepend=-1))
        found = instances[starts]
        counts = np.diff(starts, append=len(instances)).astype(np.float64)
        return found, _weigh(bm25_idf(self.texts, len(found)), counts, self.shares[found])


def _integers(joined: str | None) -> npt.NDArray[np.int64]:
    return np.fromstring(joined or "", dtype=np.int64, sep=",")


def varints(data: bytes) -> npt.NDArray[np.int64]:
    """Decode SQLite's integers of varying length: seven bits a byte, highest first, the last below 128."""
    found = np.frombuffer(data, dtype=np.uint8).astype(np.int64)
    ends = np.flatnonzero(found < 128)
    widths = np.diff(ends, prepend=-1)
    values = np.zeros(len(ends), dtype=np.int64)
    for back in range(int(widths.max(initial=0))):
        longer = widths > back
        values[longer] += (found[ends[longer] - back] & 127) << 7 * back
    return values


def stored_bm25_scores(texts: Iterable[str], queries: Sequence[str], language: str) -> Iterator[Double]:
    """Yield the scores of any number of texts for one query after another: their terms are on disk."""
    counts, terms = count_query_terms(queries, language)
    ends = [0]
    with (
        closing(_index_terms(map(document_text, texts), language)) as database,
        tempfile.TemporaryFile() as row_file,
        tempfile.TemporaryFile() as weight_file,
    ):
        postings = Postings(database)
        for term in terms:
            rows, weights = postings.read(term)
            ends.append(ends[-1] + len(rows))
            row_file.write(rows.tobytes())
            weight_file.write(weights.tobytes())
        if not ends[-1]:
            yield from (np.zeros(postings.texts) for _ in queries)
            return
        weights, rows = np.memmap(weight_file, np.float64, "r"), np.memmap(row_file, np.int64, "r")
        matrix = csr_array((weights, rows, np.array(ends)), shape=(len(terms), postings.texts))
        for scores in bm25_scores(matrix.T, counts, 1):
            yield scores[0]
