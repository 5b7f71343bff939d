"""Which rows are trained on in which order: the optimizer steps of one epoch.

An epoch is a pure function of the sets' sizes, the options and a generator, so that an interrupted one can be
laid out again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sentemb.data.sampling import stratified_sample
from sentemb.multitask.tasks import TASKS, TaskSets
from sentemb.training.config.multitask import Fusion, Resampling, Task, TaskSchedule

Rows = NDArray[np.int64]
ContrastSet = Literal["nli", "sentiment", "paraphrase", "similarity"]


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a set, and what is done with them."""

    objective: Literal["task", "contrast"]
    data: ContrastSet
    rows: Rows


@dataclass(frozen=True)
class Step:
    """One optimizer step, on the mean or the sum of the losses of its batches."""

    parts: tuple[Part, ...]
    combine: Literal["mean", "sum"] = "mean"


def task_epoch(
    sets: TaskSets,
    *,
    tasks: Sequence[Task] = TASKS,
    schedule: TaskSchedule = "average",
    resampling: Resampling = "uniform",
    batch_size: int,
    generator: np.random.Generator,
) -> list[Step]:
    """An epoch of supervised training.

    With `average` and `batch-round-robin` all sets are brought down to the size of the smallest among the
    trained tasks, without replacement (Chen, section 4.2). `epoch-round-robin` takes each set whole.
    """
    sizes = {task: len(sets[task]) for task in tasks}
    size = min(sizes.values())
    batches: dict[Task, list[Rows]] = {}
    for task in tasks:
        labels = sets[task].labels
        if schedule == "epoch-round-robin":
            rows = generator.permutation(sizes[task])
        elif resampling == "stratified" and sets[task].label_names:
            rows = generator.permutation(stratified_sample(labels, size, seed=int(generator.integers(2**32))))
        else:
            rows = generator.permutation(sizes[task])[:size]
        batches[task] = list(_batches(rows, batch_size))
    if schedule == "epoch-round-robin":
        return [_task_step((task,), (rows,)) for task in tasks for rows in batches[task]]
    rounds = zip(*batches.values(), strict=True)
    if schedule == "average":
        return [_task_step(tasks, one) for one in rounds]
    return [_task_step((task,), (rows,)) for one in rounds for task, rows in zip(tasks, one, strict=True)]


def contrast_epoch(
    rows: Mapping[ContrastSet, Rows],
    *,
    shares: Mapping[ContrastSet, float],
    batch_size: int,
    generator: np.random.Generator,
) -> list[Step]:
    """An epoch of contrastive training, one set after the other."""
    steps = []
    for name, usable in rows.items():
        count = max(1, round(shares.get(name, 1.0) * len(usable)))
        chosen = generator.permutation(usable)[:count]
        steps += [
            Step((Part("contrast", name, batch),)) for batch in _batches(chosen, batch_size) if len(batch) > 1
        ]
    return steps


def fused_epoch(
    sets: TaskSets,
    task: Task,
    *,
    fusion: Fusion = "alternating",
    batch_size: int,
    generator: np.random.Generator,
) -> list[Step]:
    """An epoch in which every batch is trained on its task and on contrast (Chen, section 4.2)."""
    steps = []
    for batch in _batches(generator.permutation(len(sets[task])), batch_size):
        parts = [Part("task", task, batch)]
        if len(batch) > 1:
            parts.append(Part("contrast", task, batch))
        if fusion == "summed":
            steps.append(Step(tuple(parts), combine="sum"))
        else:
            steps += [Step((part,)) for part in parts]
    return steps


def _task_step(tasks: Sequence[Task], rows: Sequence[Rows]) -> Step:
    return Step(tuple(Part("task", task, one) for task, one in zip(tasks, rows, strict=True)))


def _batches(rows: Rows, size: int) -> Iterator[Rows]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
