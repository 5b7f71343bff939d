"""Fusion of two rankings of a query: that of an encoder and that of keyword search.

A ranking holds the documents found for one query, best first and each once, and their scores. A weight is the
encoder's share: 1 is the encoder alone, 0 is keyword search alone, 0.5 weights both equally.

Scores are fused, not ranks. Ranks hide how far the first document stands out, so an encoder that does not
support the documents' language would weigh as much as one that does. A similarity is measured from the last
one of the ranking, in standard deviations of the query's similarities to all documents. A keyword score is
measured in units of the root mean square of the query's 100 best.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.integer[Any]]
Double = npt.NDArray[np.float64]

RRF_K = 60
"""The constant of Cormack, Clarke and Buettcher: Reciprocal Rank Fusion outperforms Condorcet. SIGIR 2009."""
FUSED = 1000
"""Maximum number of documents of each ranking that are fused."""
EVEN = 0.5
"""The weight if nothing is known about either ranking."""

# Measured: with it, the weight 0.5 loses least to the better ranking, over good and bad encoders.
_KEYWORD_UNITS = 8.0
_UNIT_OF = 100  # keyword scores
# If all similarities are equal, their deviation is only a rounding error.
_LEAST_SPREAD = 1e-4  # of the largest
_NORMAL = NormalDist()

_WEIGHTS = np.linspace(0.0, 1.0, 21)
_DEPTH = 10
_DISCOUNTS = 1 / np.log2(np.arange(_DEPTH) + 2.0)
# Generated queries differ from those of users, so each ranking keeps a minimum weight. That of keyword search
# is 0.3, since an encoder that only recognises topics finds the documents of generated queries too.
_GENERATED_FROM, _GENERATED_TO = 0.25, 0.7
# A weight nearer to 0.5 is preferred if it is worse than the best by at most this many standard errors. Gains
# on real queries count more than gains on generated queries.
_TOLERANCE, _GENERATED_TOLERANCE = 1.0, 2.0
# A ranking is bad if its share of the sum of both scores is lower: less than half of the other's score.
_BAD = 1 / 3


class Ranking(NamedTuple):
    """Documents found for a query, best first."""

    documents: Integers  # their numbers, each once
    scores: npt.NDArray[np.floating[Any]]  # higher is better


class Judged(NamedTuple):
    """A query with both rankings and its relevant documents."""

    dense: Ranking
    keyword: Ranking
    total: int  # number of searched documents
    grades: Mapping[int, float]  # of the relevant documents, by their numbers; above 0


@dataclass(frozen=True, slots=True)
class Fit:
    """A weight for `fuse`, with the mean NDCG@10 of the queries (0 to 1) that it is based on."""

    weight: float
    dense: float  # the encoder alone
    keyword: float  # keyword search alone
    fused: float  # both, with the weight
    queries: int

    @property
    def one_is_bad(self) -> bool:
        """Return whether the NDCG@10 of one side is less than half of the other's."""
        return min(self.dense, self.keyword) < _BAD * (self.dense + self.keyword)

    def reason(self, queries: str) -> str:
        """Return a clause that explains which side the weight favors; `queries` describes the queries."""
        side = "keyword search" if self.weight < EVEN else "dense search"
        way = "weights both equally" if abs(self.weight - EVEN) < 0.01 else f"favors {side}"
        return (
            f"{way} (dense weight {self.weight:.2f}): NDCG@10 on {self.queries} {queries} is "
            f"{100 * self.dense:.1f} for dense search, {100 * self.keyword:.1f} for keyword search and "
            f"{100 * self.fused:.1f} for both"
        )


def fuse(
    dense: Ranking, keyword: Ranking, total: int, weight: float = EVEN, depth: int | None = None
) -> Ranking:
    """Fuse the rankings of an encoder and of keyword search; ties are ordered by document number.

    The encoder's has cosines or inner products of usually 1,000 documents (`FUSED`): with fewer, the estimate
    of their spread is less precise. That of keyword search has BM25 scores of at least 0. `total` is the
    number of searched documents, `depth` that of those to return, by default all of both.
    """
    documents, scores = fused_scores(dense, keyword, total, weight)
    order = np.lexsort((documents, -scores))[:depth]
    return Ranking(documents[order], scores[order])


def fused_scores(dense: Ranking, keyword: Ranking, total: int, weight: float = EVEN) -> Ranking:
    """Return the score of every document of two rankings, in the order of their numbers; see `fuse`."""
    documents, own, other = _in_units(dense, keyword, total)
    return Ranking(documents, weight * own + (1 - weight) * other)


def fused_ranks(dense: Ranking, keyword: Ranking) -> Ranking:
    """Fuse by reciprocal ranks: a score is the sum of 1 / (60 + rank); see `fused_scores`."""
    found = np.concatenate([dense.documents, keyword.documents])
    gains = np.concatenate([1 / (RRF_K + 1 + np.arange(len(part.documents))) for part in (dense, keyword)])
    documents, place = np.unique(found, return_inverse=True)
    return Ranking(documents, np.bincount(place, weights=gains, minlength=len(documents)).astype(np.float64))


def fit_weight(queries: Iterable[Judged]) -> Fit:
    """Fit the weight on queries with qrels; ten queries already help, and fifty are plenty.

    Among all weights that are at most one standard error of the queries' differences worse than the best, the
    one nearest to 0.5 is chosen. If the score of one ranking is less than half of the other's, it is the one
    nearest to the encoder's share of the sum of both. So a few queries move the weight only if they agree.
    Without queries, or if neither ranking answers any, it is `EVEN`.
    """
    return _fit(_scores(queries), 0.0, 1.0, _TOLERANCE)


def lean(queries: Iterable[Judged]) -> Fit:
    """Fit the weight on queries that are generated from documents, see `sentemb.data.generated_queries`.

    Like `fit_weight`, but within two standard errors and from 0.25 to 0.7. It never favors a ranking whose
    score is less than half of the other's.
    """
    scores = _scores(queries)
    share = _share(scores)
    low, high = EVEN if share > 1 - _BAD else _GENERATED_FROM, EVEN if share < _BAD else _GENERATED_TO
    return _fit(scores, low, high, _GENERATED_TOLERANCE)


def _in_units(dense: Ranking, keyword: Ranking, total: int) -> tuple[Integers, Double, Double]:
    """Return the documents of both in ascending order, and both scores of each in comparable units."""
    found = (dense.documents, keyword.documents)
    documents, place = np.unique(np.concatenate(found), return_inverse=True)
    own, other = np.zeros(len(documents)), np.zeros(len(documents))
    own[place[: len(dense.documents)]] = _standardized(dense.scores, total)
    exact = keyword.scores.astype(np.float64)
    mean = float(np.sqrt(exact[:_UNIT_OF] @ exact[:_UNIT_OF] / _UNIT_OF))
    other[place[len(dense.documents) :]] = exact * (_KEYWORD_UNITS / mean) if mean > 0 else 0.0
    return documents, own, other


def _standardized(scores: npt.NDArray[np.floating[Any]], total: int) -> Double:
    """Return similarities minus the last one, in standard deviations."""
    if len(scores) < 2:
        return np.ones(len(scores))
    above: Double = scores.astype(np.float64) - scores[-1]
    _, spread = background(scores, total)
    return above / spread if spread > 0 else np.zeros(len(scores))


def background(scores: npt.NDArray[np.floating[Any]], total: int) -> tuple[float, float]:
    """Return mean and deviation of a query's similarities to all documents, by the normal Q-Q line.

    There are `total` documents. The scores are those of the best, at least two, falling. The first tenth is
    skipped because relevant documents do not belong to the background. The last tenth is skipped because its
    quantiles approach infinity if all documents were found.
    """
    total, exact = max(total, len(scores)), scores.astype(np.float64) - scores[-1]
    first, last = len(scores) // 10, (len(scores) - 1) * 9 // 10
    ranks = np.unique(np.linspace(first, max(last, first + 1), 20).astype(int))
    normal = np.array([_NORMAL.inv_cdf(1 - (rank + 0.5) / total) for rank in ranks])
    centred = normal - normal.mean()
    slope = float(centred @ exact[ranks] / (centred @ centred))
    mean = float(exact[ranks].mean() - slope * normal.mean() + scores[-1])
    return mean, max(slope, _LEAST_SPREAD * float(np.abs(scores).max()))


def _scores(queries: Iterable[Judged]) -> Double:
    """Return NDCG@10 of every query at every weight, (queries, weights)."""
    rows = [_query_scores(one) for one in queries]
    return np.array(rows).reshape(len(rows), len(_WEIGHTS))


def _query_scores(query: Judged) -> Double:
    documents, own, other = _in_units(query.dense, query.keyword, query.total)
    ideal = np.sort(np.array([*query.grades.values()], dtype=np.float64))[::-1][:_DEPTH]
    best = float(ideal @ _DISCOUNTS[: len(ideal)])
    if best <= 0 or not len(documents):
        return np.zeros(len(_WEIGHTS))
    gains = np.array([query.grades.get(int(document), 0.0) for document in documents])
    firsts = (_first(documents, weight * own + (1 - weight) * other) for weight in _WEIGHTS)
    return np.array([gains[first] @ _DISCOUNTS[: len(first)] for first in firsts]) / best


def _first(documents: Integers, scores: Double) -> Integers:
    """Return the positions of the ten best in order; ties are ordered by document number."""
    places = np.arange(len(scores))
    if len(scores) > _DEPTH:
        places = np.flatnonzero(scores >= np.partition(scores, -_DEPTH)[-_DEPTH])
    return places[np.lexsort((documents[places], -scores[places]))][:_DEPTH]


def _share(scores: Double) -> float:
    """Return the encoder's share of the sum of both scores."""
    keyword, dense = (float(scores[:, side].sum()) for side in (0, -1))
    return dense / (dense + keyword) if dense + keyword > 0 else EVEN


def _fit(scores: Double, low: float, high: float, tolerance: float) -> Fit:
    """Choose the weight nearest to the start among those that are about as good as the best."""
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
