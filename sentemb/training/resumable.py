"""Checkpoints for any trainer of transformers: complete or absent, without pickle, resumed exactly."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch import nn
from transformers import Trainer
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import ExportableState

from sentemb._files import write_json, writing
from sentemb.errors import InputError
from sentemb.training.checkpoints import check_checkpoint, checkpoint_name, remove_folder, rotate, seal
from sentemb.training.state import load_state, random_state, save_state, set_random_state

OPTIMIZER_FILE = "optimizer.safetensors"
RANDOM_FILES = "random-*.safetensors"


def random_file(rank: int) -> str:
    """Name of the file with the random generators of one process."""
    return f"random-{rank}.safetensors"


class ResumableTrainer(Trainer):
    """Writes checkpoints as safetensors and JSON, under their names only when they are complete."""

    optimizer: Any
    lr_scheduler: Any

    def save_weights(self, folder: Path) -> None:
        """Write the weights, in a form that `_load_from_checkpoint` reads."""
        self.model.save_pretrained(str(folder))

    def restore(self, checkpoint: Path) -> None:
        """Load the weights of a checkpoint."""
        check_checkpoint(checkpoint)
        self._load_from_checkpoint(str(checkpoint))

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        step = self.state.global_step
        folder = Path(self._get_output_dir(trial=trial))
        final = folder / checkpoint_name(step)
        partial = folder / f".{final.name}.partial"
        self.store_flos()
        if self.args.should_save:
            remove_folder(partial)
            partial.mkdir(parents=True)
        self.accelerator.wait_for_everyone()
        try:
            with writing(final):
                if not self.args.save_only_model:
                    save_state(partial / random_file(self.args.process_index), random_state())
                if self.args.should_save:
                    self._fill_checkpoint(partial, final)
                self.accelerator.wait_for_everyone()
                if self.args.should_save:
                    seal(partial)
        except OSError:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        if self.args.should_save:
            remove_folder(final)
            partial.rename(final)
            best = self.state.best_global_step
            protected = () if best is None else (best,)
            rotate(folder, keep=self.args.save_total_limit, protected=protected)
        self.accelerator.wait_for_everyone()

    def _fill_checkpoint(self, partial: Path, final: Path) -> None:
        """Write everything but the random generators, which every rank writes for itself."""
        self.save_weights(partial)
        if not self.args.save_only_model:
            scaler = getattr(self.accelerator, "scaler", None)
            training = {
                "optimizer": self.optimizer.state_dict(),
                "scheduler": self.lr_scheduler.state_dict(),
                "scaler": None if scaler is None else scaler.state_dict(),
            }
            save_state(partial / OPTIMIZER_FILE, training)
        write_json(partial / "training_args.json", json.loads(self.args.to_json_string()))
        if (best := self.state.best_global_step) is not None:
            self.state.best_model_checkpoint = str(final.with_name(checkpoint_name(best)))
        callbacks = [*self.callback_handler.callbacks, self.control]
        exportable = [callback for callback in callbacks if isinstance(callback, ExportableState)]
        self.state.stateful_callbacks = {type(callback).__name__: [] for callback in exportable}
        for callback in exportable:
            self.state.stateful_callbacks[type(callback).__name__].append(callback.state())
        self.state.save_to_json(str(partial / TRAINER_STATE_NAME))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        state = load_state(Path(checkpoint) / OPTIMIZER_FILE)
        self.optimizer.load_state_dict(state["optimizer"])
        self.lr_scheduler.load_state_dict(state["scheduler"])
        if state["scaler"] is not None:
            self.accelerator.scaler.load_state_dict(state["scaler"])

    def _load_scaler(self, checkpoint: str | None) -> None:
        """The scaler lies in the optimizer's file."""

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        file = Path(checkpoint) / random_file(self.args.process_index)
        if not file.exists():  # the run had fewer processes; all begin with the same numbers
            file = Path(checkpoint) / random_file(0)
        set_random_state(load_state(file))

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log, and stop a run whose loss, or a part of it, is not finite."""
        super().log(logs, start_time)
        check_finite(logs, step=self.state.global_step)


def decay_groups(parameters: Iterable[nn.Parameter], decay: float) -> list[dict[str, Any]]:
    """Groups of an optimizer in which matrices decay and vectors do not."""
    weights = list(parameters)
    return [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": decay},
        {"params": [weight for weight in weights if weight.ndim <= 1], "weight_decay": 0.0},
    ]


def check_finite(logs: dict[str, float], *, step: int) -> None:
    """Stop a run whose loss, or a part of it, is not finite."""
    losses = {name: value for name, value in logs.items() if name.startswith("loss")}
    # The parts come after the whole, and say more.
    for name in reversed(losses):
        if not math.isfinite(losses[name]):
            raise InputError(
                f"the {name.replace('_', ' of ', 1)} is not finite at step {step}",
                "lower the learning rate",
            )
