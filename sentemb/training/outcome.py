"""How a run ends."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

from sentemb.evaluation.comparison import Difference, shown_p


class Interrupted(KeyboardInterrupt):
    """The user stopped a run; its folder holds a checkpoint to resume from.

    Args:
        folder: The run's folder.
        step: The step of the checkpoint.
        number: The signal.
    """

    def __init__(self, folder: Path, step: int, number: int = signal.SIGINT) -> None:
        super().__init__(f"stopped at step {step}; run the same command with --resume to continue")
        self.folder = folder
        self.step = step
        self.number = number


@dataclass(frozen=True)
class Run:
    """A finished run.

    Args:
        output: The folder; it loads as a `SentenceTransformer`.
        seed: Its seed.
        dev_score: Dev score of the kept weights, as a fraction; `None` without a dev set.
        step: Step of the kept weights.
        steps: Steps trained in all.
        sentences_per_second: Speed of the steps; 0 where none was left to train.
        base_score: Dev score of the base as shipped; `None` where it was not evaluated.
        interval: 95 % interval of the change from the base, over the dev pairs; `None` where there is no dev
            set, or the base is the result.
        measure: What dev scores are.
        test: The trained weights against the base on a second held-out part; `None` where there is none, or
            the dev set chose the base.
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
        """Whether the second held-out part finds these weights significantly worse than the base."""
        return self.test is not None and self.test.real and self.test.size < 0

    def verdict(self) -> str:
        """The change from the base in words, on the second held-out part if there is one; scores x 100."""
        if self.test is not None:
            return self._tested(self.test)
        if self.dev_score is None or self.base_score is None:
            return "" if self.dev_score is None else f"dev {self.measure} {100 * self.dev_score:.2f}"
        change, told = 100 * (self.dev_score - self.base_score), ""
        low = high = change
        if self.interval is not None:
            low, high = (100 * bound for bound in self.interval)
            told = f" (95 % interval {low:+.2f} to {high:+.2f})"
        word = "better than" if low > 0 else "worse than" if high < 0 else "not significantly different from"
        scores = f"dev {self.measure} {100 * self.base_score:.2f} (base) -> {100 * self.dev_score:.2f}"
        return f"{scores}, {change:+.2f}{told}: {word} the base"

    def _tested(self, test: Difference) -> str:
        low, high = test.interval or (test.size, test.size)
        size = f"{abs(test.size):.1f}" if test.real else f"{test.size:+.1f}"
        word = "better" if test.size > 0 else "worse"
        told = f"{word} than the base by" if test.real else "not significantly different from the base:"
        end = "; the base is returned" if self.is_worse and self.step == 0 else ""
        return (
            f"{told} {size} {self.measure} on {test.items} held-out questions (95 % interval {low:+.1f} to "
            f"{high:+.1f}), {shown_p(test.p)}: {test.scores[0]:.1f} -> {test.scores[1]:.1f}{end}"
        )
