"""Grades as classes and back."""

from __future__ import annotations

import numpy as np
import pytest

from sentemb.classification import ClassifierRun
from sentemb.classification.grades import grade_classes, score_grades
from sentemb.data.labelled import LabelledTexts
from sentemb.errors import InputError
from tests.classification.toy import toy_set


def graded(grades: list[float]) -> LabelledTexts:
    texts = [f"text {number}" for number in range(len(grades))]
    return LabelledTexts("graded", "train", texts, texts, np.array(grades), ())


def test_grades_that_round_to_the_same_are_one_class() -> None:
    data = graded([3.76, 0.0, 3.8, 3.84, 5.0])
    classes = grade_classes(data)
    assert classes.label_names == ("0.0", "3.8", "5.0")
    assert classes.labels.tolist() == [1, 0, 1, 1, 2]
    assert grade_classes(data, decimals=None).label_names == ("0.0", "3.76", "3.8", "3.84", "5.0")
    with pytest.raises(InputError, match="are classes"):
        grade_classes(classes)


def test_a_predicted_grade_is_the_mean_under_the_probabilities(
    trained: ClassifierRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier = trained.classifier
    monkeypatch.setattr(classifier, "labels", ("0.0", "2.5", "5.0"))
    data = toy_set(24, seed=1)
    scored = LabelledTexts("graded", "dev", data.texts, None, 2.5 * data.labels, ())
    expected = classifier.predict_proba(data.texts) @ np.array([0.0, 2.5, 5.0])
    pearson = np.corrcoef(expected, scored.labels)[0, 1]
    assert score_grades(classifier, scored)["pearson"] == pytest.approx(pearson)
    assert pearson > 0.7
