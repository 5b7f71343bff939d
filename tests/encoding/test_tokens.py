"""Texts as tokens: truncated as the tokenizer does, batched, counted, located; truncation reported once."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import sentemb.encoding.tokens as module
from sentemb.encoding import for_role, load_encoder
from sentemb.encoding.tokens import Tokens, batches, tokenise, tokens_of
from sentemb.encoding.truncation import report_pending, report_truncation
from sentemb.modules import load
from tests.training.training_helpers import make_sentences

TEXTS = ["", "short", "word " * 300, "ünï " * 90, "你好" * 80, "a" * 95, "x y " * 30_000]


@given(lengths=st.lists(st.integers(0, 300), min_size=1, max_size=200), token_budget=st.integers(1, 5000))
def test_batches_hold_every_text_once_within_the_budget(lengths: list[int], token_budget: int) -> None:
    array = np.array(lengths, dtype=np.int64)
    made = list(batches(array, token_budget=token_budget))
    assert sorted(np.concatenate(made)) == list(range(len(lengths)))
    for batch in made:
        assert 1 <= len(batch) <= 512
        assert len(batch) == 1 or array[batch].max() * len(batch) <= token_budget


WORDS = "cat sat. Ünïcode naïve 東京 x a don't [SEP] 1,234.5 🙂👍🏽 e\u0301".split()
WORDS[5:7] = ["x" * 120, "a" * 30]
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
    made = Tokenizer({"unigram": models.Unigram, "bpe": models.BPE}[request.param]())
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
def test_long_texts_have_the_tokens_of_whole_texts(any_tokenizer: Any, texts: list[str]) -> None:
    # Where a word repeats itself, segmentations of a Unigram model are equally likely, and its end decides.
    longest = max((len(word) for text in texts for word in text.split()), default=0)
    assume("Unigram" not in any_tokenizer.backend_tokenizer.to_str() or longest < 1_000)
    assert_all_is_read(any_tokenizer, texts)


@given(short=SHORT, long=LONG, swapped=st.booleans())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_long_pairs_have_the_tokens_of_whole_pairs(
    tiny_bert: Path, short: str, long: str, swapped: bool
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert, model_max_length=30)
    assert_all_is_read(tokenizer, [(long, short) if swapped else (short, long)])


@pytest.mark.parametrize(
    ("longest", "first", "second"),
    [
        (31, 300, 260),  # an even room: both get half of it
        (31, 260, 300),
        (30, 300, 170),  # an odd room: the longer one gets a token more
        (30, 170, 300),
        (30, 40, 300),
        (30, 300, 25),
        (30, 300, 0),
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
    monkeypatch.setattr(module, "_TEXTS_PER_CALL", 7)
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    indices = np.array([3, 119, 40, 0])
    batch = tokenise(tokenizer, texts).batch(indices)
    expected = tokenizer([texts[i] for i in indices], padding=True, truncation=True, return_tensors="pt")
    assert set(batch) == set(expected)
    for key, value in expected.items():
        assert torch.equal(batch[key], value)


@pytest.mark.parametrize("longest", [None, 7, 40])
def test_what_is_longer_is_what_the_model_truncates(longest: int | None) -> None:
    encoder = load_encoder("sg-bert-mini", max_length=longest)
    tokens = tokens_of(encoder)
    assert tokens is not None and tokens_of(encoder) is tokens
    tokenizer = encoder.model[0].tokenizer  # type: ignore[attr-defined]
    true = [len(row) for row in tokenizer(TEXTS, truncation=False, verbose=False)["input_ids"]]
    room = tokenizer.model_max_length - 2
    assert tokens.room == room
    lengths = tokens.lengths(TEXTS)
    assert (lengths > room).tolist() == [length - 2 > room for length in true]
    short = [row for row, text in enumerate(TEXTS) if len(text) < 100_000]
    exact = [row for row in short if lengths[row] > room or not TEXTS[row].isascii()]
    assert [lengths[row] + 2 for row in exact] == [true[row] for row in exact]
    counts = tokens.counts([TEXTS[row] for row in short])
    assert [count + 2 for count in counts] == [true[row] for row in short]
    for text in TEXTS[1:]:
        starts = tokens.starts(text)
        assert (np.diff(starts) >= 0).all() and len(starts) == len(tokenizer.tokenize(text))
        assert not any(text[start].isspace() for start in starts)


def test_counting_ends_where_the_room_does() -> None:
    seen: list[int] = []

    class Words:
        """A tokenizer whose tokens are words."""

        def __call__(self, text: str, **options: object) -> dict[str, list[str]]:
            seen.append(len(text))
            return {"input_ids": text.split()}

    long = "word " * 1_000_000
    assert (Tokens(Words(), 10).lengths([long, "word", long]) > 10).tolist() == [True, False, True]
    assert sum(seen) < len(long) / 10
    assert Tokens(Words(), 2_000_000).lengths([long]).tolist() == [1_000_000]


def test_a_prompt_takes_room(tmp_path: Path) -> None:
    model = load("sg-bert-mini")
    tokens = tokens_of(load_encoder(model, cache_dir=tmp_path))
    assert tokens is not None and tokens.room == model.max_seq_length - 2
    model.prompts = {"query": "find this: ", "document": ""}
    plain = tokens_of(load_encoder(model))
    query = tokens_of(for_role(load_encoder(model), "query"))
    assert plain is not None and query is not None
    assert plain.room - query.room == 3
    text = "ün word " * 20
    assert query.lengths([text]) == plain.lengths([text])
    assert (query.starts(text) == plain.starts(text)).all()
    model.max_seq_length = int(1e30)
    assert tokens_of(load_encoder(model)) is None
    assert tokens_of(load_encoder(lambda texts: np.ones((len(texts), 2)))) is None


FITTING = ["short", "ünd kürz", "word " * 8]
CUT = ["word " * 9, "ü " * 30]
MESSAGE = "2 texts are longer than the 8 tokens of sg-bert-mini and were truncated"


def test_truncation_is_a_warning_at_the_first_text_and_never_again(caplog: pytest.LogCaptureFixture) -> None:
    encoder = load_encoder("sg-bert-mini", max_length=10)
    with caplog.at_level(logging.WARNING):
        encoder.encode(FITTING)
        assert not caplog.records
        for _ in range(2):
            encoder.encode([*FITTING, *CUT, *CUT])
        encoder.encode(["other " * 20])
    (record,) = caplog.records
    assert MESSAGE in record.getMessage() and "raise the maximum length" in record.getMessage()
    tokens = tokens_of(encoder)
    assert tokens is not None and len(tokens.cut) == 3


def test_a_command_says_at_its_end_how_many_there_were(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):  # the second time they are in the cache
        said: list[str] = []
        with report_truncation(said.append):
            for texts in ([*FITTING, CUT[0]], CUT, CUT):  # each time by another copy of the encoder
                encoder = load_encoder("sg-bert-mini", max_length=10, cache_dir=tmp_path)
                for text in texts:
                    encoder.encode([text])
            assert said == []
        (line,) = said
        assert MESSAGE in line and not caplog.records


def test_encoders_that_read_equally_many_tokens_share_a_line() -> None:
    said: list[str] = []
    with report_truncation(said.append):
        for name, pooling in (("sg-bert-mini", None), ("bert-mini", "mean")):
            load_encoder(name, max_length=10, pooling=pooling).encode([*FITTING, *CUT])
        report_pending(said.append)  # before the next command is named
    (line,) = said
    assert line.startswith(MESSAGE.replace(" and were", " or 1 other model and were"))


def test_models_that_upstream_encodes_count_too(caplog: pytest.LogCaptureFixture) -> None:
    model = load("sg-bert-mini", max_length=10)
    model.prompts, model.default_prompt_name = {"p": "x: "}, "p"
    model[1].include_prompt = False
    encoder = load_encoder(model)
    assert encoder.describe()["backend"] == "SentenceTransformer.encode"
    encoder.encode(["word " * 6, "word " * 7])
    assert "1 text is longer than the 6 tokens" in caplog.text
