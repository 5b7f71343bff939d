"""Scores that follow from predictions: correlations over subsets, and metrics of classes.

A year of STS is several subsets. `all` concatenates them and takes one correlation (SBERT, SimCSE, SG-BERT),
`mean` averages the subsets' correlations (SentEval), `wmean` weighs that average by their sizes (BERT-flow).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sentemb.data.sts import Subset
from sentemb.evaluation.correlation import CORRELATIONS, correlate
from sentemb.evaluation.retrieval.metrics import METRICS as RETRIEVAL_METRICS
from sentemb.evaluation.retrieval.metrics import divide

Protocol = Literal["all", "mean", "wmean"]
PROTOCOLS: tuple[Protocol, ...] = ("all", "mean", "wmean")
METRICS = (*CORRELATIONS, "mse", "accuracy", "f1", "macro_f1", "matthews", *RETRIEVAL_METRICS)

Array = npt.NDArray[Any]
Double = npt.NDArray[np.float64]


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
    if metric == "mse":
        return float(np.mean((predictions - gold) ** 2))
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
