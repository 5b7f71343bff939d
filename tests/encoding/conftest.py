"""Fixtures of the encoding tests: texts of many lengths and models of several shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import nn

from sentemb._compat import Dense, Normalize, Pooling, Transformer


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """120 texts of 0 to 90 words, some repeated, some empty, some longer than the model's 64 tokens."""
    words = "a the cat dog sat ran on mat in park man woman plays guitar is not".split()
    made = [" ".join(words[(i * 7 + k) % len(words)] for k in range(i % 23)) for i in range(117)]
    return [*made, "", " ".join(words * 6), made[5]]


@pytest.fixture
def make_encoder(tiny_bert: Path) -> Callable[..., SentenceTransformer]:
    """Build a tiny encoder; further options go to SentenceTransformer."""

    def make(
        pooling: str | tuple[str, ...] = "mean",
        *,
        normalize: bool = False,
        dense: bool = False,
        **options: object,
    ) -> SentenceTransformer:
        transformer = Transformer(str(tiny_bert))
        modules: list[nn.Module] = [transformer, Pooling(16, pooling)]
        if dense:
            modules.append(Dense(modules[-1].get_embedding_dimension(), 8))
        if normalize:
            modules.append(Normalize())
        return SentenceTransformer(modules=modules, device="cpu", **options)

    return make


@pytest.fixture
def three_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(threads)
