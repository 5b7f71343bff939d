"""Metrics of labelled sets, in general and in the papers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sentemb.data.catalogue import entries
from sentemb.data.labelled import LabelledTexts
from sentemb.errors import InputError
from sentemb.evaluation.measures import CorrelationError, correlate, measure

logger = logging.getLogger(__name__)

Metric = Literal["accuracy", "f1", "macro_f1", "matthews", "pearson", "spearman"]
"""`f1` is that of the second of two classes: equivalent, duplicate, acceptable, positive."""
Paper = Literal["scl", "lacon"]

_CLASSES: tuple[Metric, ...] = ("accuracy", "macro_f1", "matthews")
_SCORES: tuple[Metric, ...] = ("pearson", "spearman")
# What is not here is scored by accuracy, or by Spearman's correlation where labels are scores.
_HEADLINES: Mapping[str, Metric] = {
    "cola": "matthews",  # GLUE; LaCon, table 1; SupCL-Seq, table 2
    "mrpc": "f1",  # GLUE; SupCL-Seq, table 2
    "qqp": "f1",  # the same
    "stsb-glue": "spearman",  # GLUE and SupCL-Seq, table 2, with Pearson
    "tnews": "macro_f1",  # LaCon, table 1; CLUE's own board has accuracy
    "tnews-few": "macro_f1",  # LaCon, table 1; FewCLUE's own board has accuracy
    "cs224n-sts": "pearson",  # CS 224N default project
}
_PAPERS: Mapping[Paper, Mapping[str, Metric]] = {
    "scl": {"cola": "accuracy", "mrpc": "accuracy"},
    "lacon": {"mrpc": "accuracy", "qqp": "accuracy"},
}


@dataclass(frozen=True)
class Task:
    """Metrics of a labelled set."""

    name: str
    headline: Metric  # the metric that choices and tables go by
    pair: bool  # two texts a row
    classes: int  # 0 where labels are scores

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Every metric that the kind of labels allows."""
        if not self.classes:
            return _SCORES
        return (*_CLASSES, "f1") if self.classes == 2 else _CLASSES

    def scores(self, gold: npt.ArrayLike, predictions: npt.ArrayLike) -> dict[str, float]:
        """Score predictions by every metric of the task."""
        first, second = np.asarray(gold), np.asarray(predictions)
        if first.shape != second.shape or first.ndim != 1 or not first.size:
            raise InputError(
                f"{self.name}: predictions of shape {second.shape} do not match labels of shape {first.shape}"
            )
        if not self.classes:
            return {metric: self._correlate(metric, second, first) for metric in self.metrics}
        for values, noun in ((first, "label"), (second, "prediction")):
            wrong = np.flatnonzero(~np.isin(values, np.arange(self.classes)))
            if len(wrong):
                raise InputError(
                    f"{self.name}: {noun} {wrong[0]} is {values[wrong[0]]}, but the classes are 0 to "
                    f"{self.classes - 1}"
                )
        return {metric: measure(metric, second, first, classes=self.classes) for metric in self.metrics}

    def _correlate(self, metric: str, predictions: npt.NDArray[Any], gold: npt.NDArray[Any]) -> float:
        try:
            return correlate(metric, predictions, gold)
        except CorrelationError as error:
            logger.warning("%s: %s; the score is set to 0", self.name, error)
            return 0.0


def task_of(data: LabelledTexts) -> Task:
    """Return the task of a set, also of your own."""
    headline: Metric = "accuracy" if data.label_names else "spearman"
    own = Task(data.name, headline, data.pairs is not None, len(data.label_names))
    return TASKS.get(data.name, own)


def headline_of(name: str, paper: Paper | None = None) -> Metric:
    """Return the metric that a set is scored by, in general or in one of the papers.

    SCL reports and chooses by accuracy throughout (section 4.1), LaCon has accuracy for MRPC and QQP
    (table 1).
    """
    if name not in TASKS:
        raise InputError(f"unknown labelled set {name!r}", "see `sentemb data list`")
    return _PAPERS[paper].get(name, TASKS[name].headline) if paper else TASKS[name].headline


TASKS: Mapping[str, Task] = {
    one.name: Task(
        one.name,
        _HEADLINES.get(one.name, "accuracy" if one.labels else "spearman"),
        len(one.text_columns) == 2,
        len(one.labels),
    )
    for one in entries("labelled")
}
"""The task of every labelled set of the catalogue."""
