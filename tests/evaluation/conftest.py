"""Small scored pairs over the words of the tiny encoder."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

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


@pytest.fixture
def pairs() -> ScoredPairs:
    """Thirty dev pairs in one part."""
    return make_pairs()


@pytest.fixture
def three_parts() -> ScoredPairs:
    """Sixty pairs in parts of 10, 20 and 30."""
    return make_pairs("parts", "test", (10, 20, 30), seed=7)
