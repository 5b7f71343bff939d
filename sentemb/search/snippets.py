"""Where the words of a query are in a document: found by the tokenizer that found the document."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice

from sentemb.data.keywords import document_places, document_text, tokenizer
from sentemb.search.hit import Snippet
from sentemb.search.keywords import query_words, rolled_back

Span = tuple[int, int]

LENGTH = 200
"""Characters of a snippet, about two lines of a terminal."""
_SLACK = 20  # characters given up so that a snippet begins and ends between words
_MARKS = range(0xF0000, 0x10FFFE)  # characters for private use


def snippets_of(
    query: str, texts: Sequence[str], language: str, passages: Sequence[int] | None = None
) -> list[Snippet]:
    """The part of each text that shows the most words of a query, or where it begins or its best passage."""
    spans = _highlighter(language).spans_of(query, texts)
    starts = passages or [0] * len(texts)
    return [_snippet(*each) for each in zip(texts, spans, starts, strict=True)]


@cache
def _highlighter(language: str) -> _Highlighter:
    return _Highlighter(language)


class _Highlighter:
    """SQLite's `highlight()`, over nothing but the hits."""

    def __init__(self, language: str) -> None:
        self._lock = threading.Lock()
        self._language = language
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._connection.execute(
            f'CREATE VIRTUAL TABLE hits USING fts5(text, tokenize="{tokenizer(language)}")'
        )

    def spans_of(self, query: str, texts: Sequence[str]) -> list[list[Span]]:
        """The words of each text that are words of the query, in order."""
        found: list[list[Span]] = [[] for _ in texts]
        # The words as they are written: SQLite takes their endings off again.
        words = query_words(query, self._language)
        if not words:
            return found
        unused = (mark for mark in map(chr, _MARKS) if not any(mark in text for text in texts))
        opening, closing = islice(unused, 2)
        wanted = " OR ".join(f'"{word}"' for word in words)
        run = self._connection.execute
        with self._lock, rolled_back(self._connection):
            for number, text in enumerate(texts):  # a NUL would end what SQLite gives back
                row = (number, document_text(text).replace("\0", " "))
                run("INSERT INTO hits (rowid, text) VALUES (?, ?)", row)
            ask = "SELECT rowid, highlight(hits, 0, ?, ?) FROM hits WHERE hits MATCH ?"
            rows = run(ask, (opening, closing, wanted)).fetchall()
        for number, marked in rows:
            found[number] = _original(texts[number], _marked(marked, opening, closing))
        return found


def _marked(text: str, opening: str, closing: str) -> Iterator[Span]:
    """The marked places of a text, counted without the marks."""
    for count, match in enumerate(re.finditer(f"{opening}([^{closing}]*){closing}", text)):
        start = match.start() - 2 * count
        yield start, start + len(match[1])


def _original(text: str, spans: Iterator[Span]) -> list[Span]:
    """Spans in a text, joined where they overlap, of spans in what the full-text index is given of it."""
    starts, stops = document_places(text)
    joined: list[Span] = []
    for begin, end in spans:
        start, stop = int(starts[begin]), int(stops[end - 1])
        if joined and start < joined[-1][1]:
            start, last = joined.pop()
            stop = max(stop, last)
        joined.append((start, stop))
    return joined


def beginning(text: str) -> str:
    """Return the beginning of a text, no longer than a snippet, up to the end of a word."""
    return _snippet(text, [], 0).text


def _snippet(text: str, spans: list[Span], passage: int) -> Snippet:
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


def _densest(text: str, spans: list[Span]) -> Span:
    """The stretch of text, no longer than a snippet, with the most different words, then the most words."""
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
