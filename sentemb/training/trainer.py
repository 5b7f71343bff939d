"""The trainer: sentence-transformers' own, with loss-owned weights, exact resumption and no pickle."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformerTrainer
from torch import Tensor, nn
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import ExportableState

from sentemb._files import write_json
from sentemb.errors import InputError
from sentemb.training.checkpoints import checkpoint_name, remove_folder, rotate
from sentemb.training.owned import OwnedByLoss
from sentemb.training.random_state import random_state, set_random_state
from sentemb.training.state import load_state, save_state
from sentemb.training.views import fill_view_caches

logger = logging.getLogger(__name__)

HEAD_FILE = "loss_weights.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"


def random_file(rank: int) -> str:
    """Name of the file with the random generators of one process."""
    return f"random-{rank}.safetensors"


class SentembTrainer(SentenceTransformerTrainer):
    """A `SentenceTransformerTrainer` that treats the weights of a loss like the model's and resumes exactly.

    It takes the same arguments. What differs:

    * Weights that a loss owns (`sentemb.losses.OwnedWeights`, or the trainable parameters of any other loss)
      are in every checkpoint, come back on resumption and with `load_best_model_at_end`, are averaged over
      the ranks and count in `max_grad_norm`.
    * Views of a frozen encoder that a loss caches are computed before the first step, in the order of the
      data, so that they are the same after an interruption.
    * A checkpoint appears under its name only when it is complete. It holds safetensors and JSON, no pickle,
      so checkpoints of the stock trainer cannot be resumed from.
    * With `eval_on_start`, the score before the first step is the first candidate for the best checkpoint,
      which is kept as `checkpoint-0`.
    * A best checkpoint that cannot be loaded is an error, not a log line.

    One process or DDP; sharded training (FSDP, DeepSpeed) and pushing checkpoints to the hub are refused.

    Example:
        >>> trainer = SentembTrainer(model, arguments, train_dataset=sentences, loss=loss)  # doctest: +SKIP
        >>> trainer.train(resume_from_checkpoint=True)  # doctest: +SKIP
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # the upstream signature, unchanged
        super().__init__(*args, **kwargs)
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:
            raise InputError("SentembTrainer does not shard weights", "train with one process or DDP")
        # The filter replaces NaN by the average of earlier losses, so that no log ever shows it.
        self.args.logging_nan_inf_filter = False

    def init_hf_repo(self, token: str | None = None) -> None:
        """Refuse to push checkpoints: upstream adds a pickle to each.

        Args:
            token: Not used.

        Raises:
            InputError: Always; only `push_to_hub` asks for a repository.
        """
        raise InputError("push_to_hub writes pickles", "push the finished model with model.push_to_hub")

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Collect what the model card says; a card that fails never costs the training.

        Args:
            default_args_dict: Defaults of the training arguments.
        """
        try:
            super().add_model_card_callback(default_args_dict)
        except Exception as error:  # local data sets have broken it before
            logger.warning("the model card will lack the training details: %s", error)

    @property
    def owned(self) -> OwnedByLoss:
        """The weights that the loss owns."""
        return OwnedByLoss(self.loss, self.model)

    def _prepare_for_training(self, *args: Any, **kwargs: Any) -> Any:
        prepared = super()._prepare_for_training(*args, **kwargs)
        self.owned.broadcast()
        fill_view_caches(self._losses(), self.train_dataset, self._features_of)
        return prepared

    def _losses(self) -> list[nn.Module]:
        losses = self.loss.values() if isinstance(self.loss, dict) else [self.loss]
        return [module for loss in losses for module in loss.modules()]

    def _features_of(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        features: list[dict[str, Any]] = self.collect_features(self.data_collator(rows))[0]
        return features

    def autocast_smart_context_manager(self, cache_enabled: bool | None = True) -> Any:
        """Mixed precision for the whole loss: accelerate's own reaches no further than the model's forward.

        Args:
            cache_enabled: Handed through by the upstream trainer, not used.

        Returns:
            A context manager; it changes nothing without `bf16` or `fp16`.
        """
        return self.accelerator.autocast()

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> Tensor:
        """One forward and backward pass; the last of an accumulation ends with averaged gradients everywhere.

        Args:
            model: The model, wrapped for DDP where there are several ranks.
            inputs: The collated batch.
            num_items_in_batch: Handed through to the upstream trainer.

        Returns:
            The detached loss.
        """
        loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        # What a loss has counted is logged as its components are, but is no part of its value.
        if statistics := getattr(self.loss, "statistics", None):
            self.track_loss_components(statistics)
        # DDP averages what passes through its forward, which loss-owned weights do not.
        if self.accelerator.sync_gradients:
            self.owned.average_gradients()
        return loss

    def _clip_grad_norm(self, model: nn.Module) -> Tensor:
        parameters = [*model.parameters(), *self.owned.parameters()]
        norm: Tensor = self.accelerator.clip_grad_norm_(parameters, self.args.max_grad_norm)
        return norm

    def _evaluate(
        self, trial: Any, ignore_keys_for_eval: Any, skip_scheduler: bool = False
    ) -> dict[str, float]:
        metrics: dict[str, float] = super()._evaluate(trial, ignore_keys_for_eval, skip_scheduler)
        before_first_step = self.state.global_step == 0
        if before_first_step:
            # Upstream compares only later scores, so a run that never beats its base model would not notice.
            self._determine_best_metric(metrics, trial)
            if self.args.save_strategy != "no":
                self._save_checkpoint(self.model, trial)
        return metrics

    def restore(self, checkpoint: Path) -> None:
        """Load the weights of the model and of the loss from a checkpoint.

        Args:
            checkpoint: A folder `checkpoint-N` that this trainer wrote.

        Raises:
            InputError: It is no checkpoint, or one of another loss.
        """
        self._load_from_checkpoint(str(checkpoint))

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = Path(output_dir or self.args.output_dir)
        self.model.save_pretrained(str(folder))
        if self.processing_class is not None:
            self.processing_class.save_pretrained(folder)

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
        if not self.args.save_only_model:
            save_state(partial / random_file(self.args.process_index), random_state())
        if self.args.should_save:
            self._fill_checkpoint(partial, final)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            remove_folder(final)
            partial.rename(final)
            best = self.state.best_global_step
            protected = () if best is None else (best,)
            rotate(folder, keep=self.args.save_total_limit, protected=protected)
        self.accelerator.wait_for_everyone()

    def _fill_checkpoint(self, partial: Path, final: Path) -> None:
        """Write everything but the random generators, which every rank writes for itself."""
        self.model.save_pretrained(str(partial), create_model_card=False)
        if head := self.owned.state():
            save_file(head, partial / HEAD_FILE)
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

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        checkpoint = Path(resume_from_checkpoint)
        if not (checkpoint / TRAINER_STATE_NAME).is_file():
            raise InputError(f"{checkpoint} is no checkpoint", "name a folder checkpoint-N of a training run")
        super()._load_from_checkpoint(resume_from_checkpoint)
        head = checkpoint / HEAD_FILE
        self.owned.load(load_file(head) if head.exists() else {})

    def _load_best_model(self) -> None:
        best = str(self.state.best_model_checkpoint)
        self._load_from_checkpoint(best)
        self.model.model_card_data.set_best_model_step(self.state.best_global_step)

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
        if not file.exists():
            raise InputError(
                f"{checkpoint} has no random state for process {self.args.process_index}",
                "resume with as many processes as the run began with",
            )
        set_random_state(load_state(file))

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log, and stop a run whose loss is not finite.

        Args:
            logs: What to log.
            start_time: Start of the training, for the speed.

        Raises:
            InputError: The loss is NaN or infinite.
        """
        super().log(logs, start_time)
        loss = logs.get("loss")
        if loss is not None and not torch.isfinite(torch.tensor(loss)):
            raise InputError(
                f"the loss is not finite at step {self.state.global_step}",
                "lower the learning rate or raise the temperature",
            )
