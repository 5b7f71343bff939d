"""A few training steps of a loss in each supported trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import (
    InputExample,
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from torch import nn

from sentemb.training import SentembTrainer

TRAINERS = ("upstream", "sentemb", "fit")


def train_steps(
    trainer: str,
    model: SentenceTransformer,
    loss: nn.Module,
    columns: dict[str, list],
    folder: Path,
    *,
    steps: int = 3,
    **arguments: Any,
) -> list[dict[str, float]]:
    """Train in batches of 4, check that the encoder moved to finite weights, and return what was logged."""
    layer = model[0].model.encoder.layer[0].output.dense
    before, logged = layer.weight.clone(), []
    if trainer == "fit":
        *texts, labels = columns.values()
        rows = [
            InputExample(texts=list(row), label=label) for *row, label in zip(*texts, labels, strict=True)
        ]
        loader = torch.utils.data.DataLoader(rows, batch_size=4)
        model.fit(
            [(loader, loss)],
            epochs=1,
            steps_per_epoch=steps,
            warmup_steps=0,
            show_progress_bar=False,
            checkpoint_path=str(folder),  # by default it makes a folder where the tests run
        )
    else:
        settings = SentenceTransformerTrainingArguments(
            str(folder),
            max_steps=steps,
            per_device_train_batch_size=4,
            report_to="none",
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
            learning_rate=1e-3,
            **arguments,
        )
        kind = {"upstream": SentenceTransformerTrainer, "sentemb": SentembTrainer}[trainer]
        made = kind(model, settings, train_dataset=Dataset.from_dict(columns), loss=loss)
        made.train()
        logged = made.state.log_history
    assert not torch.equal(layer.weight, before)
    assert layer.weight.isfinite().all()
    return logged
