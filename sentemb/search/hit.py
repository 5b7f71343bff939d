"""What a search finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found.

    Args:
        id: The document's id as the user gave it.
        score: Cosine or inner product with the query, BM25 of keyword search, or the sum of
            reciprocal ranks of both; larger is better. IVF-PQ
            scores come from rounded vectors and are off by some thousandths.
        text: The document's text.
        metadata: The document's metadata.
        percentile: How many percent of random pairs of the index's texts have a lower score, up to the
            calibration's `most`; None of keywords and where the index has no calibration.
    """

    id: str | int
    score: float
    text: str
    metadata: Mapping[str, Any]
    percentile: float | None = None
