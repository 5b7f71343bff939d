"""What a run writes down on its way: metrics, and checkpoints that are known to be complete."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from sentemb._files import read_json, write_json, write_text
from sentemb.errors import InputError
from sentemb.pretraining.schedule import Budget

_LOGGED = ("loss", "learning_rate", "grad_norm", "eval_loss")
_PROGRESS_FILE = "progress.json"


class Recorder(TrainerCallback):
    """Ends the run with its budget, saves and validates by the clock, and appends to `metrics.jsonl`.

    Args:
        metrics: The file; each line holds a step's numbers.
        budget: Where the run ends.
        tokens_per_step: Tokens in a batch, for the record.
        save_minutes: Time between checkpoints, each with a validation before it.
    """

    def __init__(self, metrics: Path, *, budget: Budget, tokens_per_step: float, save_minutes: float) -> None:
        self._metrics = metrics
        self.budget = budget
        self.tokens_per_step = tokens_per_step
        self._save_seconds = 60 * save_minutes
        self._saved = 0.0
        self.stop_requested = False

    def stop(self) -> None:
        """Save a checkpoint after the running step and leave."""
        self.stop_requested = True

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Drop lines past the checkpoint that the run resumes from, and start the clock."""
        lines = self._metrics.read_text(encoding="utf-8").splitlines() if self._metrics.exists() else []
        kept = [line for line in lines if json.loads(line)["step"] <= state.global_step]
        write_text(self._metrics, "".join(f"{line}\n" for line in kept) if state.global_step else "")
        self.budget.start()
        self._saved = self.budget.seconds()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Ask for a checkpoint when one is due, and for the end when the budget is spent."""
        over = self.stop_requested or self.budget.progress(state.global_step) >= 1.0
        if over or self.budget.seconds() - self._saved >= self._save_seconds:
            self._saved = self.budget.seconds()
            control.should_evaluate = control.should_save = True
        control.should_training_stop = over

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Append the logged numbers with step, seconds and tokens so far."""
        kept = {name: value for name, value in (logs or {}).items() if name in _LOGGED}
        if not kept:
            return
        for name, value in kept.items():
            if not math.isfinite(value):
                raise InputError(
                    f"{name} is {value} at step {state.global_step}",
                    "start again with a lower --learning-rate",
                )
        seconds = self.budget.seconds()
        line = {
            "step": state.global_step,
            "seconds": round(seconds, 1),
            "tokens": round(state.global_step * self.tokens_per_step),
            **{name: float(value) for name, value in kept.items()},
        }
        with self._metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Mark the checkpoint as complete; the mark also carries the clock."""
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        write_json(folder / _PROGRESS_FILE, {"step": state.global_step, "seconds": self.budget.seconds()})


def latest_checkpoint(folder: Path) -> tuple[Path, float] | None:
    """The last complete checkpoint."""
    for path in sorted(folder.glob("checkpoint-*"), key=_step, reverse=True):
        if (path / _PROGRESS_FILE).exists():
            return path, float(read_json(path / _PROGRESS_FILE)["seconds"])
    return None


def _step(path: Path) -> int:
    with contextlib.suppress(ValueError):
        return int(path.name.rpartition("-")[2])
    return -1
