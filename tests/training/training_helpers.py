"""Texts that the tiny BERT knows, a loss with weights of its own, and a trainer around both."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from torch import Tensor, nn
from transformers import TrainerCallback, set_seed

from sentemb.losses import LossParameters
from sentemb.modules import load
from sentemb.training import SentembTrainer
from sentemb.training.session import Session
from tests.signals import deliver

WORDS = "a the cat dog sat ran on mat in park man woman plays guitar is not children eat red apple".split()


def make_sentences(count: int, *, seed: int = 0) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(2, 9))) for _ in range(count)]


class HeadLoss(LossParameters):
    """In-batch contrast behind a linear head, with random numbers of every generator in it."""

    owned_modules: ClassVar[tuple[str, ...]] = ("head",)

    def __init__(self, model: nn.Module, *, noise: bool = True) -> None:
        super().__init__()
        self.model = model
        self.head = nn.Linear(16, 16)
        self.noise = noise

    def forward(self, features: Iterable[dict[str, Any]], labels: Tensor | None = None) -> dict[str, Tensor]:
        (column,) = features
        first = self.head(self.model(dict(column))["sentence_embedding"])  # (b, 16)
        second = self.head(self.model(dict(column))["sentence_embedding"])  # (b, 16)
        if self.noise:
            second = second * (1 + 0.1 * random.random()) + 0.1 * torch.randn(16)
        logits = nn.functional.normalize(first) @ nn.functional.normalize(second).T / 0.05  # (b, b)
        contrast = nn.functional.cross_entropy(logits, torch.arange(len(logits)))
        return {"contrast": contrast, "size": 0.01 * first.pow(2).mean()}


def make_trainer(
    base: Path,
    output: Path,
    *,
    loss: type[nn.Module] = HeadLoss,
    rows: int = 45,
    evaluator: Any = None,
    **arguments: Any,
) -> SentembTrainer:
    """A trainer that writes a checkpoint every 5 of 36 steps, built from its seed alone."""
    set_seed(arguments.get("seed", 3))
    model = load(base, pooling="cls", device="cpu")
    settings: dict[str, Any] = {
        "per_device_train_batch_size": 4,
        "num_train_epochs": 3,
        "learning_rate": 1e-3,
        "save_strategy": "steps",
        "save_steps": 5,
        "logging_steps": 5,
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        "use_cpu": True,
        "seed": 3,
    }
    return SentembTrainer(
        model,
        SentenceTransformerTrainingArguments(output_dir=str(output), **(settings | arguments)),
        train_dataset=Dataset.from_dict({"text": make_sentences(rows)}),
        loss=loss(model),
        evaluator=evaluator,
    )


def weights_of(trainer: SentembTrainer) -> dict[str, Tensor]:
    """Weights of the model and of the loss."""
    model = {f"model.{name}": tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    return model | {f"loss.{name}": tensor for name, tensor in trainer.owned.state().items()}


def model_weights(folder: Path) -> dict[str, Tensor]:
    return dict(SentenceTransformer(str(folder), device="cpu").state_dict())


def assert_equal(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    """Equal to the last bit."""
    assert first.keys() == second.keys()
    differing = [name for name in first if not torch.equal(first[name], second[name])]
    assert not differing


def stop_at(
    monkeypatch: pytest.MonkeyPatch, step: int, number: signal.Signals | None = signal.SIGINT
) -> None:
    """Send this process a signal in the middle of a step, as a terminal would; None kills the run."""

    class Stop(TrainerCallback):
        def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == step - 1:
                if number is None:
                    raise KeyboardInterrupt
                deliver(number)

    train = Session._train

    def with_stop(self: Session, trainer: Any, checkpoint: Path | None) -> None:
        trainer.add_callback(Stop())
        train(self, trainer, checkpoint)

    monkeypatch.setattr(Session, "_train", with_stop)
