"""Small scored pairs over the words of the tiny encoder, and encoders that count letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from sentemb.data.sts import ScoredPairs, Subset

NOUNS = "cat dog man woman birds children".split()
VERBS = "sat ran plays sleeping eat fly".split()


def sentences(count: int, seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    return [
        f"the {generator.choice(NOUNS)} {generator.choice(VERBS)} {' '.join(generator.choice(NOUNS, size=3))}"
        for _ in range(count)
    ]


def make_pairs(
    name: str = "mine", split: str = "dev", sizes: tuple[int, ...] = (30,), seed: int = 0
) -> ScoredPairs:
    """Pairs of random sentences in parts of some sizes."""
    count = sum(sizes)
    edges = np.cumsum([0, *sizes])
    return ScoredPairs(
        name=name,
        split=split,
        first=sentences(count, seed),
        second=sentences(count, seed + 1),
        gold=np.random.default_rng(seed + 2).integers(0, 26, size=count) / 5,
        subsets=tuple(
            Subset(f"part{index}", int(start), int(stop))
            for index, (start, stop) in enumerate(pairwise(edges))
        ),
    )


def lengths(texts: list[str]) -> np.ndarray:
    """An encoder of four dimensions."""
    return np.array([[len(text), text.count("a"), text.count("e"), 1.0] for text in texts])


def letters(texts: Sequence[str]) -> np.ndarray:
    """Count each letter."""
    return np.array([[text.count(chr(97 + n)) for n in range(26)] for text in texts], dtype=np.float32)


class Letters:
    """An encoder that counts letters, and keeps what it was asked for."""

    def __init__(self, fingerprint: str = "letters", precision: str = "float64") -> None:
        self.fingerprint, self.precision = fingerprint, precision
        self.asked: list[str] = []

    name = "letters"
    dimension = 27

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> np.ndarray:
        self.asked += texts
        return np.hstack([np.ones((len(texts), 1), np.float32), letters(texts).reshape(-1, 26)])

    def describe(self) -> dict[str, Any]:
        return {"precision": self.precision}


@pytest.fixture
def float64() -> Iterator[None]:
    """Float64 as torch's default: no rounding can decide a check."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def pairs() -> ScoredPairs:
    """Thirty dev pairs in one part."""
    return make_pairs()


@pytest.fixture
def three_parts() -> ScoredPairs:
    """Sixty pairs in parts of 10, 20 and 30."""
    return make_pairs("parts", "test", (10, 20, 30), seed=7)
