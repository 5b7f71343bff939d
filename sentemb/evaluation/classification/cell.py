"""One cell of a study: a method on a data set at a point of a protocol with one seed, and its outcome."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sentemb.data.labelled import LabelledTexts, Labels
from sentemb.errors import InputError
from sentemb.evaluation.classification.metrics import Metric
from sentemb.evaluation.record_files import slug


@dataclass(frozen=True)
class Method:
    """A way to train, as a row of a table.

    Attributes:
        name: What tables call it.
        recipe: What it is trained with, such as `ce` or `scl`.
        options: The settings that are not the recipe's own; JSON values only.
    """

    name: str
    recipe: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Point:
    """What a protocol does to the training set.

    Attributes:
        protocol: Such as `full`, `shots` or `rho`.
        value: Its figure: how many examples, how many times as many; None where there is none.
    """

    protocol: str
    value: float | None = None

    def __str__(self) -> str:
        return self.protocol if self.value is None else f"{self.protocol}-{self.value:g}"


@dataclass(frozen=True, eq=False)
class Splits:
    """What a cell trains, chooses and is judged on.

    Attributes:
        train: Rows to train on.
        validation: Rows to choose by.
        test: Rows to report.
        left_out: Training rows that could not be drawn, by reason.
        minority: The class that is made rare on purpose, where one is.

    Raises:
        InputError: The three have different classes.
    """

    train: LabelledTexts
    validation: LabelledTexts
    test: LabelledTexts
    left_out: Mapping[str, int] = field(default_factory=dict)
    minority: int | None = None

    def __post_init__(self) -> None:
        if not self.train.label_names == self.validation.label_names == self.test.label_names:
            raise InputError(f"{self.train.name}: training, validation and test have different classes")

    @property
    def sizes(self) -> dict[str, int]:
        """Rows of each part."""
        return {"train": len(self.train), "validation": len(self.validation), "test": len(self.test)}

    @cached_property
    def checksums(self) -> dict[str, str]:
        """SHA-256 of each part's texts and labels, whatever files they came from."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        return {name: _checksum(part) for name, part in parts.items()}


@dataclass(frozen=True)
class Cell:
    """One run.

    Attributes:
        method: How to train.
        data: The set.
        point: What the protocol does to it.
        seed: Draws the training set where the protocol draws one, and starts the network.
        metric: What the set is judged by, on validation and test rows alike.
    """

    method: Method
    data: str
    point: Point
    seed: int
    metric: Metric

    def __str__(self) -> str:
        return f"{self.method.name} {self.data} {self.point} seed {self.seed}"

    @property
    def options(self) -> dict[str, Any]:
        """The method's settings and the metric that it is to choose by."""
        return {"metric": self.metric, **self.method.options}

    def file_name(self, splits: Splits, settings: Mapping[str, Any]) -> str:
        """Name of the cell's record; another setting, or another row of data, gives another name.

        Args:
            splits: The cell's data.
            settings: Everything that the method is trained with, from `Describe`. What the base is called
                does not count, its fingerprint does.

        Returns:
            A name such as `scl.cola.shots-20.1f8a09c3.seed-4.json`.

        Raises:
            InputError: A setting is no JSON value.
        """
        deciding = {name: value for name, value in settings.items() if name != "base"}
        content = [self.method.recipe, deciding, self.data, str(self.point), splits.checksums]
        try:
            written = json.dumps(content, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InputError(f"{self}: the options cannot be recorded: {error}") from None
        key = hashlib.sha256(written.encode()).hexdigest()[:8]
        return f"{slug(self.method.name)}.{slug(self.data)}.{self.point}.{key}.seed-{self.seed}.json"


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a method made of a cell.

    Attributes:
        predictions: (test rows,) class numbers, or scores where labels are scores.
        probabilities: (test rows, classes), or None where the method has none.
        validation_score: The cell's metric on the validation rows, as a fraction; what runs and settings are
            chosen by.
        seconds: Wall time of each part, such as `train` and `predict`.
    """

    predictions: npt.NDArray[Any]
    probabilities: npt.NDArray[np.floating] | None
    validation_score: float
    seconds: Mapping[str, float]


FitPredict = Callable[
    [str, LabelledTexts, LabelledTexts, LabelledTexts, int, Mapping[str, Any]],
    Outcome,
]
"""`fit_predict(recipe, train, validation, test, seed, options)`; `options` holds the metric to choose by.

A function of a module, so that other processes can run it. It never looks at the labels of the test rows."""

Describe = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""`describe(recipe, options)`: all settings of a training, defaults included, as JSON values.

`base` is what the base is called, `start_fingerprint` what it holds. Refuses what cannot be trained."""


def checked(outcome: Outcome, splits: Splits) -> Outcome:
    """Check what a method returned."""
    test = splits.test
    predictions = np.asarray(outcome.predictions, dtype=test.labels.dtype)
    if predictions.shape != test.labels.shape:
        raise ValueError(f"predictions of shape {predictions.shape} for {len(test)} test rows")
    if not np.array_equal(predictions, outcome.predictions):
        raise ValueError("predictions that are no class numbers")
    classes = len(test.label_names)
    if classes and not ((predictions >= 0) & (predictions < classes)).all():
        raise ValueError(f"predictions of classes other than the {classes} of {test.name}")
    probabilities = outcome.probabilities
    if probabilities is not None:
        probabilities = np.asarray(probabilities, dtype=np.float32)
        if probabilities.shape != (len(test), classes):
            raise ValueError(f"probabilities of shape {probabilities.shape}, not {(len(test), classes)}")
    for values in (predictions, probabilities, outcome.validation_score):
        if values is not None and not np.isfinite(values).all():
            raise ValueError("predictions, probabilities or a validation score that are not finite")
    return Outcome(predictions, probabilities, float(outcome.validation_score), outcome.seconds)


def _checksum(data: LabelledTexts) -> str:
    digest = hashlib.sha256(repr(data.label_names).encode())
    for column in (data.texts, data.pairs or []):
        for text in column:
            encoded = text.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
    digest.update(_little_endian(data.labels))
    return digest.hexdigest()


def _little_endian(labels: Labels) -> bytes:
    return labels.astype(labels.dtype.newbyteorder("<")).tobytes()
