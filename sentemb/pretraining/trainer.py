"""The Trainer of masked pre-training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import Dataset
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

from sentemb.pretraining.model import masked_loss
from sentemb.pretraining.rows import Row
from sentemb.pretraining.schedule import Budget, learning_rate_factor

# More steps than any run takes, where the clock alone ends it.
ENDLESS = 10**8
_BETAS = (0.9, 0.98)  # RoBERTa, table 9
_EPSILON = 1e-6
_WEIGHT_DECAY = 0.01


class MaskedTrainer(Trainer):
    """transformers' Trainer with a schedule that follows a budget and a decoder at hidden positions only.

    Args:
        model: A masked language model.
        arguments: Of the Trainer; `training_arguments` makes them.
        train_dataset: Visits in order; `Visits` shuffles, not the Trainer.
        eval_dataset: Visits of held-out rows.
        collator: `WholeWordMasking`.
        tokenizer: Saved with every checkpoint, so that each loads as a model.
        budget: Where the run ends.
        warmup: Share of the run in which the learning rate rises.
        embedding_rate: Factor of the learning rate of the token embeddings. Below 1 it protects vectors that
            were learned before: Adam moves the rows of rare tokens as fast as all others.
        dtype: To multiply in; weights stay float32.
    """

    optimizer: torch.optim.Optimizer | None
    lr_scheduler: torch.optim.lr_scheduler.LRScheduler | None

    def __init__(
        self,
        model: PreTrainedModel,
        arguments: TrainingArguments,
        *,
        train_dataset: Dataset[Row],
        eval_dataset: Dataset[Row],
        collator: Callable[..., dict[str, torch.Tensor]],
        tokenizer: PreTrainedTokenizerFast,
        budget: Budget,
        warmup: float = 0.06,
        embedding_rate: float = 1.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self._budget = budget
        self._warmup = warmup
        self._embedding_rate = embedding_rate
        self.dtype = dtype
        super().__init__(
            model,
            arguments,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            data_collator=collator,
            processing_class=tokenizer,
        )
        # masked_loss is a mean already; the Trainer would else take it for a sum.
        self.model_accepts_loss_kwargs = False

    def compute_loss(
        self,
        model: PreTrainedModel,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """The masked loss under autocast; see `transformers.Trainer.compute_loss`."""
        mixed = self.dtype is torch.bfloat16
        with torch.autocast(self.args.device.type, dtype=torch.bfloat16, enabled=mixed):
            loss = masked_loss(model, inputs)
        return (loss, {"loss": loss}) if return_outputs else loss

    def evaluate(
        self,
        eval_dataset: Dataset[Row] | dict[str, Dataset[Row]] | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> dict[str, float]:
        """Validate without touching the random state that dropout draws from.

        A loader draws a number when it starts. Validation comes by the clock, so runs would differ by it.
        """
        with torch.random.fork_rng():
            metrics: dict[str, float] = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        return metrics

    def create_optimizer(self, model: PreTrainedModel | None = None) -> torch.optim.Optimizer:
        """Fused AdamW: no decay on biases and norms, a learning rate of its own for the token embeddings."""
        if self.optimizer is None:
            trained = self.model if model is None else model
            decayed = set(self.get_decay_parameter_names(trained))
            embeddings = trained.get_input_embeddings().weight
            groups: dict[str, list[torch.nn.Parameter]] = {"embeddings": [], "decayed": [], "plain": []}
            for name, parameter in trained.named_parameters():
                kind = "decayed" if name in decayed else "plain"
                groups["embeddings" if parameter is embeddings else kind].append(parameter)
            rate = self.args.learning_rate
            self.optimizer = torch.optim.AdamW(
                [
                    # The Trainer logs the rate of the first group.
                    {"params": groups["decayed"], "lr": rate, "weight_decay": _WEIGHT_DECAY},
                    {"params": groups["plain"], "lr": rate, "weight_decay": 0.0},
                    {"params": groups["embeddings"], "lr": rate * self._embedding_rate, "weight_decay": 0.0},
                ],
                betas=_BETAS,
                eps=_EPSILON,
                fused=True,
            )
        return self.optimizer

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> torch.optim.lr_scheduler.LRScheduler:
        """Warm-up and linear decay over the budget, which knows the end better than the steps do."""
        if self.lr_scheduler is None:

            def factor(step: int) -> float:
                return learning_rate_factor(self._budget.progress(step), self._warmup)

            self.lr_scheduler = LambdaLR(optimizer or self.create_optimizer(), factor)
        return self.lr_scheduler


def training_arguments(
    folder: Path, *, batch_size: int, learning_rate: float, max_steps: int | None, log_steps: int, seed: int
) -> TrainingArguments:
    """The Trainer's settings that do not change between runs, and the few that do."""
    return TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=batch_size,
        per_device_eval_batch_size=batch_size,
        learning_rate=learning_rate,
        max_steps=max_steps or ENDLESS,
        max_grad_norm=1.0,
        train_sampling_strategy="sequential",
        logging_steps=log_steps,
        logging_nan_inf_filter=False,
        save_strategy="no",
        eval_strategy="no",
        save_total_limit=2,
        prediction_loss_only=True,
        label_names=["masked_labels"],
        remove_unused_columns=False,
        dataloader_pin_memory=torch.cuda.is_available(),
        disable_tqdm=True,
        report_to=[],
        seed=seed,
    )
