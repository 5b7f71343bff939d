"""One ranking of two: what an encoder finds for a query, and what keyword search finds.

A ranking is of one query: the numbers of documents, the best first and each once, and their scores. A weight
is the encoder's share: 1 is the encoder alone, 0 keyword search alone, 0.5 both alike.

Scores are fused, not ranks. Ranks hide how far the first document stands out, so that an encoder that cannot
read the documents' language weighs as much as one that can. A similarity counts by how many standard
deviations it is above the last of the ranking, the deviation being that of the query's similarities to all
documents; a keyword score counts in units of the root mean square of the query's 100 best.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.integer[Any]]
Double = npt.NDArray[np.float64]

RRF_K = 60
"""The constant of Cormack, Clarke and Buettcher: Reciprocal Rank Fusion outperforms Condorcet. SIGIR 2009."""
FUSED = 1000
"""How many documents of each ranking are fused, where there are so many."""
EVEN = 0.5
"""The weight where nothing is known of either ranking."""

# Measured: makes 0.5 lose least to the better ranking, over good encoders and bad ones.
_KEYWORD_UNITS = 8.0
_UNIT_OF = 100  # keyword scores
# Of similarities that are all alike, the deviation is nothing but rounding.
_LEAST_SPREAD = 1e-4  # of the largest
_NORMAL = NormalDist()


class Ranking(NamedTuple):
    """What was found for a query, the best first."""

    documents: Integers  # their numbers, each once
    scores: npt.NDArray[np.floating[Any]]  # higher is better


def fuse(
    dense: Ranking, keyword: Ranking, total: int, weight: float = EVEN, depth: int | None = None
) -> Ranking:
    """One ranking of an encoder's and keyword search's; of equal scores the smallest number comes first.

    Args:
        dense: What the encoder found, with cosines or inner products; 1,000 documents (`FUSED`) are usual,
            fewer make the estimate of their spread coarser, none is allowed.
        keyword: What keyword search found, with BM25 of at least 0.
        total: How many documents were searched.
        weight: The encoder's share, from 0 to 1.
        depth: How many documents are wanted; by default all that either ranking has.

    Returns:
        The fused ranking.

    Example:
        >>> dense = Ranking(np.array([7, 3, 5]), np.array([0.9, 0.8, 0.1]))
        >>> fuse(dense, Ranking(np.array([3]), np.array([5.0])), total=3).documents
        array([3, 7, 5])
    """
    documents, scores = fused_scores(dense, keyword, total, weight)
    order = np.lexsort((documents, -scores))[:depth]
    return Ranking(documents[order], scores[order])


def fused_scores(dense: Ranking, keyword: Ranking, total: int, weight: float = EVEN) -> Ranking:
    """The score of every document of two rankings, in the order of their numbers; see `fuse`."""
    documents, own, other = in_units(dense, keyword, total)
    return Ranking(documents, weight * own + (1 - weight) * other)


def fused_ranks(dense: Ranking, keyword: Ranking) -> Ranking:
    """Reciprocal rank fusion: a document's score is the sum of 1 / (60 + its rank) over the rankings.

    Args:
        dense: What the encoder found.
        keyword: What keyword search found.

    Returns:
        The documents of both in the order of their numbers, and their scores.
    """
    found = np.concatenate([dense.documents, keyword.documents])
    gains = np.concatenate([1 / (RRF_K + 1 + np.arange(len(part.documents))) for part in (dense, keyword)])
    documents, place = np.unique(found, return_inverse=True)
    return Ranking(documents, np.bincount(place, weights=gains, minlength=len(documents)).astype(np.float64))


def in_units(dense: Ranking, keyword: Ranking, total: int) -> tuple[Integers, Double, Double]:
    """What each ranking says of every document, in units that can be added.

    Args:
        dense: What the encoder found.
        keyword: What keyword search found.
        total: How many documents were searched.

    Returns:
        The documents of both in the order of their numbers; how many standard deviations each is above the
        encoder's last; and its keyword score. 0 of a document that a ranking does not have.
    """
    found = (dense.documents, keyword.documents)
    documents, place = np.unique(np.concatenate(found), return_inverse=True)
    own, other = np.zeros(len(documents)), np.zeros(len(documents))
    own[place[: len(dense.documents)]] = _standardised(dense.scores, total)
    other[place[len(dense.documents) :]] = _shares(keyword.scores)
    return documents, own, other


def _standardised(scores: npt.NDArray[np.floating[Any]], total: int) -> Double:
    """How many standard deviations similarities are above the last."""
    if len(scores) < 2:
        return np.ones(len(scores))
    above: Double = scores.astype(np.float64) - scores[-1]
    least = _LEAST_SPREAD * float(np.abs(scores).max())
    spread = max(_spread(above, max(total, len(scores))), least)
    return above / spread if spread > 0 else np.zeros(len(scores))


def _spread(scores: Double, total: int) -> float:
    """The deviation of the similarities to all documents: the slope of the found ones' normal Q-Q line.

    The first tenth is left out, for relevant documents do not belong to the background, and the last too,
    whose quantiles run to infinity where all documents were found.
    """
    first, last = len(scores) // 10, (len(scores) - 1) * 9 // 10
    ranks = np.unique(np.linspace(first, max(last, first + 1), 20).astype(int))
    normal = np.array([_NORMAL.inv_cdf(1 - (rank + 0.5) / total) for rank in ranks])
    centred = normal - normal.mean()
    return float(centred @ scores[ranks] / (centred @ centred))


def _shares(scores: npt.NDArray[np.floating[Any]]) -> Double:
    """Keyword scores in units of the root mean square of the first hundred."""
    exact: Double = scores.astype(np.float64)
    mean = float(np.sqrt(exact[:_UNIT_OF] @ exact[:_UNIT_OF] / _UNIT_OF))
    return exact * (_KEYWORD_UNITS / mean) if mean > 0 else np.zeros(len(scores))
