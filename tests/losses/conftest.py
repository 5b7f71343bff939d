"""Sentences of different lengths and small helpers for the loss tests."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_WORDS = "a the cat dog sat ran on mat in park man woman plays guitar sleeping children eat red apple".split()


def make_sentences(count: int, *, seed: int = 0) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices(_WORDS, k=generator.randint(1, 12))) for _ in range(count)]


@pytest.fixture
def sentences() -> Callable[..., list[str]]:
    """Make sentences of 1 to 12 words, so that batches are padded."""
    return make_sentences


@pytest.fixture
def encoder64(tiny_encoder: SentenceTransformer) -> SentenceTransformer:
    """Return the tiny encoder in float64."""
    return tiny_encoder.double()


@pytest.fixture
def tokenized(tiny_encoder: SentenceTransformer) -> Callable[[list[str]], dict[str, Any]]:
    """Tokenize a batch as the trainer's collator does."""
    return tiny_encoder.preprocess
