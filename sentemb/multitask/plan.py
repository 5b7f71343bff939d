"""All optimizer steps of a run in order, each a function of the configuration and its number alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from torch.utils.data import Dataset

from sentemb.multitask.schedule import Step
from sentemb.multitask.stages import Stage
from sentemb.training.config import MultiTaskConfig


class StepPlan(Dataset[Step]):
    """The steps of all stages, laid out epoch by epoch; a resumed run reads on where it was interrupted."""

    def __init__(self, stages: Sequence[Stage], config: MultiTaskConfig) -> None:
        self.stages, self.config = stages, config
        # Every epoch of a stage has as many steps as the first.
        self._epochs = [len(stage.layout(np.random.default_rng(0))) for stage in stages]
        sizes = [stage.epochs * epoch for stage, epoch in zip(stages, self._epochs, strict=True)]
        self._ends = list(accumulate(min(size, config.max_steps or size) for size in sizes))
        self._laid_out: tuple[tuple[int, int], list[Step]] | None = None

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, number: int) -> Step:
        if not 0 <= number < len(self):
            raise IndexError(number)
        stage, place = self._locate(number)
        epoch, place = divmod(place, self._epochs[stage])
        if self._laid_out is None or self._laid_out[0] != (stage, epoch):
            generator = np.random.default_rng((self.config.seeds[0], stage, epoch))
            self._laid_out = (stage, epoch), self.stages[stage].layout(generator)
        return self._laid_out[1][place]

    def stage_of(self, number: int) -> Stage:
        """The stage of a step."""
        return self.stages[self._locate(number)[0]]

    def begins_stage(self, number: int) -> bool:
        """Whether a step is the first one of its stage."""
        return self._locate(number)[1] == 0

    def ends_epoch(self, number: int) -> bool:
        """Whether a step is the last one of an epoch."""
        stage, place = self._locate(number)
        return number + 1 == self._ends[stage] or (place + 1) % self._epochs[stage] == 0

    def learning_rate(self, number: int) -> float:
        """A linear rise over the warm-up of the stage, then constant or linear to 0."""
        stage, step = self._locate(min(number, len(self) - 1))
        steps = self._ends[stage] - (self._ends[stage - 1] if stage else 0)
        peak, warm = self.stages[stage].learning_rate, round(self.config.warmup * steps)
        if step < warm:
            return peak * step / warm
        return peak * (steps - step) / max(1, steps - warm) if self.config.schedule == "linear" else peak

    def _locate(self, number: int) -> tuple[int, int]:
        """A step's stage, and its number within it."""
        stage = next(index for index, end in enumerate(self._ends) if number < end)
        return stage, number - (self._ends[stage - 1] if stage else 0)
