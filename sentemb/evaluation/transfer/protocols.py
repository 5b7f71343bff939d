"""Training and validation of the classifiers of a task, for each of SentEval's kinds of tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sentemb.evaluation.transfer.neural import (
    Classes,
    Fold,
    Grades,
    Trained,
    expected_grades,
    train_folds,
    train_logistic,
)
from sentemb.evaluation.transfer.tasks import (
    OUTER_SEED,
    REGRESSION,
    ROUNDING,
    LogisticPreset,
    Preset,
    Rows,
    percent,
    stratified_folds,
)


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows of a task."""

    features: Tensor  # `(n, d)` float32
    labels: npt.NDArray[Any]  # `(n,)` class numbers from 0; of a regression scores up to 5


class Outcome(NamedTuple):
    """Predictions of a task's classifiers."""

    # `(n,)` a class or a score for each test row; without a test split for each row, by the classifier that
    # did not see it
    predictions: npt.NDArray[Any]
    dev_score: float  # of the chosen penalty in validation, x 100: accuracy, of a regression Pearson
    penalties: tuple[float, ...] = ()  # the chosen penalty of each final classifier; a regression has none


Train = Callable[[Sequence[Fold]], list[Trained]]


def nested_folds(data: Examples, *, preset: Preset, seed: int) -> Outcome:
    """Run a nested cross-validation: MR, CR, SUBJ and MPQA."""
    train = _trainer(data, preset, seed)
    outer = stratified_folds(np.arange(len(data.labels)), data.labels, preset.folds, OUTER_SEED)
    inner = [stratified_folds(rows, data.labels, preset.folds, OUTER_SEED) for rows, _ in outer]
    # In one call, which keeps every core busy to the end.
    trained = train([fold for folds in inner for fold in _seeded(folds, preset.penalties, seed)])
    parts = [trained[start : start + preset.folds] for start in range(0, len(trained), preset.folds)]
    chosen, validated = zip(*(_choose(part) for part in parts), strict=True)
    penalties = [preset.penalties[best] for best in chosen]
    last = train(
        [_last(rows, preset, penalty, seed) for (rows, _), penalty in zip(outer, penalties, strict=True)]
    )
    predictions = np.empty(len(data.labels), dtype=np.int64)
    for (_, rows), final in zip(outer, last, strict=True):
        predictions[rows] = final.predict(data.features[torch.from_numpy(rows)])[0]
    return Outcome(predictions, round(float(np.mean(validated)), 2), tuple(penalties))


def folds_then_test(data: Examples, test: Examples, *, preset: Preset, seed: int) -> Outcome:
    """Cross-validate on the training split, then use the test split once: TREC and MRPC."""
    train = _trainer(data, preset, seed)
    rows = np.arange(len(data.labels))
    folds = stratified_folds(rows, data.labels, preset.folds, seed)
    best, validated = _choose(train(_seeded(folds, preset.fold_penalties, seed)))
    penalty = preset.fold_penalties[best]
    (last,) = train([_last(rows, preset, penalty, seed)])
    return Outcome(last.predict(test.features)[0], validated, (penalty,))


def splits(data: Examples, dev: Examples, test: Examples, *, preset: Preset, seed: int) -> Outcome:
    """Validate on the dev split, then use the test split once: SST, SICK-E and the probing tasks."""
    both = Examples(torch.cat([data.features, dev.features]), np.concatenate([data.labels, dev.labels]))
    rows = np.arange(len(both.labels))
    parts = [(rows[: len(data.labels)], rows[len(data.labels) :])]
    (trained,) = _trainer(both, preset, seed)(_seeded(parts, preset.penalties, seed))
    best, validated = _choose([trained])
    # A last fit would have the same rows, weights and order of rows as the one that was chosen.
    return Outcome(trained.predict(test.features)[best], validated, (preset.penalties[best],))


def regression(data: Examples, dev: Examples, test: Examples, *, seed: int) -> Outcome:
    """Train a regression that the dev split stops: STS-B and SICK-R as SentEval has them."""
    features = torch.cat([data.features, dev.features])
    objective = Grades(np.concatenate([data.labels, dev.labels]), features.dtype)
    rows = np.arange(len(features))
    fold = Fold.seeded(rows[: len(data.labels)], rows[len(data.labels) :], (0.0,), seed)
    (trained,) = train_folds(features, objective, [fold], REGRESSION, seed=seed)
    predictions = expected_grades(trained.network.logits(test.features.unsqueeze(0))[0])[0]
    if np.ptp(predictions) <= ROUNDING:
        predictions = np.full_like(predictions, predictions[0])
    return Outcome(predictions, percent(trained.scores[0]))


def _trainer(data: Examples, preset: Preset, seed: int) -> Train:
    labels = torch.from_numpy(data.labels)
    if isinstance(preset, LogisticPreset):
        return lambda folds: train_logistic(data.features, labels, folds)
    return lambda folds: train_folds(data.features, Classes(labels), folds, preset, seed=seed)


def _seeded(folds: Sequence[tuple[Rows, Rows]], penalties: tuple[float, ...], seed: int) -> list[Fold]:
    return [Fold.seeded(rows, held, penalties, seed) for rows, held in folds]


def _choose(trained: Sequence[Trained]) -> tuple[int, float]:
    """Return the place of the penalty with the best mean accuracy, the first of equal ones, and the mean."""
    means = [percent(mean) for mean in np.mean([one.scores for one in trained], axis=0)]
    best = int(np.argmax(means))
    return best, means[best]


def _last(rows: Rows, preset: Preset, penalty: float, seed: int) -> Fold:
    if isinstance(preset, LogisticPreset):
        return Fold.seeded(rows, rows, (penalty,), seed)
    return Fold.divided(rows, (penalty,), seed, share=preset.validation_share)
