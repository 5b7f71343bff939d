"""Every loss with its defaults on common encoders: CLS, mean and max, with and without Normalize."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import nn

from sentemb._compat import Dense, Normalize
from sentemb.errors import InputError
from sentemb.losses import (
    BackTranslationLoss,
    CrossEntropyContrastLoss,
    CrossEntropyLoss,
    CrossEntropySupConLoss,
    EncoderLoss,
    InBatchDistillationLoss,
    LaConLoss,
    LeamLoss,
    ParaphraseContrastLoss,
    SelfGuidedLoss,
    SimCSELoss,
    SupCLSeqLoss,
    SupConLoss,
)
from sentemb.modules import LabelHead, LeamHead, LinearHead, load

CLASSES = torch.tensor([0, 1, 0, 1])
LOSSES: dict[str, tuple[Callable[[nn.Module], EncoderLoss], int, torch.Tensor | None]] = {
    "SimCSELoss": (SimCSELoss, 1, None),
    "SelfGuidedLoss": (SelfGuidedLoss, 1, None),
    "BackTranslationLoss": (BackTranslationLoss, 2, None),
    "ParaphraseContrastLoss": (ParaphraseContrastLoss, 2, CLASSES),
    "InBatchDistillationLoss": (InBatchDistillationLoss, 2, torch.eye(4, 6)),
    "SupConLoss": (SupConLoss, 1, CLASSES),
    "SupCLSeqLoss": (SupCLSeqLoss, 1, CLASSES),
    "CrossEntropyLoss": (lambda model: CrossEntropyLoss(model, LinearHead(16, 2)), 1, CLASSES),
    "CrossEntropySupConLoss": (lambda model: CrossEntropySupConLoss(model, LinearHead(16, 2)), 1, CLASSES),
    "CrossEntropyContrastLoss": (
        lambda model: CrossEntropyContrastLoss(model, LinearHead(16, 2)), 1, CLASSES
    ),
    "LaConLoss": (lambda model: LaConLoss(model, LabelHead(16, 2)), 1, CLASSES),
    "LeamLoss": (lambda model: LeamLoss(model, LeamHead(16, 2)), 1, CLASSES),
}  # fmt: skip
POOLINGS = ("cls", "mean", "max")


def encoder_of(folder: Path, pooling: str, *further: nn.Module) -> SentenceTransformer:
    torch.manual_seed(0)
    modules = [*load(folder, pooling=pooling, device="cpu"), *further]  # type: ignore[arg-type]
    return SentenceTransformer(modules=modules, device="cpu").train()


@pytest.mark.parametrize("normalised", [False, True], ids=["", "normalised"])
@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("name", LOSSES)
def test_defaults_train_the_encoder_as_it_is(tiny_bert, sentences, name, pooling, normalised) -> None:
    make, columns, labels = LOSSES[name]
    model = encoder_of(tiny_bert, pooling, *([Normalize()] if normalised else []))
    loss = make(model)
    value: Any = loss([model.preprocess(sentences(4, seed=seed)) for seed in range(columns)], labels)
    value = sum(value.values()) if isinstance(value, dict) else value
    value.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert value.isfinite()
    assert any(bool(gradient.any()) for gradient in gradients)
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)
    assert loss.get_config_dict()
    assert loss.citation.startswith("@")


def test_simcse_puts_its_head_on_cls_alone(tiny_bert) -> None:
    for pooling, head in (("cls", "train-only"), ("mean", None), ("max", None), ("cls-mlp", None)):
        assert SimCSELoss(encoder_of(tiny_bert, pooling)).get_config_dict()["head"] == head
    assert SimCSELoss(encoder_of(tiny_bert, "mean"), head="train-only").head is not None
    dense = encoder_of(tiny_bert, "cls", Dense(16, 8))
    assert SimCSELoss(dense).head is None
    with pytest.raises(InputError, match="stacked on the existing Dense layer"):
        SimCSELoss(dense, head="train-only")


def test_views_are_scaled_as_the_sentence_vectors_are(tiny_bert, sentences) -> None:
    """Both sides share a head, whose output depends on their lengths."""
    lengths = {}
    for name, further in (("plain", []), ("normalised", [Normalize()])):
        model = encoder_of(tiny_bert, "mean", *further)
        features = model.preprocess(sentences(4))
        vectors, views = SelfGuidedLoss(model)._both_sides(features, features)
        lengths[name] = (vectors.norm(dim=-1), views.norm(dim=-1))
    torch.testing.assert_close(lengths["normalised"][0], torch.ones(4))
    torch.testing.assert_close(lengths["normalised"][1], torch.ones(4, 4))
    assert (lengths["plain"][1] > 1.1).any()
