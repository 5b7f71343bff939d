"""SentEval's own classifiers, many of them at once.

SentEval trains a classifier for each fold and each penalty, one after the other: over 400 for a task, whose
steps cost far more in overhead than in arithmetic. Here the classifiers of several folds and all penalties
take their steps together, and several such groups run at once on the cores. Each classifier has the rows,
the order of rows, the first weights and the stopping rule that it would have alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from threading import Event

import torch
from torch import Tensor, nn

from sentemb._threads import one_thread_each
from sentemb.evaluation.transfer.batched import BatchedTrainer
from sentemb.evaluation.transfer.folds import Fold, Trained
from sentemb.evaluation.transfer.objectives import Objective
from sentemb.evaluation.transfer.presets import Schedule

_FOLDS = 10
"""At most so many folds in a group: by then a step's overhead is small beside its arithmetic."""
_WEIGHTS = 2**19
"""About so many weights in a group. With more, the overhead is small with fewer folds too, and fewer folds
wait for the one that needs most."""
_ALONE = 2**15
"""With more weights, a single fold is worth two cores: half of its penalties on each."""


def train_folds(
    features: Tensor, objective: Objective, folds: Sequence[Fold], schedule: Schedule, *, seed: int
) -> list[Trained]:
    """Train the classifiers of all folds."""
    start = _first_layers(features.shape[1], objective.outputs, schedule.hidden, seed)
    members = len(folds[0].penalties)
    weights = members * sum(parameter.numel() for layer in start for parameter in layer.parameters())
    if len(folds) == 1 and members > 1 and weights > _ALONE:
        halves = train_folds(features, objective, folds[0].halves(), schedule, seed=seed)
        return [Trained.joined(halves)]
    groups = list(_groups(folds, schedule.batch_size, weights))
    stop = Event()

    def train(group: Sequence[int]) -> list[tuple[int, Trained]]:
        trainer = BatchedTrainer(features, objective, [folds[index] for index in group], schedule, start)
        return list(zip(group, trainer.run(stop), strict=True))

    with one_thread_each() as pool:
        try:
            trained = dict(pair for pairs in pool.map(train, groups) for pair in pairs)
        except BaseException:  # Ctrl-C must not wait until all are trained
            stop.set()
            raise
    return [trained[index] for index in range(len(folds))]


def _first_layers(width: int, classes: int, hidden: int, seed: int) -> list[nn.Linear]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if not hidden:
            return [nn.Linear(width, classes)]
        return [nn.Linear(width, hidden), nn.Linear(hidden, classes)]


def _groups(folds: Sequence[Fold], batch_size: int, weights: int) -> Iterator[list[int]]:
    """Folds that take their steps together, which needs equally many steps an epoch."""

    def steps(index: int) -> int:
        return -(-len(folds[index].train) // batch_size)

    # Two groups at least, for two cores; not a group for each core, so that results do not depend on them.
    size = max(1, min(_FOLDS, -(-len(folds) // 2), _WEIGHTS // weights))
    for _, alike in groupby(sorted(range(len(folds)), key=steps), key=steps):
        chosen = list(alike)
        yield from (chosen[start : start + size] for start in range(0, len(chosen), size))
