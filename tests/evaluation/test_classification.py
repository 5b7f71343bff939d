from __future__ import annotations

import logging

import numpy as np
import pytest

from sentemb.data.catalogue import entries
from sentemb.data.labelled import LabelledTexts
from sentemb.errors import InputError
from sentemb.evaluation.classification import TASKS, Task, headline_of, task_of
from sentemb.evaluation.measures import measure


def test_a_task_has_every_metric_of_its_kind_of_labels() -> None:
    for classes in (2, 3):
        gold, predictions = np.random.default_rng(classes).integers(0, classes, (2, 50))
        scores = Task("x", "accuracy", False, classes).scores(gold, predictions)
        assert scores == {metric: measure(metric, predictions, gold) for metric in scores}
        assert [*scores] == ["accuracy", "macro_f1", "matthews", *(["f1"] if classes == 2 else [])]
    gold, predictions = np.array([0.0, 1, 2, 3]), np.array([0.1, 0.2, 0.4, 9.0])
    scores = TASKS["stsb-glue"].scores(gold, predictions)
    assert scores == {"pearson": pytest.approx(np.corrcoef(gold, predictions)[0, 1]), "spearman": 1.0}


def test_a_collapsed_model_is_zero_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        scores = TASKS["stsb-glue"].scores([0.0, 1.0, 2.0], [0.5, 0.5, 0.5])
    assert scores == {"pearson": 0.0, "spearman": 0.0}
    assert "stsb-glue: all 3 similarities are equal; the score is set to 0" in caplog.text
    assert TASKS["cola"].scores([0, 1, 1], [1, 1, 1])["matthews"] == 0.0


@pytest.mark.parametrize(
    ("gold", "predictions", "fragment"),
    [
        ([0, 1], [0], "rte: predictions of shape (1,) do not match labels of shape (2,)"),
        ([], [], "labels of shape (0,)"),
        ([0, 1], [0, 2], "prediction 1 is 2, but the classes are 0 to 1"),
        ([0, -1], [0, 1], "label 1 is -1, but the classes are"),
        ([0, 1], [0.5, 1], "prediction 0 is 0.5"),
    ],
)
def test_predictions_that_do_not_fit(gold: list[int], predictions: list[float], fragment: str) -> None:
    with pytest.raises(InputError) as caught:
        TASKS["rte"].scores(gold, predictions)
    assert fragment in str(caught.value)


def test_tasks_are_scored_as_in_the_papers() -> None:
    assert {*TASKS} == {entry.name for entry in entries("labelled")}
    assert all(task.headline in task.metrics and task.classes != 1 for task in TASKS.values())
    for name, headline, pair, classes in (
        ("cola", "matthews", False, 2),
        ("mrpc", "f1", True, 2),
        ("mrpc-msr", "accuracy", True, 2),
        ("stsb-glue", "spearman", True, 0),
        ("mnli", "accuracy", True, 3),
        ("tnews", "macro_f1", False, 15),
        ("cs224n-sts", "pearson", True, 0),
    ):
        assert TASKS[name] == Task(name, headline, pair, classes)
    assert headline_of("cola") == headline_of("cola", "lacon") == "matthews"
    assert (
        headline_of("cola", "scl") == headline_of("mrpc", "lacon") == headline_of("rte", "scl") == "accuracy"
    )
    with pytest.raises(InputError, match="unknown labelled set 'sts12'"):
        headline_of("sts12")


def test_a_users_own_set_has_a_task() -> None:
    data = LabelledTexts("mine", "dev", ["a", "b"], None, np.array([0, 1]), ("x", "y"))
    assert task_of(data) == Task("mine", "accuracy", False, 2)
    scored = LabelledTexts("mine", "dev", ["a"], ["b"], np.array([0.5]), ())
    assert (task_of(scored).headline, task_of(scored).pair) == ("spearman", True)
    known = LabelledTexts("cola", "dev", ["a"], None, np.array([0]), ("x", "y"))
    assert task_of(known) is TASKS["cola"]
