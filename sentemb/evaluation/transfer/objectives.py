"""What classifiers are trained and scored on: classes, or graded relatedness."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sentemb.evaluation.correlation import pearson
from sentemb.evaluation.transfer.scores import Floats, correlation_or_zero

GRADES = 5
"""Outputs of a regression: the grades 1 to 5."""


class Objective(Protocol):
    """A loss on the outputs C of a network, and the score that stops the training."""

    @property
    def outputs(self) -> int:
        """C."""

    def targets(self, rows: Tensor) -> Tensor:
        """What the outputs should be."""

    def back(self, logits: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
        """Gradient of the loss with respect to the logits."""

    def score(self, logits: Tensor, rows: Tensor) -> Floats:
        """The higher, the better."""


class Classes:
    """Cross-entropy, validated by accuracy.

    Args:
        labels: `(n,)` class numbers from 0.
    """

    def __init__(self, labels: Tensor) -> None:
        self.labels = labels
        self.outputs = int(labels.max()) + 1

    def targets(self, rows: Tensor) -> Tensor:
        """See `Objective.targets`."""
        right = self.labels[rows].unsqueeze(1) == torch.arange(self.outputs).unsqueeze(1)
        return right.float()

    def back(self, logits: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
        """See `Objective.back`."""
        gradient = logits.softmax(dim=2)
        gradient -= targets.unsqueeze(1)
        gradient *= shares[:, None, None, :]
        return gradient

    def score(self, logits: Tensor, rows: Tensor) -> Floats:
        """See `Objective.score`."""
        right = (logits.argmax(dim=1) == self.labels[rows]).sum(dim=1)
        return np.asarray(right.numpy() / len(rows))


class Grades:
    """Squared error of the probabilities of the grades 1 to 5, validated by Pearson correlation.

    A score between two grades is a distribution over both whose mean it is (Tai et al., 2015). Of scores
    below 1, which STS-B has and SICK has not, SentEval drops the part that would fall to a grade 0.

    Args:
        gold: `(n,)` scores up to 5.
        dtype: Of the networks.
    """

    outputs = GRADES

    def __init__(self, gold: Floats, dtype: torch.dtype = torch.float32) -> None:
        self.gold = gold
        grades = np.arange(1, GRADES + 1)
        # 1 at the grade itself, falling to 0 at its neighbours.
        targets = np.maximum(0, 1 - np.abs(gold[:, None] - grades))
        self._targets = torch.from_numpy(targets).to(dtype)

    def targets(self, rows: Tensor) -> Tensor:
        """See `Objective.targets`."""
        return self._targets[rows].transpose(1, 2)

    def back(self, logits: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
        """See `Objective.back`."""
        chances = logits.softmax(dim=2)
        error = chances - targets.unsqueeze(1)
        error *= shares[:, None, None, :] * (2 / GRADES)
        return chances * (error - (chances * error).sum(dim=2, keepdim=True))  # through the softmax

    def score(self, logits: Tensor, rows: Tensor) -> Floats:
        """See `Objective.score`."""
        gold = self.gold[rows.numpy()]
        return np.array([correlation_or_zero(pearson, one, gold) for one in expected_grades(logits)])


def expected_grades(logits: Tensor) -> Floats:
    """The scores that logits stand for."""
    chances = logits.softmax(dim=1).double()
    return np.asarray(np.einsum("pgn,g->pn", chances.numpy(), np.arange(1.0, GRADES + 1)))
