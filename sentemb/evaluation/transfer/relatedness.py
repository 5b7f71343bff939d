"""STS-B and SICK-R as SentEval's own code judges them: by a regression that is trained on the pairs.

What most papers report for these sets is the cosine without training, which is `evaluate_sts`. The numbers of
the two do not compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sentemb.evaluation.correlation import pearson, spearman
from sentemb.evaluation.transfer.folds import Fold
from sentemb.evaluation.transfer.neural import train_folds
from sentemb.evaluation.transfer.objectives import Floats, Grades, correlation_or_zero, expected_grades
from sentemb.evaluation.transfer.presets import Schedule

# SentEval's regression takes no settings: one layer without weight decay, judged every 50 passes.
SCHEDULE = Schedule(hidden=0, optimizer="adam", batch_size=64, tenacity=3, epoch_size=50, max_epochs=1000)


@dataclass(frozen=True, eq=False)
class Related:
    """Pairs with scores.

    Attributes:
        features: `(n, d)` float32.
        gold: `(n,)` scores up to 5.
    """

    features: Tensor
    gold: Floats


@dataclass(frozen=True, eq=False)
class RelatednessResult:
    """A trained regression on the test split.

    Attributes:
        task: The task's name.
        pearson: x 100.
        spearman: x 100.
        mse: Mean squared error, in squared grades.
        dev_pearson: x 100, the best on the dev split, whose weights were kept.
        gold: `(n,)` scores of the test rows.
        predictions: `(n,)` what was predicted for them, from 1 to 5.
        seconds: Wall time of the regression.
    """

    task: str
    pearson: float
    spearman: float
    mse: float
    dev_pearson: float
    gold: Floats
    predictions: Floats
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The figures as a record keeps them.

        Returns:
            All but gold and predictions.
        """
        return {name: value for name, value in vars(self).items() if name not in ("gold", "predictions")}


def regress(train: Related, dev: Related, test: Related, *, seed: int) -> Mapping[str, Any]:
    """Train a regression and judge it."""
    features = torch.cat([train.features, dev.features])
    objective = Grades(np.concatenate([train.gold, dev.gold]), features.dtype)
    rows = np.arange(len(features))
    fold = Fold.seeded(rows[: len(train.gold)], rows[len(train.gold) :], (0.0,), seed)
    (trained,) = train_folds(features, objective, [fold], SCHEDULE, seed=seed)
    predictions = expected_grades(trained.network.logits(test.features.unsqueeze(0))[0])[0]
    return {
        "pearson": _percent(correlation_or_zero(pearson, predictions, test.gold)),
        "spearman": _percent(correlation_or_zero(spearman, predictions, test.gold)),
        "mse": round(float(np.mean((predictions - test.gold) ** 2)), 4),
        "dev_pearson": _percent(trained.scores[0]),
        "predictions": predictions,
    }


def _percent(value: float) -> float:
    return round(100 * float(value), 2)
