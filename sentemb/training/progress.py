"""Progress on a terminal: one live line; elsewhere: a line per log entry."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterator
from typing import Any

import datasets
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from transformers import TrainerCallback, TrainerState
from transformers.utils import logging as transformers_logging

from sentemb.training.callbacks import MetricsCallback

_HIDDEN = frozenset(
    "epoch step total_flos train_loss train_runtime train_samples_per_second train_steps_per_second "
    "eval_runtime eval_samples_per_second eval_steps_per_second grad_norm".split()
)
_SHORT = {"eval_loss": "dev loss", "learning_rate": "lr"}

ENDLESS = 10**8
"""More steps than any run takes, where wall time alone ends it."""


class ConsoleProgress(TrainerCallback):
    """Shows steps, losses, dev score and speed, as a callback of a trainer or driven by calls."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.speed: MetricsCallback | None = None
        self._total: int | None = None
        self._live: Progress | None = None

    def announce(self, text: str) -> None:
        """Print a line above the live one."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, total: int | None, done: int = 0) -> None:
        """Open the live line; a run that ends by wall time has no total."""
        self._total = total
        if self.console.is_terminal:
            speed = TextColumn("{task.description}")  # last: it fits a narrow terminal
            columns = (BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn(), speed)
            self._live = Progress(*columns, console=self.console)
            self._live.start()
            self._live.add_task("", total=total, completed=done)

    def advance(self, done: int) -> None:
        """Move the live line."""
        if self._live is not None:
            self._live.update(self._live.task_ids[0], completed=done)

    def show(self, values: dict[str, float], done: int) -> None:
        """Show the newest values, above the live line."""
        speed = ""
        if self.speed is not None and self.speed.steps:
            speed = f"{self.speed.sentences_per_second:.0f}\xa0sentences/s"
        if self._live is not None:
            self._live.update(self._live.task_ids[0], description=speed)
        shown = [f"{_short(name)}\xa0{value:.4g}" for name, value in values.items()]
        step = f"step\xa0{done}" if self._total is None else f"step\xa0{done}/{self._total}"
        line = "  ".join([step, *shown, *([speed] if self._live is None else [])])
        for part in textwrap.wrap(line, 80, subsequent_indent="  ", break_on_hyphens=False):
            self.announce(part.replace("\xa0", " "))

    def close(self) -> None:
        """End the live line, whatever happened to the training."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Open the live line."""
        self.begin(state.max_steps if state.max_steps < ENDLESS else None, state.global_step)

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Move the live line."""
        self.advance(state.global_step)

    def on_log(self, args: Any, state: TrainerState, control: Any, logs: dict[str, Any], **_: Any) -> None:
        """Show the newest values."""
        values = {name: one for name, one in logs.items() if name not in _HIDDEN and isinstance(one, float)}
        if values:
            self.show(values, state.global_step)


def _short(name: str) -> str:
    return _SHORT.get(name, name.removeprefix("eval_").removesuffix("_cosine"))


@contextlib.contextmanager
def without_upstream_bars() -> Iterator[None]:
    """Switch off upstream's bars for loading and saving, which would tear the progress line apart."""
    shown = transformers_logging.is_progress_bar_enabled(), not datasets.are_progress_bars_disabled()
    transformers_logging.disable_progress_bar()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown[0]:
            transformers_logging.enable_progress_bar()
        if shown[1]:
            datasets.enable_progress_bars()
