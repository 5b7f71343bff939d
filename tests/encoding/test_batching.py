"""Token-sorted batches: every text once, little padding, no batch over its budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import sentemb.encoding.batching as batching
from sentemb.encoding.batching import batches, padding_share, tokenise
from tests.training.training_helpers import make_sentences


@given(
    lengths=st.lists(st.integers(0, 300), min_size=1, max_size=200),
    token_budget=st.integers(1, 5000),
)
def test_batches_hold_every_text_once_within_the_budget(lengths: list[int], token_budget: int) -> None:
    array = np.array(lengths, dtype=np.int64)
    made = list(batches(array, token_budget=token_budget))
    assert sorted(np.concatenate(made)) == list(range(len(lengths)))
    for batch in made:
        assert 1 <= len(batch) <= 512
        assert len(batch) == 1 or array[batch].max() * len(batch) <= token_budget


def test_padding_is_little_on_texts_of_all_lengths() -> None:
    lengths = np.random.default_rng(0).poisson(15, size=20_000) + 2
    assert padding_share(lengths, token_budget=4096) < 0.01
    by_chance = [lengths[first : first + 32] for first in range(0, len(lengths), 32)]
    assert 1 - lengths.sum() / sum(32 * batch.max() for batch in by_chance) > 0.25


WORDS = [
    "cat",
    "sat.",
    "Ünïcode",
    "naïve",
    "東京",
    "x" * 120,
    "a" * 30,
    "don't",
    "[SEP]",
    "1,234.5",
    "🙂👍🏽",
    "e\u0301",
]
PIECES = st.tuples(st.sampled_from(WORDS), st.sampled_from([" ", "\n", "  ", "\u3000", "", "-"]))
LONG = st.builds(
    lambda pieces, times: "".join(word + gap for word, gap in pieces) * times,
    st.lists(PIECES, min_size=1, max_size=12),
    st.sampled_from([0, 1, 40, 300]),
)
SHORT = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)


def assert_all_is_read(tokenizer: Any, texts: list[Any]) -> None:
    """The tokens are those that the tokenizer finds in whole texts."""
    tokens = tokenise(tokenizer, texts)
    expected = tokenizer(texts, truncation=True)
    for key, column in tokens.columns.items():
        rows = np.split(column, tokens.starts[1:-1])
        assert [row.tolist() for row in rows] == expected[key]
    assert tokens.cut == [row for row, one in enumerate(expected.encodings) if one.overflowing]


@pytest.fixture(scope="module", params=["wordpiece", "unigram", "bpe"])
def any_tokenizer(request: pytest.FixtureRequest, tiny_bert: Path) -> Any:
    """A tokenizer of every kind that models have, for 30 tokens."""
    if request.param == "wordpiece":
        return AutoTokenizer.from_pretrained(tiny_bert, model_max_length=30)
    kind = {"unigram": models.Unigram, "bpe": models.BPE}[request.param]
    made = Tokenizer(kind())
    made.normalizer = normalizers.NFKC()
    if request.param == "bpe":
        made.pre_tokenizer = pre_tokenizers.ByteLevel()
        trainer: Any = trainers.BpeTrainer(
            vocab_size=400, special_tokens=["<s>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        )
    else:
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=80, special_tokens=["<s>", "<u>"], unk_token="<u>")
    made.train_from_iterator([*WORDS, *make_sentences(50, seed=1)] * 3, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=30, pad_token="<s>")


@given(texts=st.lists(LONG, min_size=1, max_size=4))
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_beginnings_have_the_tokens_of_whole_texts(any_tokenizer: Any, texts: list[str]) -> None:
    assert_all_is_read(any_tokenizer, texts)


@given(short=SHORT, long=LONG, swapped=st.booleans())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_beginnings_of_pairs_have_the_tokens_of_whole_pairs(
    tiny_bert: Path, short: str, long: str, swapped: bool
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert, model_max_length=30)
    assert_all_is_read(tokenizer, [(long, short) if swapped else (short, long)])


@pytest.mark.parametrize(
    ("longest", "first", "second"),
    [
        (31, 900, 800),  # an even room: both get half of it
        (31, 800, 900),
        (30, 900, 500),  # an odd room: the longer one gets a token more
        (30, 500, 900),
        (30, 40, 900),
        (30, 900, 25),
        (30, 900, 2),
        (30, 900, 0),
    ],
)
def test_two_long_texts_share_the_room_as_the_whole_texts(
    tiny_bert: Path, longest: int, first: int, second: int
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert, model_max_length=longest)
    assert_all_is_read(tokenizer, [("cat sat on " * first, "the naïve dog " * second)])


def test_the_end_is_kept_where_the_tokenizer_keeps_it(tiny_bert: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert, model_max_length=30, truncation_side="left")
    assert_all_is_read(tokenizer, [" ".join(make_sentences(300, seed=2))])


def test_no_more_is_tokenized_than_is_needed(tiny_bert: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert, model_max_length=30)
    seen: list[int] = []

    class Counting(type(tokenizer)):  # type: ignore[misc]
        def __call__(self, texts: Any, **options: Any) -> Any:
            seen.append(sum(len(one) if isinstance(one, str) else sum(map(len, one)) for one in texts))
            return super().__call__(texts, **options)

    tokenizer.__class__ = Counting
    long = "the cat sat " * 100_000
    assert tokenise(tokenizer, [long, "short", long]).cut == [0, 2]
    assert tokenise(tokenizer, [("query", long), (long, "query"), (long, long)]).cut == [0, 1, 2]
    assert sum(seen) < 20_000


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
