"""What happens beside the steps: metrics to the run's folder, speed, and a clean stop on Ctrl-C."""

from __future__ import annotations

import logging
import signal
import threading
import time
from types import FrameType
from typing import Any

import torch
from torch import distributed
from transformers import TrainerCallback, TrainerControl, TrainerState

from sentemb.training.folder import RunFolder
from sentemb.training.ranks import ranks

logger = logging.getLogger(__name__)


class SpeedCallback(TrainerCallback):
    """Measures sentences per second over the steps alone, without evaluations and checkpoints."""

    def __init__(self, sentences_per_step: int) -> None:
        self.sentences_per_step = sentences_per_step
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

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        """Count a step."""
        now = time.monotonic()
        self.steps += 1
        self.seconds += now - self._mark
        self._mark = now

    # Evaluations and checkpoints are left out.
    on_evaluate = on_save = on_train_begin


class MetricsCallback(TrainerCallback):
    """Writes every log entry to `metrics.jsonl` as it comes."""

    def __init__(self, folder: RunFolder, *, speed: SpeedCallback) -> None:
        self.folder = folder
        self.speed = speed

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Log the last step, whatever the interval."""
        if state.global_step >= state.max_steps:
            control.should_log = True

    def on_log(self, args: Any, state: TrainerState, control: Any, logs: dict[str, Any], **_: Any) -> None:
        """Append the entry."""
        if state.is_world_process_zero:
            entry = {"step": state.global_step, "time": round(time.time(), 3)} | _without_upstream_speed(logs)
            if "loss" in logs:
                entry["sentences_per_second"] = round(self.speed.sentences_per_second, 2)
            self.folder.append_metrics(entry)


class InterruptCallback(TrainerCallback):
    """Turns the first Ctrl-C (or SIGTERM) into a checkpoint and a stop after the step; a second acts at once.

    Use it as a context manager around the training. Outside the main thread, where Python takes no signals,
    it does nothing, and a signal that the process ignores, as one under nohup or a worker of a study does,
    stays ignored.
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
        """Save and stop where the user asked for it."""
        self.interrupted = _on_any_rank(self.interrupted)
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


def _on_any_rank(noted: bool) -> bool:
    """Whether any rank has noted it: signals do not reach all of them in the same step."""
    if ranks().num_processes == 1:
        return noted
    flag = torch.tensor(float(noted), device=ranks().device)
    distributed.all_reduce(flag)
    return bool(flag)


def _without_upstream_speed(logs: dict[str, Any]) -> dict[str, Any]:
    """Upstream counts rows of an evaluation loss, which there is not, and floating-point operations: 0."""
    return {name: value for name, value in logs.items() if not name.endswith(("_per_second", "_flos"))}
