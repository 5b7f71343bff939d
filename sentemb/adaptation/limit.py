"""The order of the pairs, and the end by the clock."""

from __future__ import annotations

import time
from typing import Any

from torch.utils.data import BatchSampler, SequentialSampler
from transformers import TrainerCallback, TrainerControl, TrainerState


def in_order(dataset: Any, batch_size: int, drop_last: bool, **kwargs: Any) -> BatchSampler:
    """Batches of rows as they come, as sentence-transformers' trainer asks for them (`batch_sampler=`)."""
    return BatchSampler(SequentialSampler(dataset), batch_size, drop_last)


class MinutesCallback(TrainerCallback):
    """Save and end training when its time is over. A resumed run has the whole time again.

    Args:
        minutes: The time.

    Attributes:
        over: Whether a training ended because of it.
    """

    def __init__(self, minutes: float) -> None:
        self.seconds = 60 * minutes
        self.over = False
        self._began = time.monotonic()

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        """Start to measure."""
        self._began = time.monotonic()

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """End where the time is over."""
        if time.monotonic() - self._began > self.seconds:
            self.over = state.global_step < state.max_steps
            control.should_save = control.should_training_stop = True
