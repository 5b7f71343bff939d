"""Metrics of ranked documents by trec_eval's definitions, for all queries at once.

All of them follow from the ranks that the documents with qrels have in a run: any other document is not
relevant. So the qrels and one rank each are all that has to be kept of a run.

A document is relevant from grade 1. The gain of NDCG is the grade itself, and 0 of a negative one; the ideal
order is that of all documents with qrels. A query without results counts 0, and so does one without a
relevant document; a mean is over all queries with qrels.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sentemb.data.retrieval import RELEVANT
from sentemb.errors import InputError

Double = npt.NDArray[np.float64]
Integers = npt.NDArray[np.integer[Any]]

METRICS = ("ndcg@10", "mrr@10", "map", "recall@10", "recall@100", "precision@10", "hit@10")
"""The metrics of records, the headline first."""

_NAME = re.compile(r"(ndcg|mrr|map|recall|precision|hit)(?:@([1-9]\d*))?")


class _Judged(NamedTuple):
    """Qrels, each with its rank; sorted by query."""

    queries: Integers  # the query's number, shape (qrels,)
    gains: Double  # shape (qrels,)
    ranks: Double  # from 1, infinite of a document that was not found among the first k
    relevant: npt.NDArray[np.bool_]
    size: int  # number of queries

    def per_query(self, values: Double | npt.NDArray[np.bool_]) -> Double:
        """Return the sum of each query, shape (queries,)."""
        sums: Double = np.bincount(self.queries, weights=values, minlength=self.size).astype(np.float64)
        return sums


def query_scores(metric: str, ranks: Integers, gold: Integers) -> Double:
    """Return the score of every query as a fraction, shape (queries,).

    Args:
        metric: `ndcg`, `mrr`, `map`, `recall`, `precision` or `hit`, with `@k` for the first k documents
            alone; precision needs it.
        ranks: The rank of each document with qrels in the run, from 1; 0 where it was not found. Shape
            (qrels,).
        gold: The query's number and the grade of each of the qrels, shape (qrels, 2), sorted by query; every
            query from 0 has one.
    """
    found = _NAME.fullmatch(metric)
    if found is None or (found[1] == "precision" and found[2] is None):
        raise InputError(f"unknown retrieval metric {metric!r}", f"choose among {', '.join(METRICS)}")
    cut = float(found[2] or np.inf)
    queries, grades = gold[:, 0], gold[:, 1].astype(np.float64)
    judged = _Judged(
        queries,
        np.maximum(grades, 0.0),
        np.where((ranks >= 1) & (ranks <= cut), ranks, np.inf).astype(np.float64),
        grades >= RELEVANT,
        int(queries[-1]) + 1,
    )
    if found[1] == "ndcg":
        return _ndcg(judged, cut)
    if found[1] == "mrr":
        first = np.full(judged.size, np.inf)
        np.minimum.at(first, judged.queries, np.where(judged.relevant, judged.ranks, np.inf))
        return 1.0 / first
    hits = judged.per_query(judged.relevant & np.isfinite(judged.ranks))
    if found[1] == "hit":
        return (hits > 0).astype(np.float64)
    if found[1] == "precision":
        return hits / cut
    part = hits if found[1] == "recall" else _sum_of_precisions(judged)
    return divide(part, judged.per_query(judged.relevant))


def _ndcg(judged: _Judged, cut: float) -> Double:
    order = np.lexsort((-judged.gains, judged.queries))
    places = 1.0 + _places(judged.queries[order])
    ideal = np.where(places <= cut, judged.gains[order] / np.log2(places + 1), 0.0)
    return divide(judged.per_query(judged.gains / np.log2(judged.ranks + 1)), judged.per_query(ideal))


def _sum_of_precisions(judged: _Judged) -> Double:
    """Sum the precision down to the rank of each relevant document that was found."""
    ranks = np.where(judged.relevant, judged.ranks, np.inf)
    order = np.lexsort((ranks, judged.queries))
    precisions = (1.0 + _places(judged.queries[order])) / ranks[order]
    return judged.per_query(precisions)


def _places(queries: Integers) -> Integers:
    """Return the place of each row among those of its query, from 0; rows are sorted by query."""
    starts = np.searchsorted(queries, queries)
    return np.arange(len(queries)) - starts


def divide(part: Double, whole: Double) -> Double:
    """Return quotients, and 0 where the divisor is 0."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
