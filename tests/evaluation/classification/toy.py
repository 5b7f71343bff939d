"""A real method that takes milliseconds: logistic regression on counts of characters."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from sentemb.data.labelled import LabelledTexts
from sentemb.errors import InputError
from sentemb.evaluation.classification import Cell, Method, Outcome, Point, ProtocolData, task_of

CE = Method("ce", "characters", {"C": 1.0})
BLIND = Method("blind", "constant")
SMOOTH = Method("smooth", "characters", {"C": 0.001})


def fit_predict(
    recipe: str,
    train: LabelledTexts,
    validation: LabelledTexts,
    test: LabelledTexts,
    seed: int,
    options: Mapping[str, Any],
) -> Outcome:
    """`characters` draws rows with replacement, so that seeds differ; `constant` names the first class."""
    started = time.perf_counter()
    classes = len(train.label_names)
    if recipe == "constant":
        predictions, chosen = np.zeros(len(test), np.int64), np.zeros(len(validation), np.int64)
        probabilities = None
    elif recipe == "characters":
        rows = np.random.default_rng(seed).integers(0, len(train), len(train))
        rows = np.concatenate([rows, np.unique(train.labels, return_index=True)[1]])  # every class once
        counter = CountVectorizer(analyzer="char")
        model = LogisticRegression(C=options["C"], max_iter=2000)
        model.fit(counter.fit_transform([train.texts[row] for row in rows]), train.labels[rows])
        predictions = model.predict(counter.transform(test.texts))
        chosen = model.predict(counter.transform(validation.texts))
        probabilities = model.predict_proba(counter.transform(test.texts))
        assert probabilities.shape[1] == classes
    else:
        raise InputError(f"{recipe} cannot be trained")
    return Outcome(
        predictions,
        probabilities,
        task_of(validation).scores(validation.labels, chosen)[options["metric"]],
        {"train": time.perf_counter() - started},
    )


def describe(recipe: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a method."""
    if recipe not in ("characters", "constant"):
        raise InputError(f"no recipe {recipe}", "take characters")
    return {"C": 1.0, **options}


def slow_fit_predict(*arguments: Any) -> Outcome:
    """The same, but long enough to be killed in the middle; says which process runs it."""
    os.write(1, f"start {os.getpid()}\n".encode())
    time.sleep(0.3)
    return fit_predict(*arguments)


def texts(split: str, size: int, seed: int, classes: int = 2, rare: float = 0.5) -> LabelledTexts:
    """Words of random letters, each class with a liking for some; the last class is the rare one."""
    rng = np.random.default_rng(seed)
    shares = [1 - rare, rare] if classes == 2 else [1 / classes] * classes
    labels = rng.choice(classes, size, p=shares)
    labels[:classes] = np.arange(classes)
    letters = np.array(list("abcdefghij"))
    rows = []
    for label in labels:
        weights = np.ones(10)
        weights[3 * label : 3 * label + 3] += 0.8
        rows.append("".join(rng.choice(letters, 20, p=weights / weights.sum())))
    names = tuple(f"class-{number}" for number in range(classes))
    return LabelledTexts("toy", split, rows, None, labels.astype(np.int64), names, "made up")


def protocol_data(**options: Any) -> ProtocolData:
    own = {
        "toy": {"train": texts("train", 400, 1), "dev": texts("dev", 400, 2)},
        "single": {"train": texts("train", 300, 7)},
        "rare": {"train": texts("train", 800, 3, rare=0.2), "test": texts("test", 200, 4, rare=0.2)},
        "three": {"train": texts("train", 300, 5, 3), "test": texts("test", 150, 6, 3)},
    }
    return ProtocolData(own=own, **options)


def cells(*methods: Method, data: str = "toy", point: Point | None = None, seeds: int = 3) -> list[Cell]:
    place = Point("shots", 60) if point is None else point
    return [Cell(method, data, place, seed, "accuracy") for seed in range(seeds) for method in methods]
