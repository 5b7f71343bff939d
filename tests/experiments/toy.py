"""A real kind of trials that takes milliseconds: logistic regression on counts of characters."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from sentemb.data.labelled import LabelledTexts
from sentemb.errors import InputError
from sentemb.evaluation.classification import task_of
from sentemb.experiments import Experiment
from sentemb.experiments.classification import ClassificationData, ClassificationTrials, Predicted, outcome_of
from sentemb.experiments.experiment import Method, Trial
from sentemb.experiments.labelled_sets import LabelledSets, Splits
from sentemb.experiments.runner import Job, Outcome, Place
from tests.waiting import stay, wait_for

BASE = {"base": "none", "start_fingerprint": "0" * 64}
METHODS: dict[str, dict[str, Any]] = {
    "ce": {"recipe": "characters", "C": 1.0},
    "smooth": {"recipe": "characters", "C": 0.001},
    "blind": {"recipe": "constant"},
}


def fit(method: Method, splits: Splits, seed: int) -> tuple[Any, Any, float]:
    """`characters` draws rows with replacement, so that seeds differ; `constant` names the first class."""
    train, validation, test = splits.train, splits.validation, splits.test
    classes = len(train.label_names)
    if method.recipe == "constant":
        predictions, chosen = np.zeros(len(test), np.int64), np.zeros(len(validation), np.int64)
        probabilities = np.eye(classes)[predictions]
    elif method.recipe == "characters":
        rows = np.random.default_rng(seed).integers(0, len(train), len(train))
        rows = np.concatenate([rows, np.unique(train.labels, return_index=True)[1]])  # every class once
        counter = CountVectorizer(analyzer="char")
        model = LogisticRegression(C=method.options["C"], max_iter=2000)
        model.fit(counter.fit_transform([train.texts[row] for row in rows]), train.labels[rows])
        predictions = model.predict(counter.transform(test.texts))
        chosen = model.predict(counter.transform(validation.texts))
        probabilities = model.predict_proba(counter.transform(test.texts))
    else:
        raise InputError("the data is too hard", "take easier data")
    return predictions, probabilities, task_of(validation).scores(validation.labels, chosen)["accuracy"]


def run_toy(trial: Trial, splits: Splits, fingerprint: str) -> Outcome:
    """Run a trial."""
    found = fit(trial.method, splits, trial.seed or 0)
    return outcome_of(trial, splits, fingerprint, Predicted(*found, {"train": 0.001}))


def run_or_stay(trial: Trial, *data: Any) -> Outcome:
    """Run a trial of the first two seeds once two processes are there; others wait to be killed."""
    started = Path(os.environ["STARTED"])
    (started / str(os.getpid())).touch()
    wait_for(lambda: len(list(started.iterdir())) == 2)
    if trial.seed not in (0, 1):
        stay()
    return run_toy(trial, *data)


class ToyTrials(ClassificationTrials):
    """Trials of this file's methods."""

    recipes = ()

    def __init__(self, experiment: Experiment, run: Any = run_toy, **data: Any) -> None:
        super().__init__(experiment, ClassificationData(**data), Place(Path("unused"), announce=print))
        self._sets = labelled_sets(rule=data.get("rule"))
        self.run = run

    def settings(self, trial: Trial) -> dict[str, Any]:
        """All settings of a method."""
        if trial.method.recipe == "charcters":
            raise InputError("no recipe charcters", "take characters")
        return {**BASE, **trial.method.options, "metric": "accuracy"}

    def prepare(self, trial: Trial) -> Job:
        """The rows."""
        splits = self.splits(trial)
        return Job(partial(self.run, trial, splits, BASE["start_fingerprint"]), splits.checksums)


def toy_experiment(*methods: str, name: str = "few-shot", seeds: int = 3, **fields: Any) -> Experiment:
    """Methods on 60 rows of the toy set."""
    values = {
        "setting": "shots",
        "values": (60,),
        "datasets": ("toy",),
        "seeds": tuple(range(seeds)),
    } | fields
    fixed = {"title": "Toy", "kind": "classification", "baseline": "ce", "methods": METHODS}
    return Experiment(name=name, rows=methods or ("ce",), **fixed, **values)


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
    return LabelledTexts("toy", split, rows, None, labels.astype(np.int64), names, source="made up")


def labelled_sets(**options: Any) -> LabelledSets:
    own = {
        "toy": {"train": texts("train", 400, 1), "dev": texts("dev", 400, 2)},
        "single": {"train": texts("train", 300, 7)},
        "rare": {"train": texts("train", 800, 3, rare=0.2), "test": texts("test", 200, 4, rare=0.2)},
        "three": {"train": texts("train", 300, 5, 3), "test": texts("test", 150, 6, 3)},
    }
    return LabelledSets(own=own, **options)
