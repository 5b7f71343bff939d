"""A batch in parts gives the outputs and the gradients of the whole batch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import nn

from sentemb.losses import BackTranslationLoss, ParaphraseContrastLoss, SelfGuidedLoss, SimCSELoss
from sentemb.modules import load
from sentemb.training.trainer import LengthBucketedEncoder, bucket_sizes, bucketed_by_length

TEXTS = ["cat", "the man plays guitar " * 7, "a dog", "red apple house", "cat dog " * 12, "birds fly", "the"]


@pytest.fixture
def encoder(tiny_bert: Path) -> SentenceTransformer:
    return load(tiny_bert, pooling="first-last", device="cpu").eval()


def test_parts_are_what_the_whole_is(encoder: SentenceTransformer) -> None:
    features = encoder.preprocess(TEXTS)
    names = set(features)
    mask = features["attention_mask"].bool()
    assert len(bucket_sizes(sorted(mask.sum(dim=1).tolist(), reverse=True))) > 1
    parted = bucketed_by_length(encoder)
    assert isinstance(parted, LengthBucketedEncoder) and parted.module is encoder
    whole, parts = encoder(dict(features)), parted(features)
    assert set(features) == names
    assert set(whole) == set(parts)
    torch.testing.assert_close(parts["sentence_embedding"], whole["sentence_embedding"])
    torch.testing.assert_close(parts["token_embeddings"][mask], whole["token_embeddings"][mask])
    assert parts["token_embeddings"].shape == whole["token_embeddings"].shape
    for one, other in zip(parts["all_layer_embeddings"], whole["all_layer_embeddings"], strict=True):
        torch.testing.assert_close(one[mask], other[mask])
    assert torch.equal(parts["attention_mask"], whole["attention_mask"])


def test_gradients_are_the_same(encoder: SentenceTransformer) -> None:
    def gradients(model: Any) -> list[torch.Tensor]:
        encoder.zero_grad()
        vectors = model(encoder.preprocess(TEXTS))["sentence_embedding"]
        (vectors * torch.arange(vectors.numel()).view_as(vectors)).sum().backward()
        return [weight.grad.clone() for weight in encoder.parameters() if weight.grad is not None]

    for one, other in zip(gradients(LengthBucketedEncoder(encoder)), gradients(encoder), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3)


LOSSES: dict[str, Callable[[nn.Module], nn.Module]] = {
    "self-guided": lambda model: SelfGuidedLoss(model, projection_width=8),
    "back-translation": lambda model: BackTranslationLoss(model, projection_width=8),
    "simcse": lambda model: SimCSELoss(model, head=None),
    "paraphrases": lambda model: ParaphraseContrastLoss(model, head=None),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_do_not_see_the_parts(tiny_bert: Path, name: str) -> None:
    def gradients(wrap: Callable[[SentenceTransformer], nn.Module]) -> dict[str, torch.Tensor]:
        model = load(tiny_bert, pooling="cls", device="cpu").eval()
        torch.manual_seed(0)
        loss = LOSSES[name](wrap(model))
        columns = [TEXTS] if name == "self-guided" else [TEXTS, TEXTS[::-1]]
        labels = torch.tensor([1, 1, 0, 0, 1, 0, 1])
        value = loss([model.preprocess(column) for column in columns], labels)
        (sum(value.values()) if isinstance(value, dict) else value).backward()
        return {path: weight.grad for path, weight in model.named_parameters() if weight.grad is not None}

    whole, parts = gradients(lambda model: model), gradients(LengthBucketedEncoder)
    assert whole.keys() == parts.keys()
    for path, gradient in whole.items():
        torch.testing.assert_close(parts[path], gradient, rtol=1e-3, atol=1e-5, msg=path)


def test_padding_on_the_left_is_left_to_the_encoder(encoder: SentenceTransformer) -> None:
    features = {
        name: value.flip(1) for name, value in encoder.preprocess(TEXTS).items() if torch.is_tensor(value)
    }
    whole, parts = encoder(dict(features)), LengthBucketedEncoder(encoder)(dict(features))
    assert torch.equal(whole["sentence_embedding"], parts["sentence_embedding"])


@pytest.mark.parametrize("lengths", [[7], [5, 5, 5], [90, 80, 12, 11, 10, 9], [200, 100, 50, 25, 12, 6], []])
def test_no_other_division_is_cheaper(lengths: list[int]) -> None:
    def price(sizes: tuple[int, ...]) -> int:
        starts = [0, *itertools.accumulate(sizes)][:-1]
        return sum(size * lengths[start] + 50 for size, start in zip(sizes, starts, strict=True))

    every = [
        sizes
        for count in range(len(lengths) + 1)
        for sizes in itertools.product(range(1, len(lengths) + 1), repeat=count)
        if sum(sizes) == len(lengths)
    ]
    assert price(tuple(bucket_sizes(lengths))) == min(price(sizes) for sizes in every)
