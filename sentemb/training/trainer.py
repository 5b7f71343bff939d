"""The trainer: sentence-transformers' own, with loss-owned weights and exact resumption."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from datasets import Dataset, DatasetDict
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformerTrainer
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers.trainer import TRAINER_STATE_NAME

from sentemb.errors import InputError
from sentemb.training.checkpoints import check_checkpoint, load_random_state, save_checkpoint
from sentemb.training.length_bucketing import LengthBucketedEncoder
from sentemb.training.owned import LossWeights, fill_view_caches
from sentemb.training.ranks import shared_loader

logger = logging.getLogger(__name__)

HEAD_FILE = "loss_weights.safetensors"


class SentembTrainer(SentenceTransformerTrainer):
    """A `SentenceTransformerTrainer` that treats the weights of a loss like the model's and resumes exactly.

    It takes the same arguments, and a few by name. What differs:

    * Weights that a loss owns (`sentemb.losses.LossParameters`, or the trainable ones of any other loss)
      are in every checkpoint, come back on resumption and with `load_best_model_at_end`, are averaged over
      the ranks and count in `max_grad_norm`.
    * Views of a frozen encoder that a loss caches are computed before the first step, in the order of the
      data, so that they are the same after an interruption.
    * A checkpoint appears under its name only when it is complete.
    * With `eval_on_start`, the score before the first step is the first candidate for the best checkpoint,
      which is kept as `checkpoint-0`.
    * Several ranks share every batch, so that they take the steps of one process with the whole batch. A run
      can be resumed on any number of them, as long as the whole batch is the same.
    * A loss that is not finite, or a best checkpoint that cannot be loaded, is an error, not a log line.

    One process or DDP; sharded training (FSDP, DeepSpeed) and pushing checkpoints to the hub are refused.

    Args:
        *args: Arguments of `SentenceTransformerTrainer`.
        rows_of_step: Rows of a batch of all ranks together. By default `per_device_train_batch_size` times
            the ranks.
        card: Collect what upstream's model card says about the training.
        **kwargs: Arguments of `SentenceTransformerTrainer`.

    Example:
        >>> trainer = SentembTrainer(model, arguments, train_dataset=sentences, loss=loss)  # doctest: +SKIP
        >>> trainer.train(resume_from_checkpoint=True)  # doctest: +SKIP
    """

    def __init__(self, *args: Any, rows_of_step: int | None = None, card: bool = True, **kwargs: Any) -> None:
        self._card = card
        super().__init__(*args, **kwargs)
        self.rows_of_step = rows_of_step or int(self.args.train_batch_size * self.args.world_size)
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:
            raise InputError(
                "SentembTrainer does not support sharded weights", "train with a single process or with DDP"
            )
        # The filter replaces NaN by the average of earlier losses, so that no log ever shows it.
        self.args.logging_nan_inf_filter = False

    @property
    def owned(self) -> LossWeights:
        """The weights that the loss owns."""
        return LossWeights(self.loss, self.model)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return this rank's part of the batches of one process."""
        rows, ranks = self.train_dataset, self.args.world_size
        if ranks == 1 or not isinstance(rows, (Dataset, DatasetDict)):
            alone: DataLoader[Any] = super().get_train_dataloader()
            return alone
        if self.rows_of_step < ranks:
            raise InputError(
                f"a batch of {self.rows_of_step} rows cannot be divided among {ranks} processes",
                "raise the batch size or start fewer processes",
            )
        whole = self._build_dataloader(rows, self.rows_of_step, dataset_kind="train")
        self._train_dataloader = shared_loader(
            whole, rank=self.args.process_index, world_size=ranks, device=self.accelerator.device
        )
        return self._train_dataloader

    def init_hf_repo(self, token: str | None = None) -> None:
        """Refuse to push checkpoints: upstream adds a pickle to each."""
        raise InputError(
            "push_to_hub is not supported during training because it uploads pickle files",
            "push the finished model with model.push_to_hub",
        )

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Collect what the model card says; a card that fails never costs the training."""
        try:
            if self._card:
                super().add_model_card_callback(default_args_dict)
        except Exception as error:  # local data sets have broken it before
            logger.warning("the model card is written without the training details: %s", error)

    def override_model_in_loss(self, loss: nn.Module, model: nn.Module) -> nn.Module:
        """Put upstream's wrapper of the model into the loss, unless the loss runs the model in parts."""
        if isinstance(getattr(loss, "model", None), LengthBucketedEncoder):
            return loss
        changed: nn.Module = super().override_model_in_loss(loss, model)
        return changed

    def _prepare_for_training(self, *args: Any, **kwargs: Any) -> Any:
        prepared = super()._prepare_for_training(*args, **kwargs)
        self.owned.broadcast()
        losses = self.loss.values() if isinstance(self.loss, dict) else [self.loss]
        modules = [module for loss in losses for module in loss.modules()]
        fill_view_caches(
            modules, self.train_dataset, lambda rows: self.collect_features(self.data_collator(rows))[0]
        )
        return prepared

    def autocast_smart_context_manager(self, cache_enabled: bool | None = True) -> Any:
        """Mixed precision for the whole loss: accelerate's own ends with the model's forward."""
        return self.accelerator.autocast()

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> Tensor:
        """Take a forward and backward pass; after the last of an accumulation, average gradients."""
        loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        # Statistics of a loss are logged like its components, but do not contribute to its value.
        if statistics := getattr(self.loss, "statistics", None):
            self.track_loss_components(statistics)
        # DDP averages what passes through its forward, which loss-owned weights do not.
        if self.accelerator.sync_gradients and self.args.world_size > 1:
            self.owned.average_gradients()
        return loss

    def _clip_grad_norm(self, model: nn.Module) -> Tensor:
        parameters = [*model.parameters(), *self.owned.parameters()]
        norm: Tensor = self.accelerator.clip_grad_norm_(parameters, self.args.max_grad_norm)
        return norm

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log, and stop a run whose loss, or a part of it, is not finite."""
        super().log(logs, start_time)
        check_finite(logs, step=self.state.global_step)

    def _evaluate(
        self, trial: Any, ignore_keys_for_eval: Any, skip_scheduler: bool = False
    ) -> dict[str, float]:
        metrics: dict[str, float] = super()._evaluate(trial, ignore_keys_for_eval, skip_scheduler)
        if self.state.global_step == 0:
            # Upstream compares only later scores, so a run that never beats its base model would not notice.
            self._determine_best_metric(metrics, trial)
            if self.args.save_strategy != "no":
                self._save_checkpoint(self.model, trial)
        return metrics

    def save_weights(self, folder: Path) -> None:
        """Write the weights of the model and of the loss, and what the evaluator keeps of its calls."""
        self.model.save_pretrained(str(folder), create_model_card=False)
        if head := self.owned.state():
            save_file(head, folder / HEAD_FILE)
        if hasattr(self.evaluator, "save_state"):
            self.evaluator.save_state(folder, best=self.state.best_global_step, last=self.state.global_step)

    def restore(self, checkpoint: Path) -> None:
        """Load the weights of a checkpoint."""
        check_checkpoint(checkpoint)
        self._load_from_checkpoint(str(checkpoint))

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        save_checkpoint(self, self.save_weights)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = Path(output_dir or self.args.output_dir)
        self.model.save_pretrained(str(folder))
        if self.processing_class is not None:
            self.processing_class.save_pretrained(folder)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        checkpoint = Path(resume_from_checkpoint)
        if not (checkpoint / TRAINER_STATE_NAME).is_file():
            raise InputError(
                f"{checkpoint} is not a checkpoint", "specify a checkpoint-N folder of a training run"
            )
        super()._load_from_checkpoint(resume_from_checkpoint)
        head = checkpoint / HEAD_FILE
        self.owned.load(load_file(head) if head.exists() else {})
        if hasattr(self.evaluator, "load_state"):
            self.evaluator.load_state(checkpoint)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            load = super()._load_rng_state
            load_random_state(
                load, Path(checkpoint), rank=self.args.process_index, ranks=self.args.world_size
            )

    def _load_best_model(self) -> None:
        self._load_from_checkpoint(str(self.state.best_model_checkpoint))
        self.model.model_card_data.set_best_model_step(self.state.best_global_step)


def decay_groups(parameters: Iterable[nn.Parameter], decay: float) -> list[dict[str, Any]]:
    """Return groups of an optimizer in which matrices decay and vectors do not."""
    weights = list(parameters)
    return [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": decay},
        {"params": [weight for weight in weights if weight.ndim <= 1], "weight_decay": 0.0},
    ]


def check_finite(logs: dict[str, float], *, step: int) -> None:
    """Raise InputError if a loss, or a part of it, is not finite."""
    losses = {name: value for name, value in logs.items() if name.startswith("loss")}
    # The parts come after the whole, and say more.
    for name in reversed(losses):
        if not math.isfinite(losses[name]):
            raise InputError(
                f"the {name.replace('_', ' of ', 1)} is not finite at step {step}", "lower the learning rate"
            )
