"""Keyword search: the terms of documents in SQLite's full-text index (FTS5), BM25, and snippets.

SQLite splits the documents and keeps which has which term; a document that goes takes its terms with it. The
scores are computed from lists that are read once for each term and state: they equal SQLite's own `bm25()`,
which looks at every document that has any term of a query each time.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sentemb.data.bm25 import K1, SUPPORT, Postings, bm25_idf
from sentemb.data.words import STEMMER, document_places, document_text, language_of, query_texts, tokenizer
from sentemb.errors import InputError

AUTO = "auto"
SAMPLE = 500
"""Texts whose words tell the language of all."""
# The index has no copy of the texts: to forget a document it is given the text again.
_SCHEMA = "CREATE VIRTUAL TABLE keywords USING fts5(text, content='', tokenize=\"{}\")"
VOCABULARY = "CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, keywords, instance)"
# Lists that are kept: 12 bytes for each term of each document, 50 MB.
_KEPT = 1 << 22

LENGTH = 200
"""Characters of a snippet, about two lines of a terminal."""
_SLACK = 20  # characters given up so that a snippet begins and ends between words
_MARKS = range(0xF0000, 0x10FFFE)  # characters for private use
_Span = tuple[int, int]
_Lists = dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]]


@dataclass(slots=True)
class Snippet:
    """The place of a document that has the most words of the query, some 200 characters.

    Where it has none of them it is where the nearest passage begins, or the text.

    Args:
        text: The characters of the document from `start` on.
        start: Where they begin in the document's text.
        spans: Where words of the query are in `text`: (start, stop) of each, in order.

    Example:
        >>> hit = SearchIndex.load("index").search("json dictionary", k=1, mode="keyword")[0]
        >>> [hit.snippet.text[start:stop] for start, stop in hit.snippet.spans]
        ['json', 'dictionary', 'JSON']
    """

    text: str
    start: int
    spans: tuple[tuple[int, int], ...]


class QueryTerms(NamedTuple):
    """The terms of a query, counted.

    Args:
        content: Those that a document must have one of.
        support: Those of its function words, where it has other words too.
    """

    content: Counter[str]
    support: Counter[str]


def check_language(language: str) -> str:
    """Return the code of a language, or raise InputError if it cannot be one, before any work is done."""
    if language != AUTO and not re.fullmatch(r"[a-z]{2,3}", language):
        raise InputError(
            f"the language {language!r} is not an ISO 639 code of two or three letters",
            "pass a code such as en, or auto",
        )
    return language


def create_keywords(connection: sqlite3.Connection, language: str) -> str:
    """Index the terms of all documents of a database, in a transaction; return the code of their language."""
    if language == AUTO:
        step = max(1, connection.execute("SELECT COUNT(*) FROM documents").fetchone()[0] // SAMPLE)
        some = "SELECT text FROM documents WHERE number % ? = 0 ORDER BY number"
        language = language_of(text for (text,) in connection.execute(some, (step,)))
    connection.create_function("keyword_text", 1, document_text, deterministic=True)
    connection.execute("DROP TABLE IF EXISTS keywords")
    connection.execute(_SCHEMA.format(tokenizer(language)))
    connection.execute(
        "INSERT INTO keywords (rowid, text) SELECT number, keyword_text(text) FROM documents ORDER BY number"
    )
    connection.execute("INSERT INTO keywords (keywords) VALUES ('optimize')")
    return language


class Keywords:
    """The terms of the documents in one state; lists are read when they are needed, and kept."""

    def __init__(self) -> None:
        self._postings: Postings | None = None
        self._lists: _Lists = {}
        self._kept = 0

    def rank(
        self, connection: sqlite3.Connection, query: QueryTerms, k: int, among: NDArray[np.bool_] | None
    ) -> list[tuple[float, int]]:
        """Return scores and numbers of the best documents of a mask; of equal ones the first is first."""
        if not query.content:
            return []
        postings, lists = self._lists_of(connection, chain(*query))
        scores = np.zeros(len(postings.shares))
        for term, count in query.content.items():
            documents, weights = lists[term]
            scores[documents] += count * weights
        held = scores > 0
        for term, count in query.support.items():
            documents, weights = lists[term]
            scores[documents] += SUPPORT * count * weights * held[documents]
        if among is not None:
            scores[len(among) :] = 0
            scores[: len(among)][~among[: len(scores)]] = 0
        found = np.flatnonzero(scores)
        if k < len(found):
            least = np.partition(scores[found], len(found) - k)[len(found) - k]
            found = found[scores[found] >= least]
        order = found[np.lexsort((found, -scores[found]))[:k]]
        return list(zip(scores[order].tolist(), order.tolist(), strict=True))

    def coverage(
        self, connection: sqlite3.Connection, query: QueryTerms, documents: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], float]:
        """Return the share of a query's terms that documents have, by idf, and the highest possible BM25."""
        postings, lists = self._lists_of(connection, query.content)
        shares, total, most = np.zeros(len(documents)), 0.0, 0.0
        for term, count in query.content.items():
            idf = float(bm25_idf(postings.texts, len(lists[term][0])))
            shares += idf * np.isin(documents, lists[term][0])
            total, most = total + idf, most + count * idf * (K1 + 1)
        return shares / max(total, 1e-9), most

    def _lists_of(self, connection: sqlite3.Connection, terms: Iterable[str]) -> tuple[Postings, _Lists]:
        """Return the postings, and the documents and weights of terms."""
        try:
            postings = self._postings = self._postings or Postings(connection, "keywords")
            # Others may empty the lists meanwhile.
            return postings, {term: self._lists.get(term) or self._read(connection, term) for term in terms}
        except (ValueError, IndexError):
            raise InputError("the keyword index is damaged", "run `sentemb index compact`") from None

    def _read(
        self, connection: sqlite3.Connection, term: str
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        assert self._postings is not None
        found = self._postings.read(term, connection)
        if self._kept + len(found[0]) > _KEPT:
            self._lists, self._kept = {}, 0
        self._lists[term] = found
        self._kept += len(found[0])
        return found


def terms_of(documents: Sequence[str], language: str) -> list[Counter[str]]:
    """Count the terms of each document."""
    return _texts(tokenizer(language)).terms_of(map(document_text, documents), len(documents))


def query_terms(queries: Sequence[str], language: str) -> list[QueryTerms]:
    """Count the terms that each query looks for."""
    texts = [query_texts(query, language) for query in queries]
    count = _texts(tokenizer(language)).terms_of
    contents, wholes = (count((pair[part] for pair in texts), len(texts)) for part in (0, 1))
    return [QueryTerms(own, whole - own) for own, whole in zip(contents, wholes, strict=True)]


def snippets_of(
    query: str, texts: Sequence[str], language: str, passages: Sequence[int] | None = None
) -> list[Snippet]:
    """Return the part of each text that shows the most words of a query, or its beginning or passage."""
    # The words as they are written: SQLite takes their endings off again.
    plain = _texts(tokenizer(language).removeprefix(STEMMER))
    words = plain.terms_of([query_texts(query, language)[0]], 1)[0]
    spans = _texts(tokenizer(language)).spans_of(words, texts)
    return [_snippet(*each) for each in zip(texts, spans, passages or [0] * len(texts), strict=True)]


def beginning(text: str) -> str:
    """Return the beginning of a text, no longer than a snippet, up to the end of a word."""
    return _snippet(text, [], 0).text


@cache
def _texts(rules: str) -> _Texts:
    return _Texts(rules)


class _Texts:
    """Texts that a tokenizer of SQLite splits; nothing of them stays."""

    def __init__(self, rules: str) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._connection.execute(_SCHEMA.format(rules))
        self._connection.execute(VOCABULARY)
        self._connection.execute(f'CREATE VIRTUAL TABLE hits USING fts5(text, tokenize="{rules}")')

    def terms_of(self, texts: Iterable[str], count: int) -> list[Counter[str]]:
        """Count the terms of each text."""
        found: list[Counter[str]] = [Counter() for _ in range(count)]
        with self._inserted("keywords", texts):
            for term, place in self._connection.execute("SELECT term, doc FROM terms"):
                found[place][term] += 1
        return found

    def spans_of(self, words: Iterable[str], texts: Sequence[str]) -> list[list[_Span]]:
        """Return where words are in each text, in order, by SQLite's `highlight()`."""
        found: list[list[_Span]] = [[] for _ in texts]
        query = " OR ".join(f'"{word}"' for word in words)
        if not query:
            return found
        unused = (mark for mark in map(chr, _MARKS) if not any(mark in text for text in texts))
        opening, closing = islice(unused, 2)
        # A NUL would end what SQLite gives back.
        with self._inserted("hits", (document_text(text).replace("\0", " ") for text in texts)):
            rows = self._connection.execute(
                "SELECT rowid, highlight(hits, 0, ?, ?) FROM hits WHERE hits MATCH ?",
                (opening, closing, query),
            ).fetchall()
        for number, marked in rows:
            spans = []
            for count, match in enumerate(re.finditer(f"{opening}([^{closing}]*){closing}", marked)):
                spans.append((match.start() - 2 * count, match.start() - 2 * count + len(match[1])))
            found[number] = _original(texts[number], spans)
        return found

    @contextlib.contextmanager
    def _inserted(self, table: str, texts: Iterable[str]) -> Iterator[None]:
        with self._lock:
            self._connection.execute("BEGIN")
            try:
                rows = enumerate(texts)
                self._connection.executemany(f"INSERT INTO {table} (rowid, text) VALUES (?, ?)", rows)
                yield
            finally:
                self._connection.execute("ROLLBACK")


def _original(text: str, spans: Iterable[_Span]) -> list[_Span]:
    """Return spans in a text, joined where they overlap, of spans in what the full-text index gets of it."""
    starts, stops = document_places(text)
    joined: list[_Span] = []
    for begin, end in spans:
        start, stop = int(starts[begin]), int(stops[end - 1])
        if joined and start < joined[-1][1]:
            start, last = joined.pop()
            stop = max(stop, last)
        joined.append((start, stop))
    return joined


def _snippet(text: str, spans: list[_Span], passage: int) -> Snippet:
    first, last = _densest(text, spans) if spans else (passage, passage)
    before = max(0, LENGTH - (last - first)) // 2 if spans else 0
    start = max(0, min(first - before, len(text) - LENGTH))
    stop = min(len(text), max(start + LENGTH, last))
    if start and (gap := re.compile(r"\s+").search(text, start, min(first, start + _SLACK))):
        start = gap.end()
    if stop < len(text) and (tail := re.search(r"\s+\S*$", text[max(last, stop - _SLACK) : stop])):
        stop = max(last, stop - _SLACK) + tail.start()
    inside = tuple((begin - start, end - start) for begin, end in spans if start <= begin and end <= stop)
    return Snippet(text[start:stop], start, inside)


def _densest(text: str, spans: list[_Span]) -> _Span:
    """Return the stretch, no longer than a snippet, with the most different words, then the most words."""
    best, most = spans[0], (0, 0)
    words: Counter[str] = Counter()
    first = 0
    for place, (begin, end) in enumerate(spans):
        words[text[begin:end].lower()] += 1
        while first < place and end - spans[first][0] > LENGTH:
            gone = text[slice(*spans[first])].lower()
            words[gone] -= 1
            if not words[gone]:
                del words[gone]
            first += 1
        if (len(words), place - first) > most:
            best, most = (spans[first][0], end), (len(words), place - first)
    return best
