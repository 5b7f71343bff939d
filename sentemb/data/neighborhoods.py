"""Neighborhoods of documents: what keyword search and latent semantic analysis both take for related."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from sentemb._threads import one_blas_thread
from sentemb.data.bm25 import bm25_scores, bm25_weights, count_query_terms, count_terms

Double = npt.NDArray[np.float64]

AXES = 100
"""Dimensions of the latent space."""
_NEAREST = 30  # by either way
_LARGEST, _SMALLEST = 10, 3  # documents of a neighborhood, without its center
_BLOCK = 64


class Neighborhood(NamedTuple):
    """A document and those that are related to it.

    Attributes:
        center: Its row.
        others: The rows of the others, the nearest first.
    """

    center: int
    others: list[int]


class Neighborhoods:
    """Find the neighborhood of a document among some texts.

    Two documents are neighbors if each way, BM25 with the words of the one as the query and the cosine of
    latent semantic analysis, has the other among its 30 nearest. Neither way alone decides, since either is
    a search system that would then be asked for its own answers.

    Args:
        texts: The documents, each once.
        language: Code of their language.
    """

    def __init__(self, texts: Sequence[str], language: str) -> None:
        counts, self.terms = count_terms(texts, language)
        self.weights = bm25_weights(counts)
        self._texts, self._language = texts, language
        self._latent = latent_vectors(counts)

    def around(self, rows: Sequence[int]) -> Iterator[Neighborhood]:
        """Yield the neighborhood of each of some rows that has one of at least three documents."""
        asked, _ = count_query_terms([self._texts[row] for row in rows], self._language, self.terms)
        asked.content.data = np.minimum(asked.content.data, 1.0)
        scores = (row for block in bm25_scores(self.weights, asked, _BLOCK) for row in block)
        for center, by_words in zip(rows, scores, strict=True):
            with one_blas_thread():
                cosines = self._latent @ self._latent[center]
            related = set(_nearest(cosines, center))
            both = [row for row in _nearest(by_words, center) if row in related and by_words[row] > 0]
            if len(both) >= _SMALLEST:
                yield Neighborhood(center, both[:_LARGEST])


def latent_vectors(counts: csr_array, *, fitted_on: int | None = None) -> Double:
    """Return unit vectors of latent semantic analysis.

    Args:
        counts: Counts of terms, shape (texts, terms).
        fitted_on: The axes and the weights of terms come from so many of the first texts; from all by
            default.

    Returns:
        Vectors of shape (texts, at most 100); zero for a text without a known term.
    """
    known = counts[:fitted_on]
    size = min(AXES, min(known.shape) - 1)
    if size < 1:
        return np.ones((counts.shape[0], 1))
    holding = np.bincount(known.indices, minlength=counts.shape[1])
    weighted = counts.copy()
    weighted.data = 1 + np.log(weighted.data)
    weighted.data *= (np.log((1 + known.shape[0]) / (1 + holding)) + 1)[counts.indices]
    with one_blas_thread():
        axes = svds(weighted[:fitted_on], k=size, v0=np.ones(min(known.shape)))[2].T
        found: Double = np.asarray(weighted @ axes)
    lengths = np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
    return np.asarray(found / lengths)


def _nearest(scores: Double, center: int) -> list[int]:
    """Return the rows with the highest scores, without the center; of equal ones the first."""
    count = min(_NEAREST + 1, len(scores))
    found = np.argpartition(-scores, count - 1)[:count]
    ordered = found[np.lexsort((found, -scores[found]))].tolist()
    return [row for row in ordered if row != center][:_NEAREST]
