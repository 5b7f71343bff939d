"""Classifiers of several folds that take their steps together, until each has met its own end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from threading import Event

import numpy as np
import torch
from torch import Tensor, nn

from sentemb.evaluation.transfer.folds import Fold, Trained
from sentemb.evaluation.transfer.network import Network
from sentemb.evaluation.transfer.objectives import Objective
from sentemb.evaluation.transfer.optimizers import Optimizer
from sentemb.evaluation.transfer.presets import Schedule
from sentemb.evaluation.transfer.scores import Floats


class BatchedTrainer:
    """Folds of equally many steps an epoch and equally many penalties.

    Args:
        features: `(n, d)`.
        objective: What to train on and to validate by.
        folds: The folds.
        schedule: How to train.
        start: The layers that every classifier begins with.
    """

    def __init__(
        self,
        features: Tensor,
        objective: Objective,
        folds: Sequence[Fold],
        schedule: Schedule,
        start: Sequence[nn.Linear],
    ) -> None:
        self.features, self.objective, self.folds, self.schedule = features, objective, folds, schedule
        penalties = torch.tensor([fold.penalties for fold in folds])  # (folds, penalties)
        self.optimizer = Optimizer(Network.of(start, *penalties.shape), schedule, penalties)
        self.best = Network.of(start, *penalties.shape)
        self.scores = np.full(penalties.shape, -1.0)
        self.misses = np.zeros(penalties.shape, dtype=int)
        self.ended = np.zeros(penalties.shape, dtype=bool)
        # Of what the optimizer still holds: the folds, and which classifier of its fold stands in each place.
        self.running = np.arange(len(folds))
        self.places = np.tile(np.arange(penalties.shape[1]), (len(folds), 1))
        self.shares = _shares([len(fold.train) for fold in folds], schedule.batch_size)
        self.dev = [torch.from_numpy(fold.dev) for fold in folds]

    @torch.inference_mode()
    def run(self, stop: Event) -> list[Trained]:
        """Train all to their ends."""
        epochs = 0
        while len(self.running) and epochs <= self.schedule.max_epochs and not stop.is_set():
            for _ in range(self.schedule.epoch_size):
                self._epoch()
            epochs += self.schedule.epoch_size
            self._validate()
            self._take_out()
        return [Trained(self.scores[index], self.best.of_fold(index)) for index in range(len(self.folds))]

    def _epoch(self) -> None:
        optimizer, size = self.optimizer, self.schedule.batch_size
        order, shares = self._order(), self.shares[self.running]
        targets = self.objective.targets(order)
        batches = zip(*(torch.split(part, size, dim=-1) for part in (order, targets, shares)), strict=True)
        for rows, wanted, counts in batches:
            features = nn.functional.embedding(rows, self.features)
            loss = partial(self.objective.back, targets=wanted, shares=counts)
            optimizer.network.differentiate(features, loss, optimizer.gradients)
            optimizer.step()

    def _order(self) -> Tensor:
        """The rows of an epoch, `(folds, longest)`; what fills a shorter fold up has a share of 0."""
        order = np.zeros((len(self.running), self.shares.shape[1]), dtype=np.int64)
        for row, index in zip(order, self.running.tolist(), strict=True):
            fold = self.folds[index]
            row[: len(fold.train)] = fold.train[fold.generator.permutation(len(fold.train))]
        return torch.from_numpy(order)

    def _validate(self) -> None:
        for place, index in enumerate(self.running.tolist()):
            rows = self.dev[index]
            features = self.features.index_select(0, rows).unsqueeze(0)
            logits = self.optimizer.network.of_fold(place).logits(features)[0]
            self._note(place, index, self.objective.score(logits, rows))

    def _note(self, place: int, index: int, scores: Floats) -> None:
        for member, penalty in enumerate(self.places[place].tolist()):
            if self.ended[index, penalty]:
                continue
            if scores[member] > self.scores[index, penalty]:
                self.scores[index, penalty] = scores[member]
                self.best.take(index, penalty, self.optimizer.network, place, member)
            else:
                self.ended[index, penalty] = self.misses[index, penalty] >= self.schedule.tenacity
                self.misses[index, penalty] += 1

    def _take_out(self) -> None:
        """Take out what has ended; all folds keep as many classifiers as the one that needs most."""
        ended = np.take_along_axis(self.ended[self.running], self.places, axis=1)
        folds = np.flatnonzero(~ended.all(axis=1))
        width = int((~ended).sum(axis=1).max())
        if (len(folds), width) == self.places.shape or not len(folds):
            self.running = self.running[folds]
            return
        members = np.argsort(ended[folds], axis=1, kind="stable")[:, :width]
        self.optimizer.select(torch.from_numpy(folds).unsqueeze(1), torch.from_numpy(members))
        self.places = np.take_along_axis(self.places[folds], members, axis=1)
        self.running = self.running[folds]


def _shares(lengths: Sequence[int], size: int) -> Tensor:
    """What each row of an epoch counts in the mean of its batch, `(folds, longest)`."""
    shares = torch.zeros(len(lengths), max(lengths))
    for row, length in zip(shares, lengths, strict=True):
        for batch in row[:length].split(size):
            batch.fill_(1 / len(batch))
    return shares
