"""A configuration in upstream's words."""

from __future__ import annotations

from pathlib import Path

import torch
from sentence_transformers import SentenceTransformerTrainingArguments

from sentemb.training.config import EncoderConfig

_LOGS_PER_EVALUATION = 5
_KEPT_CHECKPOINTS = 2


def training_arguments(
    config: EncoderConfig, checkpoints: Path, *, eval_steps: int, metric: str | None, eval_on_start: bool
) -> SentenceTransformerTrainingArguments:
    """Translate a configuration for the trainer."""
    warm = "constant_with_warmup" if config.warmup else "constant"
    return SentenceTransformerTrainingArguments(
        output_dir=str(checkpoints),
        per_device_train_batch_size=config.batch_size,
        num_train_epochs=config.epochs,
        max_steps=config.max_steps or -1,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        adam_beta1=config.betas[0],
        adam_beta2=config.betas[1],
        adam_epsilon=config.epsilon,
        # One kernel for all weights: on a small encoder the projection head is most of a step.
        optim="adamw_torch_fused",
        lr_scheduler_type="linear" if config.schedule == "linear" else warm,
        warmup_steps=config.warmup,
        max_grad_norm=config.clip,
        bf16=config.precision == "bfloat16",
        use_cpu=not torch.accelerator.is_available(),
        eval_strategy="no" if metric is None else "steps",
        eval_steps=eval_steps,
        eval_on_start=metric is not None and eval_on_start,
        metric_for_best_model=metric,
        greater_is_better=True,
        save_strategy="steps",
        save_steps=eval_steps,
        # With a limit of 1 upstream removes the newest checkpoint when an interrupted run ends.
        save_total_limit=_KEPT_CHECKPOINTS,
        logging_steps=max(1, eval_steps // _LOGS_PER_EVALUATION),
        seed=config.seeds[0],
        dataloader_pin_memory=torch.cuda.is_available(),
        report_to="none",
        disable_tqdm=True,
    )
