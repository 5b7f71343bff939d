"""A small teacher's tokenizer and texts for it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

TEACHER_TOKENS = "[PAD] [UNK] do i it ##t hot dog eat a the bun man ##s in park big .".split()
TEXTS = ["do it", "eat a hot dog", "the big dog in a park", "Eat the bun.", "a man in the park"]


def make_tokenizer(tokens: Iterable[str]) -> Tokenizer:
    """Make a WordPiece tokenizer of some tokens."""
    numbers = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


@pytest.fixture(scope="module")
def teacher() -> Tokenizer:
    tokenizer = make_tokenizer(TEACHER_TOKENS)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    return tokenizer
