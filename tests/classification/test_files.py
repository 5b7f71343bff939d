"""A user's own tables, and grades as classes and back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sentemb.classification import ClassifierRun, read_own_labelled, read_own_texts
from sentemb.classification.evaluator import grade_classes, score_grades
from sentemb.data.labelled import LabelledTexts
from sentemb.errors import InputError
from tests.classification.toy import toy_set

Write = Callable[[str, str], Path]


def test_texts_and_pairs(write_file: Write) -> None:
    table = write_file("rows.csv", "first,second,kind\na cat,the dog,same\na man,a mat,other\n")
    data = read_own_labelled(table, columns=["first", "second"], label="kind")
    assert (data.texts, data.pairs) == (["a cat", "a man"], ["the dog", "a mat"])
    assert (data.label_names, data.labels.tolist()) == (("other", "same"), [1, 0])
    assert read_own_texts(table, columns=["first"]) == ["a cat", "a man"]
    assert read_own_texts(table, columns=["first", "second"]) == [("a cat", "the dog"), ("a man", "a mat")]
    assert read_own_texts(write_file("lines.txt", "a cat\na man\n")) == ["a cat", "a man"]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("text,kind\na,b\n", {}, "label"),
        ("words,label\na,b\n", {}, "text"),
        ("text,label\na,b\n ,b\n", {}, "column 'text' of row 2 is empty"),
        ("text,label\na,new\n", {"label_names": ("old", "older")}, "'new' is not a label"),
        ("text,label\na,b\n", {"columns": ("a", "b", "c")}, "text columns are a, b, c"),
        ("text,label\na,b\n", {"columns": ("text", "text")}, "text columns are text, text"),
    ],
)
def test_user_errors_are_clear(write_file: Write, content: str, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_own_labelled(write_file("rows.csv", content), **options)


def test_a_table_without_rows_cannot_be_classified(write_file: Write) -> None:
    with pytest.raises(InputError):
        read_own_texts(write_file("rows.csv", "text\n"))


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
