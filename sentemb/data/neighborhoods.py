"""Related documents: neighborhoods by two ways of search, and those that share rare words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from sentemb._threads import one_blas_thread
from sentemb.data.bm25 import (
    CountedQueries,
    Double,
    bm25_scores,
    bm25_weights,
    count_query_terms,
    count_terms,
)

AXES = 100
"""Dimensions of the latent space."""
_NEAREST = 30  # by either way
_LARGEST, _SMALLEST = 10, 3  # documents of a neighborhood, without its center
_QUERIES = 64  # at a time
SIMILAR = 16
MARGIN = 0.6
"""A document that scores this share of what a document scores itself may say the same, and is not a negative
(the percentage of the positive's score: Moreira et al., NV-Retriever. 2024)."""
_SCORES = 1 << 24  # at a time


class Neighborhood(NamedTuple):
    """The row of a document, and the rows of its neighbors, the nearest first."""

    center: int
    others: list[int]


class Neighborhoods:
    """Find the neighborhood of a document among some texts.

    Two documents are neighbors if each way, BM25 with the words of the one as the query and the cosine of
    latent semantic analysis, has the other among its 30 nearest. Neither way alone decides, since each is a
    search system that would then be evaluated on its own results.

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
        """Yield the neighborhood of each row that has one of at least three documents."""
        queries, _ = count_query_terms([self._texts[row] for row in rows], self._language, self.terms)
        queries.content.data = np.minimum(queries.content.data, 1.0)
        scores = (row for block in bm25_scores(self.weights, queries, _QUERIES) for row in block)
        for center, by_words in zip(rows, scores, strict=True):
            with one_blas_thread():
                cosines = self._latent @ self._latent[center]
            related = set(_nearest(cosines, center))
            both = [row for row in _nearest(by_words, center) if row in related and by_words[row] > 0]
            if len(both) >= _SMALLEST:
                yield Neighborhood(center, both[:_LARGEST])


def latent_vectors(counts: csr_array, *, fitted_on: int | None = None) -> Double:
    """Return unit vectors of latent semantic analysis, (texts, at most 100), from counts (texts, terms).

    The axes and the weights of terms come from the first `fitted_on` texts, or from all. The vector of a text
    without a known term is zero.
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


def similar_documents(texts: Sequence[str], *, language: str) -> list[list[int]]:
    """Return up to 16 similar texts of each text by BM25, the nearest first, without its near copies."""
    counts, _ = count_terms(texts, language)
    weights = bm25_weights(counts)
    terms = counts.copy()
    terms.data = np.minimum(terms.data, 1.0)
    queries = CountedQueries(terms, csr_array(terms.shape))
    found: list[list[int]] = []
    size = min(SIMILAR, len(texts) - 1)
    for block in bm25_scores(weights, queries, max(1, _SCORES // len(texts))):
        for scores in block:
            number = len(found)
            scores[(scores >= MARGIN * scores[number]) | (scores <= 0)] = -1.0
            scores[number] = -1.0
            best = np.argpartition(-scores, size)[:size] if size else np.empty(0, dtype=np.intp)
            best = best[scores[best] > 0]
            found.append(best[np.argsort(-scores[best], kind="stable")].tolist())
    return found
