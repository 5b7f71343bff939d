"""The trainer of masked language models, whose run ends by steps or by wall time."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR
from transformers import (
    PreTrainedModel,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from sentemb._files import write_json
from sentemb.errors import InputError
from sentemb.pretraining.model import masked_loss
from sentemb.training.checkpoints import check_checkpoint, save_checkpoint
from sentemb.training.config import PretrainConfig
from sentemb.training.progress import ENDLESS
from sentemb.training.trainer import check_finite

CLOCK_FILE = "clock.json"


class Budget(TrainerCallback):
    """Ends a run by steps, by wall time, or by whichever comes first, and saves and validates by wall time.

    Earlier parts of a resumed run count.
    """

    def __init__(
        self, max_steps: int | None = None, max_minutes: float | None = None, *, save_minutes: float = 5.0
    ) -> None:
        if max_steps is None and max_minutes is None:
            raise InputError("the length of the run is not limited", "set max_steps, max_minutes or both")
        self.max_steps, self.max_minutes, self.save_minutes = max_steps, max_minutes, save_minutes
        self.elapsed = 0.0  # seconds that earlier parts of the run took
        self._started: float | None = None
        self._saved = 0.0

    def seconds(self) -> float:
        """Return the seconds of training so far, over all parts of the run."""
        return self.elapsed + (0.0 if self._started is None else time.monotonic() - self._started)

    def progress(self, step: int) -> float:
        """Return the share of the run that is over."""
        by_step = step / self.max_steps if self.max_steps else 0.0
        by_clock = self.seconds() / (60 * self.max_minutes) if self.max_minutes else 0.0
        return min(1.0, max(by_step, by_clock))

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        """Start to count the time."""
        self._started = time.monotonic()
        self._saved = self.seconds()

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Request a checkpoint when one is due, and the end when the budget is spent."""
        over = self.progress(state.global_step) >= 1.0
        if over or self.seconds() - self._saved >= 60 * self.save_minutes:
            self._saved = self.seconds()
            control.should_evaluate = control.should_save = True
        control.should_training_stop = control.should_training_stop or over


def learning_rate_factor(progress: float, warmup: float) -> float:
    """Return a linear warm-up from zero, then a linear decay to zero at the end of the run."""
    return progress / warmup if progress < warmup else (1.0 - progress) / (1.0 - warmup)


class MaskedTrainer(Trainer):
    """Follows a budget, and decodes at hidden positions only; multiplies in `dtype`, weights stay float32."""

    optimizer: torch.optim.Optimizer
    lr_scheduler: torch.optim.lr_scheduler.LRScheduler

    def __init__(
        self,
        model: PreTrainedModel,
        config: PretrainConfig,
        folder: Path,
        *,
        budget: Budget,
        dtype: torch.dtype,
        **kwargs: Any,
    ) -> None:
        self.config, self.budget, self.dtype = config, budget, dtype
        self.tokens_per_step = config.length * config.batch_size
        arguments = TrainingArguments(
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
        """Compute the masked loss under autocast; see `transformers.Trainer.compute_loss`."""
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
        """Create fused AdamW without decay of biases and norms, and with a rate for the token embeddings.

        Below the others' it protects vectors that were learned before: Adam moves the rows of rare tokens as
        fast as all others.
        """
        trained, config = self.model if model is None else model, self.config
        decayed = set(self.get_decay_parameter_names(trained))
        embeddings = trained.get_input_embeddings().weight
        groups: dict[str, list[torch.nn.Parameter]] = {"decayed": [], "plain": [], "embeddings": []}
        for name, parameter in trained.named_parameters():
            kind = "decayed" if name in decayed else "plain"
            groups["embeddings" if parameter is embeddings else kind].append(parameter)
        rates = {"embeddings": config.learning_rate * config.embedding_rate}
        self.optimizer = torch.optim.AdamW(
            [
                # Upstream logs the rate of the first group.
                {
                    "params": parameters,
                    "lr": rates.get(kind, config.learning_rate),
                    "weight_decay": config.weight_decay if kind == "decayed" else 0.0,
                }
                for kind, parameters in groups.items()
            ],
            betas=config.betas,
            eps=config.epsilon,
            fused=True,
        )
        return self.optimizer

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> torch.optim.lr_scheduler.LRScheduler:
        """Create warm-up and linear decay over the budget, which knows the end better than the steps do."""

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
            tokens = self.state.global_step * self.tokens_per_step
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
