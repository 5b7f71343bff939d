"""Scores that follow from predictions: correlations, also over subsets, and metrics of classes.

A year of STS is several subsets. `all` concatenates them and takes one correlation (SBERT, SimCSE, SG-BERT),
`mean` averages the subsets' correlations (SentEval), `wmean` weighs that average by their sizes (BERT-flow).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from sentemb.data.sts import Subset
from sentemb.evaluation.retrieval.metrics import METRICS as RETRIEVAL_METRICS
from sentemb.evaluation.retrieval.metrics import divide

Protocol = Literal["all", "mean", "wmean"]
PROTOCOLS: tuple[Protocol, ...] = ("all", "mean", "wmean")
CORRELATIONS = ("spearman", "pearson")
METRICS = (*CORRELATIONS, "accuracy", "f1", "macro_f1", "matthews", *RETRIEVAL_METRICS)

Array = npt.NDArray[Any]
Double = npt.NDArray[np.float64]
Floats = npt.NDArray[np.floating]

# Cosines of one and the same vector differ in their last bits; ranking them would correlate rounding noise.
EQUAL_WITHIN = 1e-12


class CorrelationError(ValueError):
    """A correlation does not exist; the text says why, without a name for the data."""


def correlate(
    metric: str, predictions: Floats, gold: Floats, *, noise: float = 0.0, default: float | None = None
) -> float:
    """Return Pearson's correlation in float64, or Spearman's with mean ranks for ties.

    Predictions that differ by no more than `noise` are equal; values that differ by `EQUAL_WITHIN` of the
    largest always are. Where no correlation exists, the result is `default`.

    Raises:
        CorrelationError: No correlation exists, and no default is given.
    """
    sides = [np.asarray(side, dtype=np.float64) for side in (predictions, gold)]
    if problem := _undefined(sides[0], sides[1], noise):
        if default is None:
            raise CorrelationError(problem)
        return default
    if metric == "spearman":
        sides = [stats.rankdata(side) for side in sides]
    # Sums, not dot products: the last bits of those depend on how many threads OpenBLAS has.
    centered = [side - side.mean() for side in sides]
    left, right = (side / np.sqrt(np.sum(side * side)) for side in centered)
    return float(np.clip(np.sum(left * right), -1.0, 1.0))


def _undefined(first: Floats, second: Floats, noise: float) -> str | None:
    """Return why there is no correlation."""
    if first.shape != second.shape or first.ndim != 1:
        return f"the numbers of similarities ({first.size}) and gold scores ({second.size}) differ"
    if first.size < 2:
        return f"a correlation needs at least 2 pairs, not {first.size}"
    for values, noun, least in ((first, "similarities", noise), (second, "gold scores", 0.0)):
        if broken := int(np.count_nonzero(~np.isfinite(values))):
            return f"{broken} of {values.size} {noun} are NaN or infinite"
        if np.ptp(values) <= max(least, EQUAL_WITHIN * np.abs(values).max()):
            return f"all {values.size} {noun} are equal"
    return None


def combine(parts: Sequence[float], sizes: Sequence[int], protocol: Protocol) -> float:
    """Return the score of a set from those of its subsets, under `mean` or `wmean`."""
    return float(np.mean(parts) if protocol == "mean" else np.average(parts, weights=sizes))


def measure(
    metric: str,
    predictions: Array,
    gold: Array,
    *,
    protocol: Protocol = "all",
    subsets: Sequence[Subset] = (),
    classes: int = 0,
) -> float:
    """Return the score of predictions as a fraction; NaN for a correlation that does not exist.

    For metrics of retrieval, the predictions are the scores of queries.
    """
    if protocol != "all" and len(subsets) > 1:
        rows = [slice(one.start, one.stop) for one in subsets]
        parts = [measure(metric, predictions[part], gold[part], classes=classes) for part in rows]
        return combine(parts, [part.stop - part.start for part in rows], protocol)
    if metric in CORRELATIONS:
        return correlate(metric, predictions, gold, default=float("nan"))
    if metric in RETRIEVAL_METRICS:
        return float(np.mean(predictions))
    return float(scores_of_counts(metric, confusion(predictions, gold, classes)))


def scores_of_counts(metric: str, counts: npt.NDArray[np.floating]) -> Double:
    """Return a metric of many confusion matrices (..., gold classes, predicted classes), as fractions."""
    hits = np.diagonal(counts, axis1=-2, axis2=-1).astype(np.float64)  # (..., classes)
    labels, predicted = counts.sum(axis=-1), counts.sum(axis=-2)  # (..., classes)
    total = labels.sum(axis=-1)  # (...)
    if metric == "accuracy":
        return np.asarray(hits.sum(axis=-1) / total)
    if metric == "matthews":
        covariance = hits.sum(axis=-1) * total - (labels * predicted).sum(axis=-1)
        spread = (total**2 - (labels**2).sum(axis=-1)) * (total**2 - (predicted**2).sum(axis=-1))
        return divide(covariance, np.sqrt(spread))
    each = f1_of_classes(counts)
    return np.asarray(each[..., 1] if metric == "f1" else each.mean(axis=-1))


def f1_of_classes(counts: npt.NDArray[np.floating]) -> Double:
    """Return the F1 of each class (..., classes) of confusion matrices; 0 of a class without rows."""
    hits = np.diagonal(counts, axis1=-2, axis2=-1).astype(np.float64)  # (..., classes)
    return divide(2 * hits, counts.sum(axis=-1) + counts.sum(axis=-2))


def confusion(predictions: Array, gold: Array, classes: int = 0) -> Double:
    """Count how often each class (rows) was predicted as each (columns), shape (classes, classes)."""
    first, second = predictions.astype(np.intp), gold.astype(np.intp)
    count = max(classes, int(first.max()) + 1, int(second.max()) + 1, 2)
    counts = np.bincount(second * count + first, minlength=count * count).reshape(count, count)
    return counts.astype(np.float64)
