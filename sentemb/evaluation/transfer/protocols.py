"""How SentEval chooses a penalty and what it reports, for tasks with and without splits of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

from sentemb.evaluation.transfer.logistic import train_logistic
from sentemb.evaluation.transfer.members import Fold, Rows, Trained, train_folds
from sentemb.evaluation.transfer.presets import LogisticPreset, NeuralPreset, Preset

OUTER_SEED = 1111
"""Of the folds of tasks without a test split, whatever the classifier's seed."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows of a task.

    Attributes:
        features: `(n, d)` float32.
        labels: `(n,)` class numbers from 0.
    """

    features: Tensor
    labels: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Verdict:
    """What came of a task.

    Attributes:
        accuracy: As SentEval reports it, x 100, rounded to two decimals.
        dev_accuracy: Of the chosen penalty in validation, x 100, the same way.
        predictions: `(n,)` a class for each test row; without a test split for each row, by the classifier
            that did not see it.
        penalties: The chosen penalty of each final classifier.
    """

    accuracy: float
    dev_accuracy: float
    predictions: npt.NDArray[np.int64]
    penalties: tuple[float, ...]


Train = Callable[[Sequence[Fold]], list[Trained]]


def nested_folds(data: Examples, preset: Preset, *, seed: int) -> Verdict:
    """Cross-validation inside of cross-validation: MR, CR, SUBJ and MPQA.

    Args:
        data: All rows.
        preset: The classifiers.
        seed: Of the classifiers; the folds are always the same.

    Returns:
        The mean over the outer folds.
    """
    train = _trainer(data, preset, seed)
    outer = _folds(np.arange(len(data.labels)), data.labels, preset.folds, OUTER_SEED)
    chosen, validated = [], []
    for rows, _ in outer:
        penalty, score = _choose(train, _folds(rows, data.labels, preset.folds, OUTER_SEED), preset, seed)
        chosen.append(penalty)
        validated.append(score)
    last = train(
        [_last(rows, preset, penalty, seed) for (rows, _), penalty in zip(outer, chosen, strict=True)]
    )
    predictions = np.empty(len(data.labels), dtype=np.int64)
    accuracies = []
    for (_, rows), trained in zip(outer, last, strict=True):
        predictions[rows] = trained.predict(data.features[torch.from_numpy(rows)])[0]
        accuracies.append(_percent(np.mean(predictions[rows] == data.labels[rows])))
    return Verdict(_mean(accuracies), _mean(validated), predictions, tuple(chosen))


def folds_then_test(data: Examples, test: Examples, preset: Preset, *, seed: int) -> Verdict:
    """Cross-validation on the training split, then the test split once: TREC and MRPC.

    Args:
        data: The training split.
        test: The test split.
        preset: The classifiers.
        seed: Of the classifiers and the folds.

    Returns:
        The accuracy on the test split.
    """
    train = _trainer(data, preset, seed)
    rows = np.arange(len(data.labels))
    penalty, validated = _choose(train, _folds(rows, data.labels, preset.folds, seed), preset, seed)
    (last,) = train([_last(rows, preset, penalty, seed)])
    return _tested(last, test, validated, penalty)


def splits(data: Examples, dev: Examples, test: Examples, preset: Preset, *, seed: int) -> Verdict:
    """Validation on the dev split, then the test split once: SST, SICK-E and the probing tasks.

    Args:
        data: The training split.
        dev: The dev split.
        test: The test split.
        preset: The classifiers.
        seed: Of the classifiers.

    Returns:
        The accuracy on the test split.
    """
    both = Examples(torch.cat([data.features, dev.features]), np.concatenate([data.labels, dev.labels]))
    train = _trainer(both, preset, seed)
    rows = np.arange(len(both.labels))
    held = rows[len(data.labels) :]
    penalty, validated = _choose(train, [(rows[: len(data.labels)], held)], preset, seed)
    (last,) = train([Fold.seeded(rows[: len(data.labels)], held, (penalty,), seed)])
    return _tested(last, test, validated, penalty)


def _trainer(data: Examples, preset: Preset, seed: int) -> Train:
    labels = torch.from_numpy(data.labels)
    if isinstance(preset, LogisticPreset):
        return lambda folds: train_logistic(data.features, labels, folds)
    return lambda folds: train_folds(data.features, labels, folds, preset, seed=seed)


def _folds(rows: Rows, labels: npt.NDArray[np.int64], count: int, seed: int) -> list[tuple[Rows, Rows]]:
    divided = StratifiedKFold(n_splits=count, shuffle=True, random_state=seed)
    return [(rows[train], rows[test]) for train, test in divided.split(rows, labels[rows])]


def _choose(
    train: Train, folds: Sequence[tuple[Rows, Rows]], preset: Preset, seed: int
) -> tuple[float, float]:
    """The penalty with the best mean accuracy, of equal ones the first, and that accuracy."""
    penalties = preset.penalties if isinstance(preset, NeuralPreset) else preset.inverse_penalties
    trained = train([Fold.seeded(rows, held, penalties, seed) for rows, held in folds])
    means = [_percent(mean) for mean in np.mean([one.accuracies for one in trained], axis=0)]
    best = int(np.argmax(means))
    return penalties[best], means[best]


def _last(rows: Rows, preset: Preset, penalty: float, seed: int) -> Fold:
    if isinstance(preset, LogisticPreset):
        return Fold.seeded(rows, rows, (penalty,), seed)
    return Fold.divided(rows, (penalty,), seed, share=preset.validation_share)


def _tested(last: Trained, test: Examples, validated: float, penalty: float) -> Verdict:
    predictions = last.predict(test.features)[0]
    return Verdict(_percent(np.mean(predictions == test.labels)), validated, predictions, (penalty,))


def _percent(share: float | np.floating) -> float:
    return round(100 * float(share), 2)


def _mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 2)
