"""All optimizer steps of a run in order, each a function of the configuration and its number alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from sentemb.multitask.tasks import TASKS, TaskSets
from sentemb.training.config import MultiTaskConfig

Rows = NDArray[np.int64]
ContrastSet = Literal["nli", "sentiment", "paraphrase", "similarity"]


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a set, and what is done with them."""

    objective: Literal["task", "contrast"]
    data: ContrastSet
    rows: Rows

    @property
    def name(self) -> str:
        """The name of its loss in logs."""
        return self.data if self.objective == "task" else f"contrast_{self.data}"


Step = tuple[Part, ...]
"""The batches of one optimizer step."""


def uses_nli(config: MultiTaskConfig) -> bool:
    """Return whether a configuration trains on NLI triples."""
    return config.contrast != "none" and "nli" in config.contrast_data


class StepPlan(Dataset[Step]):
    """The steps of all stages, laid out epoch by epoch, so that a resumed run reads on where it stopped.

    A stage is the part of a run with an optimizer of its own: `tasks`, `fused`, or contrast on a source.
    """

    def __init__(self, config: MultiTaskConfig, sets: TaskSets, *, nli_rows: int = 0) -> None:
        self.config, self.sets, self.nli_rows = config, sets, nli_rows
        contrast = [f"contrast on {source}" for source in config.contrast_data]
        orders = {"none": ["tasks"], "before": [*contrast, "tasks"], "after": ["tasks", *contrast]}
        self.stages = orders.get(config.contrast, ["fused"])
        # Every epoch of a stage has as many steps as the first.
        self._epochs = [len(self.layout(stage, np.random.default_rng(0))) for stage in self.stages]
        counts = {"tasks": config.epochs, "fused": config.epochs, "contrast on nli": config.nli_epochs}
        sizes = [
            counts.get(stage, config.contrast_epochs) * epoch
            for stage, epoch in zip(self.stages, self._epochs, strict=True)
        ]
        self._ends = list(accumulate(min(size, config.max_steps or size) for size in sizes))
        self._laid_out: tuple[tuple[int, int], list[Step]] | None = None

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, number: int) -> Step:
        if not 0 <= number < len(self):
            raise IndexError(number)
        stage, place = self.locate(number)
        epoch, place = divmod(place, self._epochs[stage])
        if self._laid_out is None or self._laid_out[0] != (stage, epoch):
            generator = np.random.default_rng((self.config.seeds[0], stage, epoch))
            self._laid_out = (stage, epoch), self.layout(self.stages[stage], generator)
        return self._laid_out[1][place]

    def locate(self, number: int) -> tuple[int, int]:
        """Return a step's stage, and its number within it."""
        stage = next(index for index, end in enumerate(self._ends) if number < end)
        return stage, number - (self._ends[stage - 1] if stage else 0)

    def ends_epoch(self, number: int) -> bool:
        """Return whether a step is the last one of an epoch."""
        stage, place = self.locate(number)
        return number + 1 == self._ends[stage] or (place + 1) % self._epochs[stage] == 0

    def learning_rate(self, number: int) -> float:
        """Return a linear rise over the warm-up of the stage, then a constant or a linear fall to 0."""
        number, config = min(number, len(self) - 1), self.config
        stage, step = self.locate(number)
        steps = self._ends[stage] - (number - step)
        contrast = self.stages[stage].startswith("contrast")
        peak = config.contrast_learning_rate if contrast else config.learning_rate
        warm = round(config.warmup * steps)
        if step < warm:
            return peak * step / warm
        return peak * (steps - step) / max(1, steps - warm) if config.schedule == "linear" else peak

    def layout(self, stage: str, generator: np.random.Generator) -> list[Step]:
        """Return the steps of an epoch of a stage."""
        if stage == "tasks":
            return self._tasks(generator)
        # The paper's two orders (sections 4.1 and 5.3).
        supervised, paraphrase = self.config.contrast_supervised, self.sets.paraphrase
        order = (TASKS[1], TASKS[0], TASKS[2]) if supervised else TASKS
        rows: dict[ContrastSet, Rows] = {task: np.arange(len(self.sets[task])) for task in order}
        if supervised and self.config.loss_options.get("negatives") == "ignored":
            # Whole batches of paraphrases: the loss would skip the other pairs.
            rows["paraphrase"] = np.flatnonzero(paraphrase.labels == 1)
        steps: list[Step] = []
        if stage == "fused":
            # Each batch is trained on its task, then on contrast (section 4.2); a single row contrasts with
            # nothing.
            (task,) = self.config.tasks
            del rows[task]
            for batch in self._batches(generator.permutation(len(self.sets[task]))):
                parts = [Part("task", task, batch), Part("contrast", task, batch)][: len(batch)]
                steps += [(part,) for part in parts]
        elif stage == "contrast on nli":
            rows = {"nli": np.arange(self.nli_rows)}
        elif stage == "contrast on quora":
            rows = {"paraphrase": rows["paraphrase"]}
        for name, usable in rows.items():
            share = self.config.paraphrase_share if name == "paraphrase" else 1.0
            chosen = generator.permutation(usable)[: max(1, round(share * len(usable)))]
            steps += [(Part("contrast", name, one),) for one in self._batches(chosen) if len(one) > 1]
        return steps

    def _tasks(self, generator: np.random.Generator) -> list[Step]:
        """Lay out supervised training.

        With `average` and `batch-round-robin` each set is brought down to the size of the smallest (section
        4.2).
        """
        tasks, schedule = self.config.tasks, self.config.task_schedule
        whole = schedule == "epoch-round-robin"
        smallest = min(len(self.sets[task]) for task in tasks)
        batches = []
        for task in tasks:
            rows = generator.permutation(len(self.sets[task]))[: None if whole else smallest]
            batches.append([Part("task", task, batch) for batch in self._batches(rows)])
        if schedule == "average":
            return list(zip(*batches, strict=True))
        in_turn = batches if whole else zip(*batches, strict=True)
        return [(part,) for parts in in_turn for part in parts]

    def _batches(self, rows: Rows) -> list[Rows]:
        size = self.config.batch_size
        return [rows[start : start + size] for start in range(0, len(rows), size)]
