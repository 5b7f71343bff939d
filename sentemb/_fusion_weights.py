"""How much an encoder's ranking and keyword search's should weigh, by queries whose documents are known.

The queries are a user's judged ones, or are cut from the documents themselves, where nothing is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from sentemb._fusion import EVEN, Double, Integers, Ranking, in_units

_WEIGHTS = np.linspace(0.0, 1.0, 21)
_DEPTH = 10
_DISCOUNTS = 1 / np.log2(np.arange(_DEPTH) + 2.0)
# Queries that are cut from documents are not users': neither ranking is left with little, and keyword search
# not with less than 0.3, for an encoder that knows nothing but topics finds such documents too.
_CUT_FROM, _CUT_TO = 0.25, 0.7
# Standard errors by which a weight may be worse than the best and still be chosen for being nearer to 0.5. A
# gain on real queries is worth more than one on generated queries.
_TOLERANCE, _CUT_TOLERANCE = 1.0, 2.0
# Of what both rankings find, the part below which one of them is bad: less than half of the other's.
_BAD = 1 / 3


class Judged(NamedTuple):
    """A query that was answered by both, and what would have been right."""

    dense: Ranking
    keyword: Ranking
    total: int  # how many documents were searched
    grades: Mapping[int, float]  # of the relevant documents, by their numbers; above 0


class Fit(NamedTuple):
    """A weight for `fuse`, and what it comes from: mean NDCG@10 of the queries, from 0 to 1."""

    weight: float
    dense: float  # the encoder alone
    keyword: float  # keyword search alone
    fused: float  # both, with the weight
    queries: int

    def reason(self, queries: str) -> str:
        """Say which way the weight leans, and why.

        Args:
            queries: What the queries are, such as `queries with qrels`.

        Returns:
            Half a sentence.
        """
        side = "keyword search" if self.weight < EVEN else "dense search"
        way = "weights both equally" if abs(self.weight - EVEN) < 0.01 else f"favors {side}"
        return (
            f"{way} (dense weight {self.weight:.2f}): NDCG@10 on {self.queries} {queries} is "
            f"{100 * self.dense:.1f} for dense search, {100 * self.keyword:.1f} for keyword search and "
            f"{100 * self.fused:.1f} for both"
        )


def fit_weight(queries: Iterable[Judged]) -> Fit:
    """The weight by judged queries; ten of them are better than none, fifty are plenty.

    Of all weights that are at most one standard error of the queries' differences worse than the best, it is
    the one that is nearest to 0.5; where one ranking finds less than half of what the other does, nearest to
    the encoder's part of what both find. So few queries move it only where they agree.

    Args:
        queries: The queries with both rankings.

    Returns:
        The weight; `EVEN` where there is no query, or none that either ranking answers.
    """
    return _fit(_scores(queries), 0.0, 1.0, _TOLERANCE)


def lean(queries: Iterable[Judged]) -> Fit:
    """The weight by queries that are cut from the documents, see `sentemb.data.generated_queries`.

    As `fit_weight`, but within two standard errors, from 0.25 to 0.7, and never leaning on a ranking that
    finds less than half of what the other does.

    Args:
        queries: The queries with both rankings.

    Returns:
        The weight; `EVEN` where there is no query, or none that either ranking answers.
    """
    scores = _scores(queries)
    share = _share(scores)
    low, high = EVEN if share > 1 - _BAD else _CUT_FROM, EVEN if share < _BAD else _CUT_TO
    return _fit(scores, low, high, _CUT_TOLERANCE)


def _scores(queries: Iterable[Judged]) -> Double:
    """NDCG@10 of every query at every weight, shape (queries, weights)."""
    rows = [_query_scores(one) for one in queries]
    return np.array(rows).reshape(len(rows), len(_WEIGHTS))


def _query_scores(query: Judged) -> Double:
    documents, own, other = in_units(query.dense, query.keyword, query.total)
    ideal = np.sort(np.array([*query.grades.values()], dtype=np.float64))[::-1][:_DEPTH]
    best = float(ideal @ _DISCOUNTS[: len(ideal)])
    if best <= 0 or not len(documents):
        return np.zeros(len(_WEIGHTS))
    gains = np.array([query.grades.get(int(document), 0.0) for document in documents])
    firsts = (_first(documents, weight * own + (1 - weight) * other) for weight in _WEIGHTS)
    return np.array([gains[first] @ _DISCOUNTS[: len(first)] for first in firsts]) / best


def _first(documents: Integers, scores: Double) -> Integers:
    """The places of the ten best, in order; of equal ones the smallest number first."""
    places = np.arange(len(scores))
    if len(scores) > _DEPTH:
        places = np.flatnonzero(scores >= np.partition(scores, -_DEPTH)[-_DEPTH])
    return places[np.lexsort((documents[places], -scores[places]))][:_DEPTH]


def _share(scores: Double) -> float:
    """Of what both find alone, the encoder's part."""
    keyword, dense = (float(scores[:, side].sum()) for side in (0, -1))
    return dense / (dense + keyword) if dense + keyword > 0 else EVEN


def _fit(scores: Double, low: float, high: float, tolerance: float) -> Fit:
    """Of the weights that are about as good as the best, the one nearest to where they start from."""
    if not len(scores):
        return Fit(EVEN, 0.0, 0.0, 0.0, 0)
    means, share = scores.mean(axis=0), _share(scores)
    apart = scores - scores[:, [int(means.argmax())]]
    error = apart.std(axis=0, ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else np.full(len(means), 1.0)
    near = _WEIGHTS[apart.mean(axis=0) >= -tolerance * error]
    start = np.clip(EVEN if _BAD <= share <= 1 - _BAD else share, low, high)
    weight = np.clip(near[np.abs(near - start).argmin()], low, high)
    fused = means[int(np.abs(_WEIGHTS - weight).argmin())]
    return Fit(round(float(weight), 4), float(means[-1]), float(means[0]), float(fused), len(scores))
