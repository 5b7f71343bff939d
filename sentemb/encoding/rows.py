"""Texts prepared once and then encoded in any batch: the door of the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sentemb._threads import one_thread
from sentemb.encoding.cache import CachedEncoder
from sentemb.encoding.encoder import TextEncoder, Vectors
from sentemb.encoding.tokens import tokens_of


@dataclass(frozen=True)
class ReadyTexts:
    """Texts that only have to be computed."""

    texts: Sequence[str]
    lengths: NDArray[np.int64]  # tokens that the model reads of each, prompt and special tokens included
    cut: Sequence[int]  # which of them are longer than the model reads
    content: Any = None  # what the row encoder that prepared them computes with
    vectors: Vectors | None = None  # (n, dim), if preparing them was all there is to do


Rows = Sequence[tuple[ReadyTexts, NDArray[np.intp]]]
"""Prepared texts, each with the rows of it to compute."""


def texts_of(rows: Rows) -> list[str]:
    """Return the texts of rows."""
    return [ready.texts[place] for ready, places in rows for place in places]


class RowEncoder(Protocol):
    """Encodes texts one batch at a time, with the bits that `TextEncoder.encode` gives."""

    @property
    def by_length(self) -> bool:
        """True if the texts of a batch must have one length; else a batch is one text."""

    def prepare(self, texts: Sequence[str]) -> ReadyTexts:
        """Prepare texts."""

    def compute(self, rows: Rows) -> Vectors:
        """Encode texts of one length, or a single one, as one batch, (rows, dimension)."""


def row_encoder(encoder: Any) -> RowEncoder:
    """Return the row encoder of an encoder: itself, if it is one; a cache is not used."""
    if isinstance(encoder, CachedEncoder):
        return row_encoder(encoder.encoder)
    return encoder if getattr(encoder, "by_length", False) else _TextRows(encoder)


class _TextRows:
    """Any encoder as a row encoder: each text alone, since nothing is known of how it batches."""

    by_length = False

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder

    def prepare(self, texts: Sequence[str]) -> ReadyTexts:
        """Count tokens, or words if the encoder does not have tokens."""
        tokens = tokens_of(self._encoder)
        if tokens is None:
            return ReadyTexts(texts, np.array([len(text.split()) for text in texts], dtype=np.int64), ())
        counts = np.array(tokens.counts(texts), dtype=np.int64)
        cut = np.flatnonzero(counts > tokens.room).tolist()
        return ReadyTexts(texts, np.minimum(counts, tokens.room) + tokens.overhead, cut)

    def compute(self, rows: Rows) -> Vectors:
        """Encode each text alone."""
        return np.concatenate([self._encoder.encode([text]) for text in texts_of(rows)])


def compare_batches(encoder: TextEncoder, texts: Sequence[str]) -> tuple[int, float]:
    """Return how many texts have a vector that depends on the batch, and the largest difference."""
    together = encoder.encode(texts)
    halves = np.empty_like(together)
    halves[0::2], halves[1::2] = encoder.encode(texts[0::2]), encoder.encode(texts[1::2])
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    with one_thread():
        unthreaded = encoder.encode(texts)
    largest = np.abs(np.stack([halves, alone, unthreaded]) - together).max(axis=(0, 2))  # (texts,)
    return int((largest > 0).sum()), float(largest.max())
