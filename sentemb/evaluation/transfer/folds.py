"""The rows that a task's classifiers learn from, and what comes of them."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from torch import Tensor

from sentemb.evaluation.transfer.network import Network

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Fold:
    """The rows of classifiers that differ in their penalties alone."""

    train: Rows  # rows to train on, in the order that the first permutation is applied to
    dev: Rows  # rows that stop the training and choose the weights
    penalties: tuple[float, ...]  # weight decay of each classifier
    generator: np.random.RandomState  # the state of the random numbers that the orders of rows are drawn with

    @classmethod
    def seeded(cls, train: Rows, dev: Rows, penalties: tuple[float, ...], seed: int) -> Fold:
        """A fold whose rows are given."""
        return cls(train, dev, penalties, np.random.RandomState(seed))

    @classmethod
    def divided(cls, rows: Rows, penalties: tuple[float, ...], seed: int, *, share: float) -> Fold:
        """A fold of rows of which a random share stops the training."""
        generator = np.random.RandomState(seed)
        order = generator.permutation(len(rows))
        held = int(share * len(rows))
        return cls(rows[order[held:]], rows[order[:held]], penalties, generator)

    def halves(self) -> tuple[Fold, Fold]:
        """The same rows in the same orders, for the first and for the other penalties."""
        middle = len(self.penalties) // 2
        other = replace(self, penalties=self.penalties[middle:], generator=deepcopy(self.generator))
        return replace(self, penalties=self.penalties[:middle]), other


@dataclass(frozen=True, eq=False)
class Trained:
    """The classifiers of a fold."""

    # `(penalties,)` best score of each on the fold's dev rows; accuracies are fractions
    scores: npt.NDArray[np.float64]
    network: Network  # the kept weights

    @classmethod
    def joined(cls, parts: Sequence[Trained]) -> Trained:
        """The classifiers of a fold that was divided by its penalties."""
        scores = np.concatenate([part.scores for part in parts])
        return cls(scores, Network.joined([part.network for part in parts]))

    def predict(self, features: Tensor) -> npt.NDArray[np.int64]:
        """Classes of rows."""
        return np.asarray(self.network.logits(features.unsqueeze(0))[0].argmax(dim=1).numpy())
