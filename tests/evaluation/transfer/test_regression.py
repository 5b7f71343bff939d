"""The trained regression of STS-B and SICK-R is SentEval's, pair by pair."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from sentemb.evaluation.transfer import TASKS, evaluate
from sentemb.evaluation.transfer.evaluate import Examples, regression
from sentemb.evaluation.transfer.neural import Grades
from sentemb.evaluation.transfer.tasks import REGRESSION, task_scores
from tests.evaluation.transfer import senteval_loops
from tests.evaluation.transfer.senteval_loops import grade_targets


def related(rows: int, seed: int) -> Examples:
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(rows, 6))
    noisy = features @ np.arange(6) / 4 + generator.normal(size=rows) + 2.5
    return Examples(torch.from_numpy(features), np.clip(noisy, 0, 5).round(1))


def test_the_regression_is_that_of_one_pair_at_a_time(float64: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "REGRESSION", replace(REGRESSION, max_epochs=150))
    train, dev, test = related(100, 0), related(40, 1), related(50, 2)
    outcome = regression(train, dev, test, seed=4)
    best, predictions = senteval_loops.regression(
        train.features, train.labels, (dev.features, dev.labels), test.features, seed=4, longest=150
    )
    assert np.allclose(outcome.predictions, predictions, atol=1e-8)
    assert outcome.dev_score == round(100 * best, 2)
    assert task_scores(TASKS["stsb-trained"], test.labels, outcome.predictions, folds=0) == {
        "pearson": round(100 * stats.pearsonr(predictions, test.labels).statistic, 2),
        "spearman": round(100 * stats.spearmanr(predictions, test.labels).statistic, 2),
        "mse": round(float(np.mean((predictions - test.labels) ** 2)), 4),
    }


def test_grades_are_distributions_whose_mean_is_the_score() -> None:
    scores = np.array([0.0, 0.4, 1.0, 2.6, 3.0, 4.9, 5.0])
    targets = Grades(scores).targets(torch.arange(7).unsqueeze(0))
    assert torch.allclose(targets[0].T, grade_targets(scores))


def test_the_gradient_is_that_of_the_mean_squared_error() -> None:
    generator = np.random.default_rng(0)
    objective = Grades(generator.uniform(0, 5, size=8), torch.float64)
    logits = torch.from_numpy(generator.normal(size=(1, 2, 5, 8))).requires_grad_()
    targets = objective.targets(torch.arange(8).unsqueeze(0))
    shares = torch.full((1, 8), 1 / 8, dtype=torch.float64)
    for member in logits[0]:
        torch.nn.functional.mse_loss(member.softmax(dim=0), targets[0]).backward(retain_graph=True)
    assert torch.allclose(objective.back(logits.detach(), targets, shares), logits.grad)


def test_constant_predictions_correlate_with_nothing() -> None:
    data = Examples(torch.zeros(20, 3), np.linspace(1, 5, 20))
    outcome = regression(data, data, data, seed=1)
    scores = task_scores(TASKS["stsb-trained"], data.labels, outcome.predictions, folds=0)
    assert (scores["pearson"], scores["spearman"], outcome.dev_score) == (0, 0, 0)
