"""A small teacher's tokenizer and texts for it."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

TEACHER_TOKENS = "[PAD] [UNK] do i it ##t hot dog eat a the bun man ##s in park big .".split()
TEXTS = ["do it", "eat a hot dog", "the big dog in a park", "Eat the bun.", "a man in the park"]


@pytest.fixture(scope="module")
def teacher() -> Tokenizer:
    tokenizer = Tokenizer(
        models.WordPiece({token: number for number, token in enumerate(TEACHER_TOKENS)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer
