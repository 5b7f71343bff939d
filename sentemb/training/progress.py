"""Callbacks of training: metrics, speed, a clean stop on Ctrl-C, early stopping, progress on a terminal."""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import textwrap
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import FrameType
from typing import Any, Literal

import datasets
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import distributed
from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.utils import logging as transformers_logging

from sentemb.errors import InputError, unknown
from sentemb.training.folder import RunFolder
from sentemb.training.ranks import process_state

logger = logging.getLogger(__name__)

_HIDDEN = frozenset(
    "epoch step total_flos train_loss train_runtime train_samples_per_second train_steps_per_second "
    "eval_runtime eval_samples_per_second eval_steps_per_second grad_norm".split()
)
_SHORT = {"eval_loss": "dev loss", "learning_rate": "lr"}

ENDLESS = 10**8
"""More steps than any run takes, where wall time alone ends it."""


class MetricsCallback(TrainerCallback):
    """Writes every log entry to `metrics.jsonl` as it comes, with the speed of the steps alone."""

    def __init__(self, folder: RunFolder, sentences_per_step: int) -> None:
        self.folder, self.sentences_per_step = folder, sentences_per_step
        self.steps = 0
        self.seconds = 0.0
        self._mark = time.monotonic()

    @property
    def sentences_per_second(self) -> float:
        """The speed so far; 0 before the first step."""
        return self.steps * self.sentences_per_step / self.seconds if self.seconds else 0.0

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        """Start to measure the time."""
        self._mark = time.monotonic()

    # Evaluations and checkpoints do not count.
    on_evaluate = on_save = on_train_begin

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Count a step, and log the last one, whatever the interval."""
        now = time.monotonic()
        self.steps += 1
        self.seconds += now - self._mark
        self._mark = now
        if state.global_step >= state.max_steps:
            control.should_log = True

    def on_log(self, args: Any, state: TrainerState, control: Any, logs: dict[str, Any], **_: Any) -> None:
        """Append the entry, without upstream's speeds: they count rows of an evaluation loss, and 0 flos."""
        if state.is_world_process_zero:
            own = {name: one for name, one in logs.items() if not name.endswith(("_per_second", "_flos"))}
            if "loss" in logs:
                own["sentences_per_second"] = round(self.sentences_per_second, 2)
            self.folder.append_metrics({"step": state.global_step, "time": round(time.time(), 3)} | own)


class InterruptCallback(TrainerCallback):
    """Turns the first Ctrl-C (or SIGTERM) into a checkpoint and a stop after the step; a second acts at once.

    As a context manager around the training. Outside the main thread it does nothing; an ignored signal
    stays so.
    """

    def __init__(self) -> None:
        self.interrupted = False
        self.number: int = signal.SIGINT
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> InterruptCallback:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        self._restore()

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Save and stop where the user asked for it, on any rank: signals reach them in different steps."""
        if process_state().num_processes > 1:
            flag = torch.tensor(float(self.interrupted), device=process_state().device)
            distributed.all_reduce(flag)
            self.interrupted = bool(flag)
        if self.interrupted:
            control.should_save = True
            control.should_training_stop = True

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.interrupted, self.number = True, number
        self._restore()
        logger.warning("stopping after this step; interrupt again to stop immediately")

    def _restore(self) -> None:
        while self._previous:
            number, handler = self._previous.popitem()
            signal.signal(number, handler)


@dataclass(frozen=True)
class StoppingRule:
    """A rule over the dev scores so far, the one before the first step included.

    `drops` is the rule of the released SG-BERT code: a counter grows by one whenever a score is lower than
    the *previous* one and is never reset. `patience` counts the evaluations since the best score. `none`
    never stops. A resumed run stops where a whole one does.

    Args:
        kind: Which rule.
        limit: The count at which training stops.

    Example:
        >>> StoppingRule("drops", limit=3).limit
        3
    """

    kind: Literal["drops", "patience", "none"] = "drops"
    limit: int = 10

    def count(self, scores: Sequence[float]) -> int:
        """Return the number of drops, or of evaluations since the first maximum; 0 for `none`."""
        if self.kind == "none" or not scores:
            return 0
        if self.kind == "drops":
            return sum(later < earlier for earlier, later in pairwise(scores))
        return len(scores) - 1 - scores.index(max(scores))

    def fires(self, scores: Sequence[float]) -> bool:
        """Return whether training ends after these dev scores: once the counter has reached the limit."""
        return self.kind != "none" and self.count(scores) >= self.limit


def dev_scores(history: Sequence[dict[str, Any]], metric: str) -> list[float]:
    """Return the dev scores in a trainer's log history."""
    return [float(entry[metric]) for entry in history if metric in entry]


class StoppingCallback(TrainerCallback):
    """Stops a trainer by a rule, evaluates after the last step, and refuses scores that are not numbers.

    The stock trainer evaluates every so many steps only, and takes NaN for "no better": a short run would
    return its untrained state as the best one, a broken one would end without a word.
    """

    def __init__(self, metric: str, *, rule: StoppingRule) -> None:
        self.metric = metric
        self.rule = rule

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Evaluate after the last step, whatever the interval."""
        if state.global_step >= state.max_steps:
            control.should_evaluate = True

    def on_evaluate(
        self, args: Any, state: TrainerState, control: TrainerControl, metrics: dict[str, float], **_: Any
    ) -> None:
        """Check that the new score is there and finite, and apply the rule."""
        if self.metric not in metrics:
            raise unknown("metric of the evaluation", self.metric, sorted(metrics))
        if not math.isfinite(metrics[self.metric]):
            raise InputError(
                f"the dev score at step {state.global_step} is not a number",
                "lower the learning rate, or check the dev set for constant scores",
            )
        if self.rule.fires(dev_scores(state.log_history, self.metric)):
            control.should_training_stop = True


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
