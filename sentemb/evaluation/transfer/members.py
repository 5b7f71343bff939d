"""Many of SentEval's classifiers trained at once.

SentEval trains a classifier for each fold and each penalty, one after the other: over 400 for a task, whose
steps cost far more in overhead than in arithmetic. Here the classifiers of several folds and all penalties
take their steps together. Each has the rows, the order of rows, the first weights and the stopping rule that
it would have alone; those of one fold share the gathered rows, which is where the time would go otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sentemb.evaluation.transfer.network import Network, Optimizer
from sentemb.evaluation.transfer.presets import NeuralPreset

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Fold:
    """The rows of classifiers that differ in their penalties alone.

    Attributes:
        train: Rows to train on, in the order that the first permutation is applied to.
        dev: Rows that stop the training and choose the weights.
        penalties: Weight decay of each classifier.
        generator: The state of the random numbers that the orders of rows are drawn with.
    """

    train: Rows
    dev: Rows
    penalties: tuple[float, ...]
    generator: np.random.RandomState

    @classmethod
    def seeded(cls, train: Rows, dev: Rows, penalties: tuple[float, ...], seed: int) -> Fold:
        """A fold whose rows are given.

        Args:
            train: Rows to train on.
            dev: Rows that stop the training.
            penalties: Weight decay of each classifier.
            seed: Seeds the random numbers.

        Returns:
            The fold.
        """
        return cls(train, dev, penalties, np.random.RandomState(seed))

    @classmethod
    def divided(cls, rows: Rows, penalties: tuple[float, ...], seed: int, *, share: float) -> Fold:
        """A fold of rows of which a random share stops the training.

        Args:
            rows: All rows.
            penalties: Weight decay of each classifier.
            seed: Seeds the random numbers.
            share: The share.

        Returns:
            The fold.
        """
        generator = np.random.RandomState(seed)
        order = generator.permutation(len(rows))
        held = int(share * len(rows))
        return cls(rows[order[held:]], rows[order[:held]], penalties, generator)


@dataclass(frozen=True, eq=False)
class Trained:
    """The classifiers of a fold.

    Attributes:
        accuracies: `(penalties,)` accuracy of each on the fold's dev rows, as fractions.
        network: The kept weights.
    """

    accuracies: npt.NDArray[np.float64]
    network: Network

    def predict(self, features: Tensor) -> npt.NDArray[np.int64]:
        """Classes of rows.

        Args:
            features: `(n, d)`.

        Returns:
            `(penalties, n)`.
        """
        logits = self.network.logits(features.unsqueeze(0))[0]
        return np.asarray(logits.argmax(dim=2).T.numpy())


def train_folds(
    features: Tensor, labels: Tensor, folds: Sequence[Fold], preset: NeuralPreset, *, seed: int
) -> list[Trained]:
    """Train the classifiers of all folds.

    Args:
        features: `(n, d)` float32, what is classified.
        labels: `(n,)` class numbers from 0.
        folds: Rows of `features`; equally many penalties each.
        preset: How to train.
        seed: Seeds the first weights, the same for all.

    Returns:
        The classifiers of each fold, in order.
    """
    classes = int(labels.max()) + 1
    start = _first_weights(features.shape[1], classes, preset.hidden, seed)
    steps = [-(-len(fold.train) // preset.batch_size) for fold in folds]
    trained: dict[int, Trained] = {}
    # Folds of equally many steps an epoch can step together.
    for _, group in groupby(sorted(range(len(folds)), key=steps.__getitem__), key=steps.__getitem__):
        chosen = list(group)
        training = _Training(features, labels, [folds[index] for index in chosen], preset, start)
        trained |= dict(zip(chosen, training.run(), strict=True))
    return [trained[index] for index in range(len(folds))]


def _first_weights(width: int, classes: int, hidden: int, seed: int) -> list[nn.Linear]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if not hidden:
            return [nn.Linear(width, classes)]
        return [nn.Linear(width, hidden), nn.Linear(hidden, classes)]


class _Training:
    """Classifiers that take their steps together, until each has met its own end."""

    def __init__(
        self,
        features: Tensor,
        labels: Tensor,
        folds: Sequence[Fold],
        preset: NeuralPreset,
        start: Sequence[nn.Linear],
    ) -> None:
        self.features, self.labels, self.folds, self.preset = features, labels, folds, preset
        penalties = torch.tensor([fold.penalties for fold in folds])  # (folds, penalties)
        self.network = Network.of(start, penalties.shape)
        self.best = self.network.copy()
        self.accuracies = np.full(penalties.shape, -1.0)
        self.misses = np.zeros(penalties.shape, dtype=int)
        self.ended = np.zeros(penalties.shape, dtype=bool)
        self.dev = [self._dev_rows(fold) for fold in folds]
        self.running = list(range(len(folds)))  # the folds that `network` still holds
        self.optimizer = Optimizer(self.network, preset, penalties)

    def run(self) -> list[Trained]:
        epochs = 0
        while self.running and epochs <= self.preset.max_epochs:
            for _ in range(self.preset.epoch_size):
                self._epoch()
            epochs += self.preset.epoch_size
            self._judge()
        return [Trained(self.accuracies[index], self.best.of_fold(index)) for index in range(len(self.folds))]

    def _epoch(self) -> None:
        for rows, weights in self._batches():
            self.optimizer.step(self.network.gradients(self.features[rows], self.labels[rows], weights))

    def _batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows `(folds, batch)` and what each counts in the mean of its batch; 0 fills a last one up."""
        size = self.preset.batch_size
        folds = [self.folds[index] for index in self.running]
        longest = max(len(fold.train) for fold in folds)
        order = np.zeros((len(folds), longest), dtype=np.int64)
        for row, fold in zip(order, folds, strict=True):
            row[: len(fold.train)] = fold.train[fold.generator.permutation(len(fold.train))]
        rows = torch.from_numpy(order)
        lengths = torch.tensor([len(fold.train) for fold in folds]).unsqueeze(1)
        places = torch.arange(longest).unsqueeze(0)
        for start in range(0, longest, size):
            inside = places[:, start : start + size] < lengths
            yield rows[:, start : start + size], inside / inside.sum(dim=1, keepdim=True)

    def _judge(self) -> None:
        for place, index in enumerate(self.running):
            features, labels = self.dev[index]
            logits = self.network.of_fold(place).logits(features.unsqueeze(0))[0]
            right = (logits.argmax(dim=2) == labels.unsqueeze(1)).sum(dim=0)
            self._note(place, index, right.numpy() / len(labels))
        left = [place for place, index in enumerate(self.running) if not self.ended[index].all()]
        if len(left) < len(self.running):
            self.running = [self.running[place] for place in left]
            self.network = self.network.select(left)
            self.optimizer.select(left, self.network)

    def _note(self, place: int, index: int, accuracies: npt.NDArray[np.float64]) -> None:
        going = ~self.ended[index]
        better = going & (accuracies > self.accuracies[index])
        self.accuracies[index][better] = accuracies[better]
        self.best.take(index, self.network, place, np.flatnonzero(better).tolist())
        missed = going & ~better
        self.ended[index] |= missed & (self.misses[index] >= self.preset.tenacity)
        self.misses[index] += missed

    def _dev_rows(self, fold: Fold) -> tuple[Tensor, Tensor]:
        rows = torch.from_numpy(fold.dev)
        return self.features[rows], self.labels[rows]
