"""Our losses in the trainers of sentence-transformers itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from datasets import Dataset
from sentence_transformers import (
    InputExample,
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from torch import nn
from torch.utils.data import DataLoader

from sentemb.losses import SelfGuidedLoss, SimCSELoss
from tests.training.training_helpers import make_sentences


def make_loss(name: str, model: SentenceTransformer) -> nn.Module:
    if name == "simcse":
        return SimCSELoss(model)
    return SelfGuidedLoss(model, projection_width=8)


@pytest.mark.parametrize("name", ["simcse", "self-guided"])
def test_the_stock_trainer_trains_model_and_head(
    name: str, tiny_encoder: SentenceTransformer, tmp_path: Path
) -> None:
    loss = make_loss(name, tiny_encoder)
    model_before = tiny_encoder[0].model.encoder.layer[0].output.dense.weight.clone()
    head_before = loss.head_state()["head.0.weight"]
    SentenceTransformerTrainer(
        tiny_encoder,
        SentenceTransformerTrainingArguments(
            str(tmp_path), max_steps=3, learning_rate=1e-2, report_to="none", save_strategy="no", use_cpu=True
        ),
        train_dataset=Dataset.from_dict({"text": make_sentences(24)}),
        loss=loss,
    ).train()
    assert not torch.equal(model_before, tiny_encoder[0].model.encoder.layer[0].output.dense.weight)
    assert not torch.equal(head_before, loss.head_state()["head.0.weight"])


@pytest.mark.parametrize("name", ["simcse", "self-guided"])
def test_model_fit_trains(
    name: str, tiny_encoder: SentenceTransformer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    loss = make_loss(name, tiny_encoder)
    before = tiny_encoder[0].model.encoder.layer[0].output.dense.weight.clone()
    batches: DataLoader[InputExample] = DataLoader(
        [InputExample(texts=[text]) for text in make_sentences(16)], batch_size=8
    )
    tiny_encoder.fit(
        train_objectives=[(batches, loss)],
        epochs=1,
        warmup_steps=0,
        optimizer_params={"lr": 1e-2},
        show_progress_bar=False,
    )
    assert not torch.equal(before, tiny_encoder[0].model.encoder.layer[0].output.dense.weight)
