"""How scores follow from predictions: correlations over subsets, and metrics of classes.

A year of STS is several subsets. `all` concatenates them and takes one correlation (SBERT, SimCSE, SG-BERT),
`mean` averages the subsets' correlations (SentEval), `wmean` weighs that average by their sizes (BERT-flow).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from sentemb.data.sts import Subset
from sentemb.evaluation.correlation import correlation_of
from sentemb.evaluation.retrieval.metrics import METRICS as RETRIEVAL_METRICS

Protocol = Literal["all", "mean", "wmean"]
PROTOCOLS: tuple[Protocol, ...] = ("all", "mean", "wmean")

Array = npt.NDArray[Any]
Double = npt.NDArray[np.float64]


def combine(parts: Sequence[float], sizes: Sequence[int], protocol: Protocol) -> float:
    """The score of a set from those of its subsets, under `mean` or `wmean`."""
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
    """The score that predictions give, as a fraction."""
    function = METRICS[metric]
    if protocol == "all" or len(subsets) < 2:
        return function(predictions, gold, classes)
    parts = [slice(subset.start, subset.stop) for subset in subsets]
    scores = [function(predictions[part], gold[part], classes) for part in parts]
    return combine(scores, [part.stop - part.start for part in parts], protocol)


def scores_of_counts(metric: str, counts: npt.NDArray[np.floating]) -> Double:
    """Metrics of many confusion matrices (..., gold classes, predicted classes) at once, as fractions."""
    hits = np.diagonal(counts, axis1=-2, axis2=-1).astype(np.float64)  # (..., classes)
    labels, predicted = counts.sum(axis=-1), counts.sum(axis=-2)  # (..., classes)
    total = labels.sum(axis=-1)  # (...)
    if metric == "accuracy":
        return np.asarray(hits.sum(axis=-1) / total)
    if metric == "matthews":
        covariance = hits.sum(axis=-1) * total - (labels * predicted).sum(axis=-1)
        spread = (total**2 - (labels**2).sum(axis=-1)) * (total**2 - (predicted**2).sum(axis=-1))
        return _ratio(covariance, np.sqrt(spread))
    each = f1_of_classes(counts)
    return np.asarray(each[..., 1] if metric == "f1" else each.mean(axis=-1))


def f1_of_classes(counts: npt.NDArray[np.floating]) -> Double:
    """The F1 of each class (..., classes) of confusion matrices; 0 of a class that neither side has."""
    hits = np.diagonal(counts, axis1=-2, axis2=-1).astype(np.float64)  # (..., classes)
    return _ratio(2 * hits, counts.sum(axis=-1) + counts.sum(axis=-2))


def confusion(predictions: Array, gold: Array, classes: int = 0) -> Double:
    """How often each class (rows) was called each (columns); at least as many classes as there are."""
    first, second = predictions.astype(np.intp), gold.astype(np.intp)
    count = max(classes, int(first.max()) + 1, int(second.max()) + 1, 2)
    counts = np.bincount(second * count + first, minlength=count * count).reshape(count, count)
    return counts.astype(np.float64)


def _pearson(predictions: Array, gold: Array, classes: int = 0) -> float:
    return correlation_of(predictions.astype(np.float64), gold)


def _spearman(predictions: Array, gold: Array, classes: int = 0) -> float:
    return _pearson(stats.rankdata(predictions), stats.rankdata(gold))


def _mean(predictions: Array, gold: Array, classes: int = 0) -> float:
    return float(np.mean(predictions))


def _mse(predictions: Array, gold: Array, classes: int = 0) -> float:
    return float(np.mean((predictions - gold) ** 2))


def _of_classes(metric: str) -> Callable[[Array, Array, int], float]:
    def score(predictions: Array, gold: Array, classes: int = 0) -> float:
        return float(scores_of_counts(metric, confusion(predictions, gold, classes)))

    return score


METRICS: Mapping[str, Callable[[Array, Array, int], float]] = {
    "pearson": _pearson,
    "spearman": _spearman,
    "mse": _mse,
    **{metric: _of_classes(metric) for metric in ("accuracy", "f1", "macro_f1", "matthews")},
    **dict.fromkeys(RETRIEVAL_METRICS, _mean),
}
"""Of predictions, gold and the number of classes; of retrieval the predictions are the scores of queries."""


def _ratio(part: Double, whole: Double) -> Double:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
