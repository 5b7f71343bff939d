"""Token-sorted batches: every text once, little padding, no batch over its budget."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

import sentemb.encoding.batching as batching
from sentemb.encoding.batching import batches, padding_share, tokenise


@given(
    lengths=st.lists(st.integers(0, 300), min_size=1, max_size=200),
    token_budget=st.integers(1, 5000),
    max_texts=st.integers(1, 600),
)
def test_batches_hold_every_text_once_within_the_budget(
    lengths: list[int], token_budget: int, max_texts: int
) -> None:
    array = np.array(lengths, dtype=np.int64)
    made = list(batches(array, token_budget=token_budget, max_texts=max_texts))
    assert sorted(np.concatenate(made)) == list(range(len(lengths)))
    for batch in made:
        assert 1 <= len(batch) <= max_texts
        assert len(batch) == 1 or array[batch].max() * len(batch) <= token_budget


def test_padding_is_little_on_texts_of_all_lengths() -> None:
    lengths = np.random.default_rng(0).poisson(15, size=20_000) + 2
    assert padding_share(lengths, token_budget=4096) < 0.01
    by_chance = [lengths[first : first + 32] for first in range(0, len(lengths), 32)]
    assert 1 - lengths.sum() / sum(32 * batch.max() for batch in by_chance) > 0.25


def test_batch_equals_the_tokenizers_own(
    tiny_bert: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "_TEXTS_PER_CALL", 7)
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    tokens = tokenise(tokenizer, texts)
    indices = np.array([3, 119, 40, 0])
    batch = tokens.batch(indices)
    expected = tokenizer([texts[i] for i in indices], padding=True, truncation=True, return_tensors="pt")
    assert set(batch) == set(expected)
    for key, value in expected.items():
        assert torch.equal(batch[key], value)
