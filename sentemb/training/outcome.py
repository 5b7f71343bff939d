"""How a run ends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class Interrupted(KeyboardInterrupt):
    """The user stopped a run; its folder holds a checkpoint to resume from.

    Args:
        folder: The run's folder.
        step: The step of the checkpoint.
    """

    def __init__(self, folder: Path, step: int) -> None:
        super().__init__(f"stopped at step {step}; resume with the same command and --resume")
        self.folder = folder
        self.step = step


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
    """

    output: Path
    seed: int
    dev_score: float | None
    step: int
    steps: int
    sentences_per_second: float
    base_score: float | None = None
