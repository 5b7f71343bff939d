"""What a search finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sentemb.search.passages import Span


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found.

    Args:
        id: The document's id as the user gave it.
        score: Cosine or inner product with the query, BM25 of keyword search, or the sum of both
            in standard units; larger is better. IVF-PQ scores come from rounded vectors and are off by some
            thousandths.
        text: The document's text.
        metadata: The document's metadata.
        percentile: How many percent of random pairs of the index's texts have a lower score, up to the
            calibration's `most`; None of keywords and where the index has no calibration.
        snippet: What shows the words of the query; None of `dense` search.
        passage: The part of the text that has the score, `text[passage.start : passage.stop]`, where the text
            is longer than the model reads; None of keywords and where it is the whole text.

    Example:
        >>> hit = SearchIndex.load("index").search("order a dictionary", k=1)[0]
        >>> hit.id, round(hit.score, 2)
        ('py-1', 0.5)
    """

    id: str | int
    score: float
    text: str
    metadata: Mapping[str, Any]
    percentile: float | None = None
    snippet: Snippet | None = None
    passage: Span | None = None
