"""The scores of a task, all of which follow from its gold labels and predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import StratifiedKFold

from sentemb.evaluation.correlation import CorrelationError, pearson, spearman
from sentemb.evaluation.measures import measure
from sentemb.evaluation.transfer.presets import PRESETS
from sentemb.evaluation.transfer.tasks import TransferTask, task_of

Rows = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

OUTER_SEED = 1111
"""Of the folds of tasks without a test split, whatever the classifier's seed."""
ROUNDING = 1e-5
"""Of grades in float32: what differs by less is noise."""


def task_scores(
    task: TransferTask, gold: npt.NDArray[Any], predictions: npt.NDArray[Any], *, folds: int
) -> dict[str, float]:
    """What SentEval reports, rounded as there: accuracy and F1, or Pearson and Spearman x 100 and MSE."""
    if task.validation == "regression":
        return {
            "pearson": percent(correlation_or_zero(pearson, predictions, gold)),
            "spearman": percent(correlation_or_zero(spearman, predictions, gold)),
            "mse": round(float(np.mean((predictions - gold) ** 2)), 4),
        }
    nested = task.validation == "nested"
    accuracy = nested_accuracy(gold, predictions, folds) if nested else percent(np.mean(predictions == gold))
    scores = {"accuracy": accuracy}
    if task.f1:
        scores["f1"] = percent(measure("f1", predictions, gold))
    return scores


def accuracy_of_folds(
    task: str, preset: str, gold: npt.NDArray[Any], predictions: npt.NDArray[Any]
) -> float | None:
    """The accuracy of a task that is reported as a mean over folds; None of other tasks."""
    if task_of(task).validation != "nested" or preset not in PRESETS:
        return None
    return nested_accuracy(gold, predictions, PRESETS[preset].folds)


def nested_accuracy(gold: npt.NDArray[Any], predictions: npt.NDArray[Any], folds: int) -> float:
    """The mean accuracy of the outer folds, each of which is rounded."""
    right = predictions == gold
    parts = stratified_folds(np.arange(len(gold)), gold, folds, OUTER_SEED)
    return round(float(np.mean([percent(np.mean(right[test])) for _, test in parts])), 2)


def stratified_folds(
    rows: Rows, labels: npt.NDArray[np.int64], count: int, seed: int
) -> list[tuple[Rows, Rows]]:
    """The training and test rows of each fold."""
    divided = StratifiedKFold(n_splits=count, shuffle=True, random_state=seed)
    return [(rows[train], rows[test]) for train, test in divided.split(rows, labels[rows])]


def correlation_or_zero(
    correlation: Callable[[Floats, Floats], float], predictions: Floats, gold: Floats
) -> float:
    """A correlation, and 0 as in SentEval where there is none because all predictions are equal."""
    if np.ptp(predictions) <= ROUNDING:
        return 0.0
    try:
        return correlation(predictions, gold)
    except CorrelationError:
        return 0.0


def percent(share: float | np.floating[Any]) -> float:
    """A share x 100, rounded to two decimals as SentEval does before it compares or averages."""
    return round(100 * float(share), 2)
