"""How SentEval chooses a penalty and what it reports, for tasks with and without splits of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

from sentemb.evaluation.transfer.folds import Fold, Rows, Trained
from sentemb.evaluation.transfer.logistic import train_logistic
from sentemb.evaluation.transfer.neural import train_folds
from sentemb.evaluation.transfer.objectives import Classes
from sentemb.evaluation.transfer.presets import LogisticPreset, Preset

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
class Outcome:
    """What a task's classifiers reach.

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


def nested_folds(data: Examples, preset: Preset, *, seed: int) -> Outcome:
    """Cross-validation inside of cross-validation: MR, CR, SUBJ and MPQA."""
    train = _trainer(data, preset, seed)
    outer = _folds(np.arange(len(data.labels)), data.labels, preset.folds, OUTER_SEED)
    inner = [_folds(rows, data.labels, preset.folds, OUTER_SEED) for rows, _ in outer]
    # In one call, which keeps every core busy to the end.
    trained = train([fold for folds in inner for fold in _seeded(folds, preset.penalties, seed)])
    parts = [trained[start : start + preset.folds] for start in range(0, len(trained), preset.folds)]
    chosen, validated = zip(*(_choose(part) for part in parts), strict=True)
    penalties = [preset.penalties[best] for best in chosen]
    last = train(
        [_last(rows, preset, penalty, seed) for (rows, _), penalty in zip(outer, penalties, strict=True)]
    )
    predictions = np.empty(len(data.labels), dtype=np.int64)
    accuracies = []
    for (_, rows), final in zip(outer, last, strict=True):
        predictions[rows] = final.predict(data.features[torch.from_numpy(rows)])[0]
        accuracies.append(_percent(np.mean(predictions[rows] == data.labels[rows])))
    return Outcome(_mean(accuracies), _mean(validated), predictions, tuple(penalties))


def folds_then_test(data: Examples, test: Examples, preset: Preset, *, seed: int) -> Outcome:
    """Cross-validation on the training split, then the test split once: TREC and MRPC."""
    train = _trainer(data, preset, seed)
    rows = np.arange(len(data.labels))
    folds = _folds(rows, data.labels, preset.folds, seed)
    best, validated = _choose(train(_seeded(folds, preset.fold_penalties, seed)))
    penalty = preset.fold_penalties[best]
    (last,) = train([_last(rows, preset, penalty, seed)])
    return _tested(last.predict(test.features)[0], test, validated, penalty)


def splits(data: Examples, dev: Examples, test: Examples, preset: Preset, *, seed: int) -> Outcome:
    """Validation on the dev split, then the test split once: SST, SICK-E and the probing tasks."""
    both = Examples(torch.cat([data.features, dev.features]), np.concatenate([data.labels, dev.labels]))
    rows = np.arange(len(both.labels))
    parts = [(rows[: len(data.labels)], rows[len(data.labels) :])]
    (trained,) = _trainer(both, preset, seed)(_seeded(parts, preset.penalties, seed))
    best, validated = _choose([trained])
    # A last fit would have the same rows, weights and order of rows as the one that was chosen.
    return _tested(trained.predict(test.features)[best], test, validated, preset.penalties[best])


def _trainer(data: Examples, preset: Preset, seed: int) -> Train:
    labels = torch.from_numpy(data.labels)
    if isinstance(preset, LogisticPreset):
        return lambda folds: train_logistic(data.features, labels, folds)
    return lambda folds: train_folds(data.features, Classes(labels), folds, preset, seed=seed)


def _folds(rows: Rows, labels: npt.NDArray[np.int64], count: int, seed: int) -> list[tuple[Rows, Rows]]:
    divided = StratifiedKFold(n_splits=count, shuffle=True, random_state=seed)
    return [(rows[train], rows[test]) for train, test in divided.split(rows, labels[rows])]


def _seeded(folds: Sequence[tuple[Rows, Rows]], penalties: tuple[float, ...], seed: int) -> list[Fold]:
    return [Fold.seeded(rows, held, penalties, seed) for rows, held in folds]


def _choose(trained: Sequence[Trained]) -> tuple[int, float]:
    """The place of the penalty with the best mean accuracy, of equal ones the first, and that accuracy."""
    means = [_percent(mean) for mean in np.mean([one.scores for one in trained], axis=0)]
    best = int(np.argmax(means))
    return best, means[best]


def _last(rows: Rows, preset: Preset, penalty: float, seed: int) -> Fold:
    if isinstance(preset, LogisticPreset):
        return Fold.seeded(rows, rows, (penalty,), seed)
    return Fold.divided(rows, (penalty,), seed, share=preset.validation_share)


def _tested(predictions: Rows, test: Examples, validated: float, penalty: float) -> Outcome:
    return Outcome(_percent(np.mean(predictions == test.labels)), validated, predictions, (penalty,))


def _percent(share: float | np.floating) -> float:
    return round(100 * float(share), 2)


def _mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 2)
