"""How far a run is, by steps or by wall time: learning rate, checkpoints and the end follow from it."""

from __future__ import annotations

import time
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from sentemb.errors import InputError


class Budget(TrainerCallback):
    """Ends a run by steps, by wall time, or by whichever comes first, and saves and validates by wall time.

    Earlier parts of a resumed run count.
    """

    def __init__(
        self, max_steps: int | None = None, max_minutes: float | None = None, *, save_minutes: float = 5.0
    ) -> None:
        if max_steps is None and max_minutes is None:
            raise InputError("the length of the run is not limited", "set max_steps, max_minutes or both")
        self.max_steps, self.max_minutes, self.save_minutes = max_steps, max_minutes, save_minutes
        self.elapsed = 0.0  # seconds that earlier parts of the run took
        self._started: float | None = None
        self._saved = 0.0

    def start(self) -> None:
        """Start to count the time."""
        self._started = time.monotonic()
        self._saved = self.seconds()

    def seconds(self) -> float:
        """Seconds of training so far, over all parts of the run."""
        return self.elapsed + (0.0 if self._started is None else time.monotonic() - self._started)

    def progress(self, step: int) -> float:
        """Share of the run that is over."""
        by_step = step / self.max_steps if self.max_steps else 0.0
        by_clock = self.seconds() / (60 * self.max_minutes) if self.max_minutes else 0.0
        return min(1.0, max(by_step, by_clock))

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        """Start to count the time."""
        self.start()

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Ask for a checkpoint when one is due, and for the end when the budget is spent."""
        over = self.progress(state.global_step) >= 1.0
        if over or self.seconds() - self._saved >= 60 * self.save_minutes:
            self._saved = self.seconds()
            control.should_evaluate = control.should_save = True
        control.should_training_stop = control.should_training_stop or over


def learning_rate_factor(progress: float, warmup: float) -> float:
    """Linear warm-up from zero, then linear decay to zero at the end of the run."""
    if progress < warmup:
        return progress / warmup
    return (1.0 - progress) / (1.0 - warmup)
