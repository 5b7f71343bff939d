"""The outcome of a run, and how programs report it."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sentemb.errors import InputError
from sentemb.evaluation.comparison import Difference, shown_p

Result = TypeVar("Result")


class Interrupted(KeyboardInterrupt):
    """The user stopped a run; its folder holds a checkpoint to resume from.

    Args:
        folder: The run's folder.
        step: The step of the checkpoint.
        number: The signal.
    """

    def __init__(self, folder: Path, step: int, number: int = signal.SIGINT) -> None:
        super().__init__(f"stopped at step {step}; run the same command with --resume to continue")
        self.folder, self.step, self.number = folder, step, number


@dataclass(frozen=True)
class Run:
    """A finished run.

    Args:
        output: The folder; it loads as a `SentenceTransformer`.
        seed: Its seed.
        dev_score: Dev score of the kept weights, as a fraction; `None` without a dev set.
        step: Step of the kept weights.
        steps: Total number of training steps.
        sentences_per_second: Speed of the steps; 0 if none was left to train.
        base_score: Dev score of the base as shipped; `None` if it was not evaluated.
        interval: 95 % interval of the change from the base, over the dev pairs; `None` without a dev set, or
            if the base is the result.
        measure: What dev scores are.
        test: The trained weights against the base on a second held-out part; `None` without one, or if the
            dev set chose the base.
    """

    output: Path
    seed: int
    dev_score: float | None
    step: int
    steps: int
    sentences_per_second: float
    base_score: float | None = None
    interval: tuple[float, float] | None = None
    measure: str = "Spearman"
    test: Difference | None = None

    @property
    def is_worse(self) -> bool:
        """Return True if the weights are significantly worse than the base on the second held-out split."""
        return self.test is not None and self.test.real and self.test.size < 0

    def verdict(self) -> str:
        """Return the change from the base in words, on the second held-out part if there is one."""
        if (test := self.test) is not None:
            low, high = test.interval or (test.size, test.size)
            text = f"not significantly different from the base: {test.size:+.1f}"
            if test.real:
                word = "better" if test.size > 0 else "worse"
                text = f"{word} than the base by {abs(test.size):.1f}"
            end = "; the base is returned" if self.is_worse and self.step == 0 else ""
            return (
                f"{text} {self.measure} on {test.items} held-out questions (95 % interval {low:+.1f} to "
                f"{high:+.1f}), {shown_p(test.p)}: {test.scores[0]:.1f} -> {test.scores[1]:.1f}{end}"
            )
        if self.dev_score is None or self.base_score is None:
            return "" if self.dev_score is None else f"dev {self.measure} {100 * self.dev_score:.2f}"
        low = high = change = 100 * (self.dev_score - self.base_score)
        text = f"dev {self.measure} {100 * self.base_score:.2f} (base) -> {100 * self.dev_score:.2f}, "
        text += f"{change:+.2f}"
        if self.interval is not None:
            low, high = (100 * bound for bound in self.interval)
            text += f" (95 % interval {low:+.2f} to {high:+.2f})"
        word = "better than" if low > 0 else "worse than" if high < 0 else "not significantly different from"
        return f"{text}: {word} the base"


def run_with_options(
    parser: argparse.ArgumentParser, action: Callable[[argparse.Namespace], Result]
) -> Result:
    """Read the command line and run; a user error is one line and exit code 2, Ctrl-C one line and 130."""
    try:
        return action(parser.parse_args())
    except Interrupted as interruption:
        parser.exit(128 + interruption.number, f"{interruption.folder}: {interruption}\n")
    except (InputError, OSError) as error:
        parser.exit(2, f"error: {error}\n")
