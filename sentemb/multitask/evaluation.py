"""How well a model does on the three tasks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from sentemb.data.labelled import LabelledTexts
from sentemb.evaluation.correlation import CorrelationError, pearson
from sentemb.multitask.model import Floats, MultiTaskModel
from sentemb.multitask.tasks import TASKS, Task, TaskSets

logger = logging.getLogger(__name__)

METRICS: Mapping[Task, str] = {
    "sentiment": "sentiment_accuracy",
    "paraphrase": "paraphrase_accuracy",
    "similarity": "similarity_pearson",
}
OVERALL = "overall"
"""The plain mean of the three, which is how the paper's tables add up."""


class TaskModels(Protocol):
    """A model of all tasks, or one for each."""

    @property
    def models(self) -> Mapping[Task, MultiTaskModel]:
        """The model that answers each task."""


def evaluate_tasks(model: TaskModels, sets: TaskSets) -> dict[str, float]:
    """Score a model: accuracy of sentiment and paraphrase, Pearson's correlation of similarity, their mean.

    Args:
        model: A model, or an ensemble.
        sets: Labelled texts of each task.

    Returns:
        The entries of `METRICS` and `overall`, as fractions. A correlation that does not exist counts as 0.

    Example:
        >>> evaluate_tasks(MultiTaskModel.load("multi"), dev)  # doctest: +SKIP
    """
    return score_tasks(predict_tasks(model, sets), sets)


def predict_tasks(model: TaskModels, sets: TaskSets) -> dict[Task, Floats]:
    """Answer every row of the sets; each model encodes every unique text of its tasks once."""
    predicted: dict[Task, Floats] = {}
    for member in dict.fromkeys(model.models.values()):
        tasks = [task for task in TASKS if model.models[task] is member]
        texts = list(
            dict.fromkeys(text for task in tasks for column in columns_of(sets[task]) for text in column)
        )
        vectors, places = member.encode(texts), {text: place for place, text in enumerate(texts)}
        for task in tasks:
            columns = [vectors[[places[text] for text in column]] for column in columns_of(sets[task])]
            predicted[task] = member.answer(task, *columns)
    return predicted


def score_tasks(predicted: Mapping[Task, Floats], sets: TaskSets) -> dict[str, float]:
    """Score predictions."""
    scores = {METRICS[task]: _score(task, predicted[task], sets[task]) for task in TASKS}
    return scores | {OVERALL: float(np.mean(list(scores.values())))}


def columns_of(data: LabelledTexts) -> list[list[str]]:
    """The text columns of a set."""
    return [data.texts] if data.pairs is None else [data.texts, data.pairs]


def _score(task: Task, predicted: Floats, data: LabelledTexts) -> float:
    if task != "similarity":
        return float(np.mean(predicted == data.labels))
    try:
        return pearson(predicted, data.labels.astype(np.float64))
    except CorrelationError as error:
        logger.warning("the similarity score on %s %s is set to 0: %s", data.name, data.split, error)
        return 0.0
