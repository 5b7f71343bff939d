"""Ranking the candidates of small codes by what their texts say: they are encoded again while searching.

Codes of half a byte a dimension lose the order of the nearest texts, but hardly any of them is far down in
it. An encoder that is quick enough tells their vectors again, to the bit, from texts that the index has
anyway; so the scores are exact, and no byte is kept for it.
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
"""What ranks the candidates of small codes: their texts, encoded again, or nothing; `auto` takes the texts
where the encoder looks its tokens up, some ten thousand texts a second."""

K = 10
STEPS = (25, 50, 100, 200, 400)
"""Texts that are encoded for a search with 10 hits; the fewest that reach the recall are taken."""
# Hits by the thousand, as hybrid search takes, are worth no more texts than hits.
_MOST = 1_000
# Of a batch of searches at a time: 4 MB of vectors.
_TEXTS = 4_096

VectorsOf = Callable[[Numbers], Vectors | None]
"""The exact vectors (n, dim) of rising numbers, as they are compared; None where there are none any more."""


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


def rescores(wanted: Rescore, details: Mapping[str, Any]) -> bool:
    """Whether texts are encoded again, by what an encoder says of itself."""
    return wanted == "texts" or (wanted == "auto" and details.get("backend") == BAGS)


def again(encoder: TextEncoder, wanted: Rescore) -> Callable[[], TextEncoder] | None:
    """An encoder for the texts of candidates, if they shall be encoded again."""
    return (lambda: encoder) if rescores(wanted, encoder.describe()) else None


def candidates(texts: int, k: int) -> int:
    """How many texts are encoded for so many hits, where 10 take `texts`."""
    return max(k, texts, min(texts * k // K, _MOST))


def rescored(
    queries: Vectors, numbers: Numbers, vectors_of: VectorsOf, k: int
) -> tuple[Vectors, Numbers] | None:
    """The best of candidates by their exact scores.

    Args:
        queries: (q, dim).
        numbers: Their candidates, (q, c); -1 where there are fewer.
        vectors_of: Gives the vectors of numbers.
        k: How many to keep, at most c.

    Returns:
        Scores and numbers, (q, k) each, best first; None where a vector is gone.
    """
    scores = np.full(numbers.shape, -np.inf, dtype=np.float32)
    step = max(1, _TEXTS // numbers.shape[1])
    for start in range(0, len(queries), step):
        some = slice(start, start + step)
        unique, places = np.unique(numbers[some], return_inverse=True)
        there = unique[unique >= 0]
        vectors = vectors_of(there)
        if vectors is None:
            return None
        found = places.reshape(numbers[some].shape) - (len(unique) - len(there))
        # One product for each query, whose bits do not depend on the others.
        exact = np.matmul(vectors[found], queries[some, :, None])[:, :, 0] if len(there) else -np.inf
        scores[some] = np.where(found >= 0, exact, -np.inf)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, best, 1), np.take_along_axis(numbers, best, 1)
