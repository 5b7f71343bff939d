"""BM25 of any number of texts: their terms, and what the queries' terms add to each score, lie on disk.

The scores are those of `sentemb.data.bm25`, to the last bit.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sentemb.data.bm25 import Double, count_query_terms
from sentemb.data.keywords import K1, SUPPORT, B, bm25_idf, document_text, tokenizer, varints

_SIZES = """
SELECT group_concat(hex(sz), '') FROM (SELECT sz FROM texts_docsize WHERE id >= ? AND id < ? ORDER BY id)
"""
_AT_ONCE = 1 << 20  # texts
# Lists of numbers are joined by SQLite: a row for each would take ten times as long.
_HOLDING = "SELECT group_concat(doc) FROM terms WHERE term = ?"


class _Posting(NamedTuple):
    """Where the texts with a term lie in a file, and how many they are."""

    start: int  # bytes
    texts: int


def stored_bm25_scores(texts: Iterable[str], queries: Sequence[str], language: str) -> Iterator[Double]:
    """The scores of texts for queries, one query at a time.

    Args:
        texts: The texts, in any number.
        queries: The queries.
        language: Code of their language.

    Yields:
        The scores of all texts, shape (texts,), 0 without a term of the query; the next take their place.
    """
    counts, numbers = count_query_terms(queries, language)
    names = np.array([*numbers])
    # The sums are those of terms in the order of SQLite's list, which is that of bytes.
    order = np.array(sorted(range(len(names)), key=lambda term: str(names[term]).encode()), dtype=np.int64)
    with closing(sqlite3.connect("")) as database, tempfile.TemporaryFile() as file:
        total = _fill(database, texts, language)
        shares = _shares(database, total)
        postings: dict[int, _Posting] = {}
        for term in order.tolist():
            documents, weights = _weighed(database, str(names[term]), shares)
            postings[term] = _Posting(file.tell(), len(documents))
            file.write(documents.tobytes() + weights.tobytes())
        places = np.empty(len(order), dtype=np.int64)
        places[order] = np.arange(len(order))
        scores, support = np.zeros(total), np.zeros(total)
        for row in range(len(queries)):
            for part, sums in zip(counts, (scores, support), strict=True):
                own = slice(part.indptr[row], part.indptr[row + 1])
                sums[:] = 0
                terms, often = part.indices[own], part.data[own]
                for chosen in np.argsort(places[terms]).tolist():
                    posting = postings[int(terms[chosen])]
                    file.seek(posting.start)
                    documents = np.frombuffer(file.read(4 * posting.texts), dtype=np.int32)
                    sums[documents] += often[chosen] * np.frombuffer(file.read(8 * posting.texts))
            yield np.add(scores, SUPPORT * np.where(scores > 0, support, 0.0), out=scores)


def _fill(database: sqlite3.Connection, texts: Iterable[str], language: str) -> int:
    """Index the terms of texts; on disk where they are many, and gone at the end."""
    rules = f'tokenize="{tokenizer(language)}"'
    database.execute(f"CREATE VIRTUAL TABLE texts USING fts5(text, content='', {rules})")
    rows = enumerate(map(document_text, texts))
    database.executemany("INSERT INTO texts(rowid, text) VALUES (?, ?)", rows)
    database.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(texts, instance)")
    count: int = database.execute("SELECT COUNT(*) FROM texts_docsize").fetchone()[0]
    return count


def _shares(database: sqlite3.Connection, total: int) -> Double:
    """By how much the length of each text raises what a term must have."""
    parts = []
    for start in range(0, total, _AT_ONCE):
        sizes = database.execute(_SIZES, (start, start + _AT_ONCE)).fetchone()[0]
        parts.append(varints(bytes.fromhex(sizes or "")))
    lengths = np.concatenate([*parts, np.empty(0, dtype=np.int64)]).astype(np.float64)
    mean = lengths.mean() if total else 0.0
    shares: Double = 1 - B + B * lengths / max(mean, 1e-12)
    return shares


def _weighed(database: sqlite3.Connection, term: str, shares: Double) -> tuple[npt.NDArray[np.int32], Double]:
    """The texts that have a term, and what it adds to the score of each."""
    joined = database.execute(_HOLDING, (term,)).fetchone()[0]
    instances = np.fromstring(joined or "", dtype=np.int32, sep=",")
    starts = np.flatnonzero(np.diff(instances, prepend=-1))
    documents = instances[starts]
    counts = np.diff(starts, append=len(instances)).astype(np.float64)
    idf = bm25_idf(len(shares), len(documents))
    weights: Double = idf * counts * (K1 + 1) / (counts + K1 * shares[documents])
    return documents, weights
