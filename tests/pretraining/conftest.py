"""A small corpus, its tokenizer and its tokenized rows."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from sentemb.pretraining.tokens import load_tokenizer

NOUNS = "cat dog man woman park mat guitar apple birds children house".split()
VERBS = "sat ran plays eat fly sleeping cats dogs playings".split()


def make_lines(count: int, seed: int = 0) -> list[str]:
    """Sentences of the tiny vocabulary, some with words of several pieces, of 3 to 17 words."""
    generator = random.Random(seed)
    return [
        " ".join(generator.choice(NOUNS if place % 2 else VERBS) for place in range(generator.randint(3, 17)))
        for _ in range(count)
    ]


@pytest.fixture(scope="session")
def lines() -> list[str]:
    return make_lines(300)


@pytest.fixture(scope="session")
def tiny_tokenizer(tiny_bert: Path) -> PreTrainedTokenizerFast:
    return load_tokenizer(tiny_bert)


@pytest.fixture
def corpus_file(lines: list[str], tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
