"""How far a run is, by steps or by the clock, and the learning rate that follows from it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from sentemb.errors import InputError


@dataclass
class Budget:
    """The end of a run: a number of steps, a number of minutes, or whichever is reached first.

    Args:
        max_steps: Optimiser steps.
        max_minutes: Wall time of training, earlier parts of a resumed run counted in.
        elapsed: Seconds that earlier parts took.

    Raises:
        InputError: Neither end is given, or one is not positive.
    """

    max_steps: int | None = None
    max_minutes: float | None = None
    elapsed: float = 0.0
    _started: float | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.max_steps is None and self.max_minutes is None:
            raise InputError("the run has no end", "set --max-steps, --max-minutes or both")
        for name, value in (("--max-steps", self.max_steps), ("--max-minutes", self.max_minutes)):
            if value is not None and value <= 0:
                raise InputError(f"{name} {value} is not positive", "give a number above zero")

    def start(self) -> None:
        """Let the clock run."""
        self._started = time.monotonic()

    def seconds(self) -> float:
        """Seconds of training so far, over all parts of the run."""
        return self.elapsed + (0.0 if self._started is None else time.monotonic() - self._started)

    def progress(self, step: int) -> float:
        """Share of the run that is over."""
        by_step = step / self.max_steps if self.max_steps else 0.0
        by_clock = self.seconds() / (60 * self.max_minutes) if self.max_minutes else 0.0
        return min(1.0, max(by_step, by_clock))


def learning_rate_factor(progress: float, warmup: float) -> float:
    """Linear warm-up from zero, then linear decay to zero at the end of the run."""
    if progress < warmup:
        return progress / warmup
    return (1.0 - progress) / (1.0 - warmup)
