"""Classifiers that are trained together end as each would end alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

from sentemb.evaluation.transfer import PRESETS, TASKS
from sentemb.evaluation.transfer.evaluate import (
    Examples,
    Outcome,
    folds_then_test,
    nested_folds,
    splits,
)
from sentemb.evaluation.transfer.neural import Fold, Rows, Trained, train_folds
from sentemb.evaluation.transfer.tasks import NeuralPreset, Preset, task_scores
from tests.evaluation.transfer.senteval_loops import OneClassifier, inner_means, nested

pytestmark = pytest.mark.usefixtures("float64")
SMALL = {
    name: replace(preset, folds=3, batch_size=16, tenacity=1, max_epochs=24, penalties=(1e-4, 1e-1))
    for name, preset in PRESETS.items()
    if isinstance(preset, NeuralPreset)
}


def examples(rows: int, classes: int = 2, *, width: int = 6, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Float64 rows that overlap, so that accuracies differ; float64 leaves no rounding to decide a check."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(classes, size=rows)
    centres = np.random.default_rng(9).normal(size=(classes, width))
    features = centres[labels] + 1.5 * generator.normal(size=(rows, width))
    return torch.from_numpy(features), torch.from_numpy(labels)


def accuracy_of(task: str, outcome: Outcome, y: Tensor, preset: Preset) -> float:
    return task_scores(TASKS[task], y.numpy(), outcome.predictions, folds=preset.folds)["accuracy"]


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("classes", [2, 3])
def test_together_as_alone(name: str, classes: int) -> None:
    preset = SMALL[name]
    x, y = examples(75, classes)
    rows = np.arange(75)
    # Of 47, 48, 49 and 75 rows: other numbers of steps, and last batches of other sizes.
    folds = [rows[:47], rows[27:], rows[5:54], rows]
    held = [rows[50:], rows[:27], rows[60:], rows[::2]]
    trained = train_folds(
        x,
        y,
        [Fold.seeded(a, b, preset.penalties, 7) for a, b in zip(folds, held, strict=True)],
        preset,
        seed=7,
    )
    for together, train, dev in zip(trained, folds, held, strict=True):
        check_alone(together, preset, x, y, train, dev)


def check_alone(
    together: Trained, preset: NeuralPreset, x: Tensor, y: Tensor, train: Rows, dev: Rows
) -> None:
    for place, penalty in enumerate(preset.penalties):
        alone = OneClassifier(preset, x.shape[1], int(y.max()) + 1, penalty, seed=7)
        accuracy = alone.fit(x[train], y[train], (x[dev], y[dev]))
        assert together.scores[place] == accuracy
        assert np.array_equal(together.predict(x)[place], alone.predict(x))
        weights = [tensor.detach() for tensor in alone.model.state_dict().values()]
        kept = together.network
        for layer, (weight, bias) in enumerate(zip(weights[::2], weights[1::2], strict=True)):
            assert torch.allclose(kept.weights[layer][0, place], weight, atol=1e-9)
            assert torch.allclose(kept.biases[layer][0, place], bias, atol=1e-9)


def test_a_single_wide_fold() -> None:
    preset = replace(SMALL["sg-bert"], penalties=(1e-5, 1e-3, 1e-1))
    x, y = examples(60, width=300)
    train, dev = np.arange(40), np.arange(40, 60)
    (trained,) = train_folds(x, y, [Fold.seeded(train, dev, preset.penalties, 7)], preset, seed=7)
    check_alone(trained, preset, x, y, train, dev)


@pytest.mark.parametrize("name", SMALL)
def test_nested_cross_validation(name: str) -> None:
    preset = SMALL[name]
    x, y = examples(90)
    outcome = nested_folds(Examples(x, y.numpy()), preset=preset, seed=3)
    accuracy, validated, chosen = nested(x, y, preset, seed=3)
    assert accuracy_of("mr", outcome, y, preset) == accuracy
    assert outcome.dev_score == validated
    assert list(outcome.penalties) == chosen
    assert 100 * np.mean(outcome.predictions == y.numpy()) == pytest.approx(accuracy, abs=0.01)


def test_cross_validation_then_test() -> None:
    preset = SMALL["simcse-fast"]
    (x, y), (test_x, test_y) = examples(80, 3), examples(40, 3, seed=1)
    outcome = folds_then_test(Examples(x, y.numpy()), Examples(test_x, test_y.numpy()), preset=preset, seed=5)
    means = inner_means(x, y, preset, 5, fold_seed=5)
    penalty = preset.penalties[int(np.argmax(means))]
    alone = OneClassifier(preset, x.shape[1], 3, penalty, seed=5)
    alone.fit(x, y)
    assert (outcome.dev_score, outcome.penalties) == (max(means), (penalty,))
    assert np.array_equal(outcome.predictions, alone.predict(test_x))
    assert accuracy_of("trec", outcome, test_y, preset) == round(100 * alone.score(test_x, test_y), 2)


def test_validation_on_a_split_then_test() -> None:
    preset = SMALL["sg-bert"]
    parts = [examples(rows, seed=seed) for seed, rows in enumerate((60, 30, 40))]
    outcome = splits(*(Examples(x, y.numpy()) for x, y in parts), preset=preset, seed=2)
    (x, y), dev, (test_x, _) = parts
    scores = []
    for penalty in preset.penalties:
        alone = OneClassifier(preset, x.shape[1], 2, penalty, seed=2)
        scores.append(round(100 * alone.fit(x, y, dev), 2))
    penalty = preset.penalties[int(np.argmax(scores))]
    alone = OneClassifier(preset, x.shape[1], 2, penalty, seed=2)
    alone.fit(x, y, dev)
    assert (outcome.dev_score, outcome.penalties) == (max(scores), (penalty,))
    assert np.array_equal(outcome.predictions, alone.predict(test_x))


@pytest.mark.parametrize("way", ["folds", "split"])
def test_logistic_regression_has_the_grids_of_senteval(way: str) -> None:
    (x, y), (dev_x, dev_y), (test_x, test_y) = (
        examples(rows, seed=seed) for seed, rows in enumerate((60, 30, 40))
    )
    preset = replace(PRESETS["logreg"], folds=3)
    train, dev, test = (Examples(a, b.numpy()) for a, b in ((x, y), (dev_x, dev_y), (test_x, test_y)))
    if way == "folds":  # its KFoldClassifier looks further than the others
        grid = [2.0**power for power in range(-1, 6)]
        rows = [*StratifiedKFold(3, shuffle=True, random_state=5).split(x, y)]
        parts = [(x[a], y[a], x[b], y[b]) for a, b in rows]
        outcome = folds_then_test(train, test, preset=preset, seed=5)
    else:
        grid = [2.0**power for power in range(-2, 4)]
        parts = [(x, y, dev_x, dev_y)]
        outcome = splits(train, dev, test, preset=preset, seed=5)
    assert grid == [*(preset.fold_penalties if way == "folds" else preset.penalties)]
    means = [round(100 * np.mean([fitted(c, a, b).score(v, w) for a, b, v, w in parts]), 2) for c in grid]
    best = grid[int(np.argmax(means))]
    assert (outcome.dev_score, outcome.penalties) == (max(means), (best,))
    assert np.array_equal(outcome.predictions, fitted(best, x, y).predict(test_x))


def fitted(inverse_penalty: float, x: Tensor, y: Tensor) -> LogisticRegression:
    return LogisticRegression(C=inverse_penalty, max_iter=1000).fit(x, y)
