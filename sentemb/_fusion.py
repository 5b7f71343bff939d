"""One ranking of two: what an encoder finds for a query, and what keyword search finds.

A ranking is of one query: the numbers of documents, the best first and each once, and their scores. Weights
say how much of the whole is the encoder's: 1 is the encoder alone, 0 keyword search alone, 0.5 both alike.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.integer[Any]]
Double = npt.NDArray[np.float64]

RRF_K = 60
"""The constant of Cormack, Clarke and Buettcher: Reciprocal Rank Fusion outperforms Condorcet. SIGIR 2009."""
FUSED = 1000
"""How many documents of each ranking are fused, where there are so many."""


class Ranking(NamedTuple):
    """What was found for a query, the best first."""

    documents: Integers  # their numbers, each once
    scores: npt.NDArray[np.floating[Any]]  # higher is better


def fuse(dense: Ranking, keyword: Ranking, weight: float = 0.5, depth: int | None = None) -> Ranking:
    """One ranking of an encoder's and keyword search's; of equal scores the smallest number comes first.

    Args:
        dense: What the encoder found; 1,000 documents (`FUSED`) are usual, none is allowed.
        keyword: What keyword search found.
        weight: The encoder's share, from 0 to 1.
        depth: How many documents are wanted; by default all that either ranking has.

    Returns:
        The fused ranking.

    Example:
        >>> fuse(Ranking(np.array([7, 3]), np.array([0.9, 0.8])), Ranking(np.array([3]), np.array([5.0])))
        Ranking(documents=array([3, 7]), scores=array([0.03252247, 0.01639344]))
    """
    documents, scores = fused_scores(dense, keyword, weight)
    order = np.lexsort((documents, -scores))[:depth]
    return Ranking(documents[order], scores[order])


def fused_scores(dense: Ranking, keyword: Ranking, weight: float = 0.5) -> Ranking:
    """The score of every document of two rankings, in the order of their numbers.

    It is reciprocal rank fusion: 2 x `weight` / (60 + the encoder's rank) + 2 x (1 - `weight`) / (60 + the
    rank in keyword search), without the term of a ranking that does not have the document.

    Args:
        dense: What the encoder found.
        keyword: What keyword search found.
        weight: The encoder's share, from 0 to 1.

    Returns:
        The documents and their scores, not yet ranked.
    """
    parts = ((dense, 2 * weight), (keyword, 2 * (1 - weight)))
    found = np.concatenate([part.documents for part, _ in parts])
    gains = np.concatenate([own / (RRF_K + 1 + np.arange(len(part.documents))) for part, own in parts])
    documents, place = np.unique(found, return_inverse=True)
    return Ranking(documents, np.bincount(place, weights=gains, minlength=len(documents)).astype(np.float64))
