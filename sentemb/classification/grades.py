"""Graded pairs for classifiers: every grade is a class, and predictions are scored as grades again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sentemb.classification.classifier import Classifier
from sentemb.classification.evaluator import inputs_of
from sentemb.data.labelled import LabelledTexts, score_classes
from sentemb.errors import InputError
from sentemb.evaluation.classification import Task


def grade_classes(data: LabelledTexts, *, decimals: int | None = 1) -> LabelledTexts:
    """Make a class of each grade, as SupCL-Seq does for STS-B (footnote 3)."""
    if data.label_names:
        raise InputError(
            f"the labels of {data.name} are classes, not scores", "use a set with scores, such as stsb-glue"
        )
    grades = data.labels.astype(np.float64)
    different = np.unique(grades if decimals is None else np.round(grades, decimals))
    names = tuple(str(float(grade)) for grade in different)
    return replace(data, labels=score_classes(grades, decimals=decimals), label_names=names)


def score_grades(classifier: Classifier, data: LabelledTexts) -> dict[str, float]:
    """Correlate predicted grades with those of a set.

    The predicted grade is the mean of all grades under the predicted probabilities; the paper does not say
    how it makes one of classes.
    """
    grades = np.array([float(name) for name in classifier.labels])
    predicted = classifier.predict_proba(inputs_of(data)) @ grades  # (n,)
    task = Task(data.name, "spearman", data.pairs is not None, 0)  # SupCL-Seq, table 2
    return dict(task.scores(data.labels, predicted))
