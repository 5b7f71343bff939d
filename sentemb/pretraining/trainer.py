"""The trainer of masked language models."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedModel, Trainer, TrainingArguments

from sentemb._files import write_json
from sentemb.errors import InputError
from sentemb.pretraining.budget import Budget, learning_rate_factor
from sentemb.pretraining.model import masked_loss
from sentemb.training.checkpoints import check_checkpoint, save_checkpoint
from sentemb.training.config import PretrainConfig
from sentemb.training.progress import ENDLESS
from sentemb.training.trainer import check_finite

CLOCK_FILE = "clock.json"


class MaskedTrainer(Trainer):
    """Follows a budget, and decodes at hidden positions only; multiplies in `dtype`, weights stay float32."""

    optimizer: torch.optim.Optimizer
    lr_scheduler: torch.optim.lr_scheduler.LRScheduler

    def __init__(
        self,
        model: PreTrainedModel,
        config: PretrainConfig,
        arguments: TrainingArguments,
        *,
        budget: Budget,
        tokens_per_step: float,
        dtype: torch.dtype,
        **kwargs: Any,
    ) -> None:
        self.config, self.budget, self.tokens_per_step, self.dtype = config, budget, tokens_per_step, dtype
        super().__init__(model, arguments, **kwargs)
        # masked_loss is a mean already; upstream would take it for a sum.
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

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Validate without touching the random state that dropout draws from.

        A loader draws a number when it starts. Validation comes by wall time, so runs would differ by it.
        """
        with torch.random.fork_rng():
            metrics: dict[str, float] = super().evaluate(*args, **kwargs)
        return metrics

    def create_optimizer(self, model: PreTrainedModel | None = None) -> torch.optim.Optimizer:
        """Fused AdamW: no decay of biases and norms, a learning rate of its own for the token embeddings.

        Below the others' it protects vectors that were learned before: Adam moves the rows of rare tokens as
        fast as all others.
        """
        trained = self.model if model is None else model
        decayed = set(self.get_decay_parameter_names(trained))
        embeddings = trained.get_input_embeddings().weight
        groups: dict[str, list[torch.nn.Parameter]] = {"embeddings": [], "decayed": [], "plain": []}
        for name, parameter in trained.named_parameters():
            kind = "decayed" if name in decayed else "plain"
            groups["embeddings" if parameter is embeddings else kind].append(parameter)
        rate, decay = self.config.learning_rate, self.config.weight_decay
        self.optimizer = torch.optim.AdamW(
            [
                # Upstream logs the rate of the first group.
                {"params": groups["decayed"], "lr": rate, "weight_decay": decay},
                {"params": groups["plain"], "lr": rate, "weight_decay": 0.0},
                {
                    "params": groups["embeddings"],
                    "lr": rate * self.config.embedding_rate,
                    "weight_decay": 0.0,
                },
            ],
            betas=self.config.betas,
            eps=self.config.epsilon,
            fused=True,
        )
        return self.optimizer

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> torch.optim.lr_scheduler.LRScheduler:
        """Warm-up and linear decay over the budget, which knows the end better than the steps do."""

        def factor(step: int) -> float:
            return learning_rate_factor(self.budget.progress(step), self.config.warmup)

        self.lr_scheduler = LambdaLR(optimizer or self.optimizer, factor)
        return self.lr_scheduler

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log losses with the seconds and tokens so far; one that is not finite ends the run."""
        if not math.isfinite(logs.get("eval_loss", 0.0)):
            raise InputError(
                f"the validation loss is not finite at step {self.state.global_step}",
                "lower the learning rate",
            )
        if "loss" in logs or "eval_loss" in logs:
            tokens = round(self.state.global_step * self.tokens_per_step)
            logs = logs | {"seconds": round(self.budget.seconds(), 1), "tokens": tokens}
        super().log(logs, start_time)
        check_finite(logs, step=self.state.global_step)

    def restore(self, checkpoint: Path) -> None:
        """Load the weights of a checkpoint."""
        check_checkpoint(checkpoint)
        self._load_from_checkpoint(str(checkpoint))

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        save_checkpoint(self, self.save_weights)

    def save_weights(self, folder: Path) -> None:
        """Write the model, its tokenizer and the time used."""
        self.model.save_pretrained(str(folder))
        self.processing_class.save_pretrained(str(folder))
        write_json(folder / CLOCK_FILE, {"seconds": self.budget.seconds()})


def training_arguments(config: PretrainConfig, folder: Path) -> TrainingArguments:
    """A configuration in upstream's words."""
    return TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=config.batch_size,
        per_device_eval_batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        max_steps=config.max_steps or ENDLESS,
        max_grad_norm=config.clip,
        train_sampling_strategy="sequential",
        logging_steps=config.log_steps,
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
        seed=config.seeds[0],
    )
