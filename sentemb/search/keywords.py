"""Keyword search: the terms of the documents in SQLite's full-text index (FTS5), and BM25 over them.

SQLite cuts the documents and keeps which has which term; a document that goes takes its terms with it. The
scores are computed here, from lists that are read once for each term and state: they equal SQLite's own
`bm25()`, which looks at every document that has any term of a query each time.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sentemb._fusion import Ranking
from sentemb.data.keywords import (
    K1,
    STEMMER,
    SUPPORT,
    B,
    bm25_idf,
    document_text,
    query_texts,
    tokenizer,
    varints,
)
from sentemb.data.language import language_of
from sentemb.errors import InputError

Double = NDArray[np.float64]

AUTO = "auto"
# Texts whose words tell the language of all.
SAMPLE = 500
# The index has no copy of the texts: to forget a document it is told the text again.
_SCHEMA = "CREATE VIRTUAL TABLE keywords USING fts5(text, content='', tokenize=\"{}\")"
# Lists of numbers are joined by SQLite: a row for each would take ten times as long.
VOCABULARY = "CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, keywords, instance)"
_HOLDING = "SELECT group_concat(doc) FROM terms WHERE term = ?"
LENGTHS = "SELECT group_concat(id), group_concat(hex(sz), '') FROM keywords_docsize"
# Lists that are kept: 12 bytes for each term of each document, 50 MB.
_KEPT = 1 << 22


def check_language(language: str) -> str:
    """Refuse what is no code of a language, before any work is done."""
    if language != AUTO and not re.fullmatch(r"[a-z]{2,3}", language):
        raise InputError(
            f"the language {language!r} is not an ISO 639 code of two or three letters",
            "pass a code such as en, or auto",
        )
    return language


def create_keywords(connection: sqlite3.Connection, language: str) -> str:
    """Index the terms of all documents of a database.

    Args:
        connection: The database, in a transaction.
        language: Code of the language, or `auto`.

    Returns:
        The code of the language.
    """
    if language == AUTO:
        language = language_of(_sample(connection))
    connection.create_function("keyword_text", 1, document_text, deterministic=True)
    connection.execute("DROP TABLE IF EXISTS keywords")
    connection.execute(_SCHEMA.format(tokenizer(language)))
    connection.execute(
        "INSERT INTO keywords (rowid, text) SELECT number, keyword_text(text) FROM documents ORDER BY number"
    )
    connection.execute("INSERT INTO keywords (keywords) VALUES ('optimize')")
    return language


def add_keywords(connection: sqlite3.Connection, number: int, text: str) -> None:
    """Index the terms of a document."""
    connection.execute("INSERT INTO keywords (rowid, text) VALUES (?, ?)", (number, document_text(text)))


def delete_keywords(connection: sqlite3.Connection, number: int, text: str) -> None:
    """Forget the terms of a document, whose text the index has to be told again."""
    forget = "INSERT INTO keywords (keywords, rowid, text) VALUES ('delete', ?, ?)"
    connection.execute(forget, (number, document_text(text)))


def _sample(connection: sqlite3.Connection) -> Iterable[str]:
    step = max(1, connection.execute("SELECT COUNT(*) FROM documents").fetchone()[0] // SAMPLE)
    rows = connection.execute("SELECT text FROM documents WHERE number % ? = 0 ORDER BY number", (step,))
    return (text for (text,) in rows)


class QueryTerms(NamedTuple):
    """The terms of a query, counted.

    Args:
        content: Those that a document must have one of.
        support: Those of its function words, where it has other words too.
    """

    content: Counter[str]
    support: Counter[str]


class Postings(NamedTuple):
    """Which documents have a term, and what it adds to the score of each."""

    documents: NDArray[np.int64]
    weights: Double


class Keywords:
    """The terms of the documents in one state; lists are read when they are needed, and kept."""

    def __init__(self) -> None:
        self._shares: Double | None = None
        self._documents = 0
        self._postings: dict[str, Postings] = {}
        self._kept = 0

    def read(self, connection: sqlite3.Connection, query: QueryTerms) -> dict[str, Postings]:
        """Return the postings of a query's terms, from a connection that reads the same state."""
        shares = self._lengths(connection)
        return {
            term: self._postings.get(term) or self._read(connection, term, shares) for term in chain(*query)
        }

    def rank(
        self,
        query: QueryTerms,
        postings: Mapping[str, Postings],
        k: int,
        *,
        among: NDArray[np.bool_] | None,
    ) -> Ranking:
        """The best documents for a query; of equal ones the first comes first."""
        if self._shares is None or not query.content:
            return Ranking(np.empty(0, dtype=np.int64), np.empty(0))
        scores = np.zeros(len(self._shares))
        for term, count in query.content.items():
            documents, weights = postings[term]
            scores[documents] += count * weights
        held = scores > 0
        for term, count in query.support.items():
            documents, weights = postings[term]
            scores[documents] += SUPPORT * count * weights * held[documents]
        if among is not None:
            scores[len(among) :] = 0
            scores[: len(among)][~among[: len(scores)]] = 0
        found = np.flatnonzero(scores)
        if k < len(found):
            least = np.partition(scores[found], len(found) - k)[len(found) - k]
            found = found[scores[found] >= least]
        order = np.lexsort((found, -scores[found]))[:k]
        return Ranking(found[order], scores[found[order]])

    def _lengths(self, connection: sqlite3.Connection) -> Double:
        if self._shares is None:
            numbers, sizes = connection.execute(LENGTHS).fetchone()
            documents = _integers(numbers)
            lengths = varints(bytes.fromhex(sizes or ""))
            if len(lengths) != len(documents):
                raise InputError("the keyword index is damaged", "run `sentemb index compact`")
            self._documents = len(documents)
            self._shares = np.ones(int(documents.max(initial=-1)) + 1)
            mean = max(float(lengths.mean()), 1e-12) if len(lengths) else 1.0
            self._shares[documents] = 1 - B + B * lengths / mean
        return self._shares

    def _read(self, connection: sqlite3.Connection, term: str, shares: Double) -> Postings:
        instances = _integers(connection.execute(_HOLDING, (term,)).fetchone()[0])
        starts = np.flatnonzero(np.diff(instances, prepend=-1))
        documents = instances[starts]
        counts = np.diff(starts, append=len(instances)).astype(np.float64)
        if len(documents) and documents[-1] >= len(shares):
            raise InputError("the keyword index is damaged", "run `sentemb index compact`")
        holding = len(documents)
        weights = counts * (K1 + 1) / (counts + K1 * shares[documents]) * bm25_idf(self._documents, holding)
        if self._kept + holding > _KEPT:
            self._postings, self._kept = {}, 0
        self._postings[term] = found = Postings(documents, weights)
        self._kept += holding
        return found


def _integers(joined: str | None) -> NDArray[np.int64]:
    return np.fromstring(joined or "", dtype=np.int64, sep=",")


def terms_of(documents: Sequence[str], language: str) -> list[Counter[str]]:
    """Count the terms of each document."""
    return _tokenizer(tokenizer(language)).terms_of(map(document_text, documents), len(documents))


def query_terms(queries: Sequence[str], language: str) -> list[QueryTerms]:
    """Count the terms that each query looks for."""
    texts = [query_texts(query, language) for query in queries]
    tokens = _tokenizer(tokenizer(language))
    contents = tokens.terms_of((content for content, _ in texts), len(texts))
    wholes = tokens.terms_of((whole for _, whole in texts), len(texts))
    pairs = zip(contents, wholes, strict=True)
    return [QueryTerms(content, whole - content) for content, whole in pairs]


def query_words(query: str, language: str) -> list[str]:
    """The words that a query looks for, with their endings."""
    content, _ = query_texts(query, language)
    return [*_tokenizer(tokenizer(language).removeprefix(STEMMER)).terms_of([content], 1)[0]]


@cache
def _tokenizer(rules: str) -> _Tokenizer:
    return _Tokenizer(rules)


class _Tokenizer:
    """A tokenizer of SQLite's, which works on rows of a table."""

    def __init__(self, rules: str) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._connection.execute(_SCHEMA.format(rules))
        self._connection.execute(VOCABULARY)

    def terms_of(self, texts: Iterable[str], count: int) -> list[Counter[str]]:
        found: list[Counter[str]] = [Counter() for _ in range(count)]
        run = self._connection.execute
        with self._lock, rolled_back(self._connection):
            for row in enumerate(texts):
                run("INSERT INTO keywords (rowid, text) VALUES (?, ?)", row)
            for term, place in run("SELECT term, doc FROM terms"):
                found[place][term] += 1
        return found


@contextmanager
def rolled_back(connection: sqlite3.Connection) -> Iterator[None]:
    """Leave nothing of what is written, however it ends."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
