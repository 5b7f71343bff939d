"""Ranking candidates by their exact vectors: those that the database has, or those of texts encoded again.

Codes of a quarter of a byte a dimension lose the order of the nearest vectors, but hardly any of them is far
down in it. A static encoder is quick enough to compute the vectors of a few hundred texts again, to the bit,
so that an index of it need not keep them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import numpy as np

from sentemb.encoding.encoder import BAGS, TextEncoder, Vectors
from sentemb.errors import InputError
from sentemb.search.plan import Metric
from sentemb.search.vectors import Numbers

Rescore = Literal["auto", "texts", "never"]
"""Whether an index of codes keeps no vectors and encodes the texts of candidates again; `auto` does so where
the encoder looks its tokens up, some ten thousand texts a second."""

K = 10
STEPS = (25, 50, 100, 200, 400)
"""Candidates that are ranked for a search with 10 hits; the fewest that reach the recall are taken."""
# Hits by the thousand, as hybrid search takes, are worth no more candidates than hits.
_MOST = 1_000
# Of a batch of searches at a time: 4 MB of vectors.
_ROWS = 4_096

VectorsOf = Callable[[Numbers], Vectors]
"""Gives the exact vectors (n, dim) of rising numbers, as they are compared."""


def metric_of(encoder: TextEncoder) -> Metric:
    """Return the metric that an encoder was trained for.

    Raises:
        InputError: An index does not have it.
    """
    own = getattr(encoder, "similarity", "cosine")
    if own not in get_args(Metric):
        raise InputError(
            f"{encoder.name} was trained for the {own} distance, which an index does not support",
            "build the index with --metric cosine, or --metric dot",
        )
    return "dot" if own == "dot" else "cosine"


def check_choices(metric: Any, rescore: Any) -> None:
    """Refuse how vectors are compared, or ranked again, where there is no such way."""
    if metric not in (None, *get_args(Metric)):
        raise InputError(f"unknown metric {metric!r}", "choose cosine or dot")
    if rescore not in get_args(Rescore):
        raise InputError(f"unknown rescore {rescore!r}", "choose auto, texts or never")


def encodes_again(rescore: Rescore, details: Mapping[str, Any]) -> bool:
    """Return whether texts are encoded again, by what an encoder says of itself."""
    return rescore == "texts" or (rescore == "auto" and details.get("backend") == BAGS)


def candidates(rescored: int, k: int) -> int:
    """Return how many candidates are ranked for so many hits, where 10 take `rescored`."""
    return max(k, rescored, min(rescored * k // K, _MOST))


def rescore(queries: Vectors, numbers: Numbers, vectors_of: VectorsOf, k: int) -> tuple[Vectors, Numbers]:
    """Rank candidates by their exact scores.

    Args:
        queries: (q, dim).
        numbers: Their candidates, (q, c); -1 where there are fewer.
        vectors_of: Gives the vectors of numbers.
        k: How many to keep, at most c.

    Returns:
        Scores and numbers, (q, k) each, best first; of equal scores the smallest number comes first.
    """
    scores = np.full(numbers.shape, -np.inf, dtype=np.float32)
    step = max(1, _ROWS // max(1, numbers.shape[1]))
    for start in range(0, len(queries), step):
        some = slice(start, start + step)
        unique, places = np.unique(numbers[some], return_inverse=True)
        there = unique[unique >= 0]
        if not len(there):
            continue
        vectors = vectors_of(there)
        found = places.reshape(numbers[some].shape) - (len(unique) - len(there))
        # Not a product of matrices: its last bits depend on the place of a row, and equal texts are equal.
        exact = np.einsum("qcd,qd->qc", vectors[found], queries[some])
        scores[some] = np.where(found >= 0, exact, -np.inf)
    best = np.lexsort((numbers, -scores), axis=-1)[:, :k]
    return np.take_along_axis(scores, best, 1), np.take_along_axis(numbers, best, 1)
