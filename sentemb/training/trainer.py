"""The trainer: sentence-transformers' own, with loss-owned weights, exact resumption and no pickle."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from datasets import Dataset, DatasetDict
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformerTrainer
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers.trainer import TRAINER_STATE_NAME

from sentemb.errors import InputError
from sentemb.training.owned import OwnedByLoss
from sentemb.training.resumable import ResumableTrainer
from sentemb.training.shared_batches import shared_loader
from sentemb.training.views import fill_view_caches

logger = logging.getLogger(__name__)

HEAD_FILE = "loss_weights.safetensors"


class SentembTrainer(ResumableTrainer, SentenceTransformerTrainer):
    """A `SentenceTransformerTrainer` that treats the weights of a loss like the model's and resumes exactly.

    It takes the same arguments. What differs:

    * Weights that a loss owns (`sentemb.losses.LossParameters`, or the trainable ones of any other loss)
      are in every checkpoint, come back on resumption and with `load_best_model_at_end`, are averaged over
      the ranks and count in `max_grad_norm`.
    * Views of a frozen encoder that a loss caches are computed before the first step, in the order of the
      data, so that they are the same after an interruption.
    * A checkpoint appears under its name only when it is complete. It holds safetensors and JSON, no pickle,
      so checkpoints of the stock trainer cannot be resumed from.
    * With `eval_on_start`, the score before the first step is the first candidate for the best checkpoint,
      which is kept as `checkpoint-0`.
    * Several ranks share every batch, so that they take the steps of one process with the whole batch, whose
      size is `per_device_train_batch_size` times the ranks. A run can be resumed on any number of them, as
      long as the whole batch is the same.
    * A best checkpoint that cannot be loaded is an error, not a log line.

    One process or DDP; sharded training (FSDP, DeepSpeed) and pushing checkpoints to the hub are refused.

    Example:
        >>> trainer = SentembTrainer(model, arguments, train_dataset=sentences, loss=loss)  # doctest: +SKIP
        >>> trainer.train(resume_from_checkpoint=True)  # doctest: +SKIP
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # the upstream signature, unchanged
        super().__init__(*args, **kwargs)
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:
            raise InputError(
                "SentembTrainer does not support sharded weights", "train with a single process or with DDP"
            )
        # The filter replaces NaN by the average of earlier losses, so that no log ever shows it.
        self.args.logging_nan_inf_filter = False

    @property
    def rows_of_step(self) -> int:
        """Rows of a batch of all ranks together."""
        return int(self.args.train_batch_size * self.args.world_size)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """This rank's part of the batches of one process."""
        rows = self.train_dataset
        if self.args.world_size == 1 or not isinstance(rows, (Dataset, DatasetDict)):
            alone: DataLoader[Any] = super().get_train_dataloader()
            return alone
        if self.rows_of_step < self.args.world_size:
            raise InputError(
                f"a batch of {self.rows_of_step} rows cannot be divided among {self.args.world_size} "
                "processes",
                "raise the batch size or start fewer processes",
            )
        self._train_dataloader = shared_loader(
            self._build_dataloader(rows, self.rows_of_step, dataset_kind="train"),
            rank=self.args.process_index,
            world_size=self.args.world_size,
            device=self.accelerator.device,
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
            super().add_model_card_callback(default_args_dict)
        except Exception as error:  # local data sets have broken it before
            logger.warning("the model card is written without the training details: %s", error)

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
        """Mixed precision for the whole loss: accelerate's own ends with the model's forward."""
        return self.accelerator.autocast()

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> Tensor:
        """A forward and backward pass; after the last of an accumulation ranks have averaged gradients."""
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

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = Path(output_dir or self.args.output_dir)
        self.model.save_pretrained(str(folder))
        if self.processing_class is not None:
            self.processing_class.save_pretrained(folder)

    def save_weights(self, folder: Path) -> None:
        """Write the weights of the model and of the loss."""
        self.model.save_pretrained(str(folder), create_model_card=False)
        if head := self.owned.state():
            save_file(head, folder / HEAD_FILE)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        checkpoint = Path(resume_from_checkpoint)
        if not (checkpoint / TRAINER_STATE_NAME).is_file():
            raise InputError(
                f"{checkpoint} is not a checkpoint", "specify a checkpoint-N folder of a training run"
            )
        super()._load_from_checkpoint(resume_from_checkpoint)
        head = checkpoint / HEAD_FILE
        self.owned.load(load_file(head) if head.exists() else {})

    def _load_best_model(self) -> None:
        best = str(self.state.best_model_checkpoint)
        self._load_from_checkpoint(best)
        self.model.model_card_data.set_best_model_step(self.state.best_global_step)
