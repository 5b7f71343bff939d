"""The best of many scores, block by block: what is held does not grow with how many are compared."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int32]
Single = npt.NDArray[np.float32]

# Similarities that are held at a time: 64 MiB of float32.
_BLOCK = 1 << 24


class Hits(NamedTuple):
    """Documents found for a query, the best first."""

    documents: Numbers  # their numbers
    scores: Single


NOTHING = Hits(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32))


def rows_of_block(documents: int) -> int:
    """Return the number of queries that are compared with so many documents at a time."""
    return max(1, _BLOCK // max(documents, 1))


def ranked(
    documents: npt.NDArray[np.integer], scores: npt.NDArray[np.floating], places: Numbers | None, depth: int
) -> Hits:
    """The best of some documents, in order; of equal ones those with the lowest places, or numbers."""
    single = scores.astype(np.float32)
    order = np.lexsort((documents if places is None else places[documents], -single))[:depth]
    return Hits(documents[order].astype(np.int32), single[order])


def merged(
    before: Hits, documents: npt.NDArray[np.integer], scores: Single, places: Numbers | None, depth: int
) -> Hits:
    """The best of what was found before and of some more documents; scores of minus infinity do not count."""
    least = before.scores[-1] if len(before.documents) >= depth else -np.inf
    better = np.flatnonzero((scores >= least) & (scores > -np.inf))
    if len(better) > depth:
        some = scores[better]
        better = better[some >= np.partition(some, len(some) - depth)[len(some) - depth]]
    if not len(better):
        return before
    both = np.concatenate([before.documents, documents[better]])
    return ranked(both, np.concatenate([before.scores, scores[better]]), places, depth)
