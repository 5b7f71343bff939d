"""A small corpus with an encoder that needs no network."""

from __future__ import annotations

import numpy as np
import pytest

from tests.search.bag_of_words import BagOfWords


@pytest.fixture
def words() -> BagOfWords:
    return BagOfWords()


@pytest.fixture(scope="session")
def corpus() -> list[str]:
    """1,500 unique texts of 4 out of 300 words."""
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{word}" for word in rng.integers(300, size=4)) for _ in range(1600)]
    return list(dict.fromkeys(texts))[:1500]
