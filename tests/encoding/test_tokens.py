from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sentemb.encoding import encode_together, for_role, load_encoder
from sentemb.encoding.tokens import Tokens, tokens_of
from sentemb.modules import load

TEXTS = ["", "short", "word " * 300, "ünï " * 90, "你好" * 80, "a" * 95, "x y " * 30_000]


@pytest.mark.parametrize("longest", [None, 7, 40])
def test_what_is_longer_is_what_the_model_cuts(longest: int | None) -> None:
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


def test_counting_ends_where_the_room_does() -> None:
    seen: list[int] = []

    class Words:
        """A tokenizer whose tokens are words."""

        def __call__(self, text: str, **options: object) -> dict[str, list[str]]:
            seen.append(len(text))
            return {"input_ids": text.split()}

    long = "word " * 1_000_000
    tokens = Tokens(Words(), 10)
    assert (tokens.lengths([long, "word", long]) > 10).tolist() == [True, False, True]
    assert sum(seen) < len(long) / 10
    seen.clear()
    # Where there is room for all, all is counted.
    assert Tokens(Words(), 2_000_000).lengths([long]).tolist() == [1_000_000]
    assert sum(seen) == len(long)


def test_tokens_lie_where_the_tokenizer_says() -> None:
    encoder = load_encoder("sg-bert-mini")
    tokens = tokens_of(encoder)
    assert tokens is not None
    for text in TEXTS[1:]:
        starts = tokens.starts(text)
        assert (np.diff(starts) >= 0).all() and len(starts) == len(
            encoder.model[0].tokenizer.tokenize(text)  # type: ignore[attr-defined]
        )
        assert not any(text[start].isspace() for start in starts)


def test_a_prompt_takes_room() -> None:
    model = load("sg-bert-mini")
    model.prompts = {"query": "find this: ", "document": ""}
    plain = tokens_of(load_encoder(model))
    query = tokens_of(for_role(load_encoder(model), "query"))
    assert plain is not None and query is not None
    assert plain.room - query.room == 3
    text = "ün word " * 20
    assert query.lengths([text]) == plain.lengths([text])
    assert (query.starts(text) == plain.starts(text)).all()


def test_caches_and_families_have_the_tokens_of_their_model(tmp_path: Path) -> None:
    model = load("sg-bert-mini")
    for encoder in (load_encoder(model, cache_dir=tmp_path), *encode_together({"a": model})):
        tokens = tokens_of(encoder)
        assert isinstance(tokens, Tokens) and tokens.room == model.max_seq_length - 2


def test_functions_and_models_without_a_limit_read_everything(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("a 1 2\nb 3 4\n")
    assert tokens_of(load_encoder(lambda texts: np.ones((len(texts), 2)))) is None
    assert tokens_of(load_encoder(tmp_path / "words.txt")) is None
    model = load("sg-bert-mini")
    model.max_seq_length = int(1e30)
    assert tokens_of(load_encoder(model)) is None
