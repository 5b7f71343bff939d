"""Passages hold the whole text, fit the model and end where sentences do."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb.encoding import load_encoder
from sentemb.encoding.tokens import Tokens, tokens_of
from sentemb.errors import InputError
from sentemb.search.passages import split


class Words:
    """A tokenizer without places: a token for each word, and one for each four letters more."""

    def __call__(self, text: str, **_options: Any) -> dict[str, list[int]]:
        return {"input_ids": [0 for word in text.split() for _ in range(0, len(word), 4)]}


@pytest.fixture(scope="module")
def tokens() -> Tokens:
    """The tokens of the bundled BERT."""
    found = tokens_of(load_encoder("sg-bert-mini"))
    assert found is not None
    return found


def with_room(tokens: Tokens, room: int) -> Tokens:
    return Tokens(tokens._tokenizer, room)


def parts(text: str, tokens: Tokens, overlap: float = 0.0) -> list[str]:
    return [text[start:stop] for start, stop in split(text, tokens, overlap)]


SENTENCES = [
    "Dr. Smith went home.",
    "He slept well!",
    '"Did he?" she asked.',
    "The U.S. army came at 3.15 to J. Doe, e.g. by car.",
    "今天天气很好。",
    "「明日も行くの？」",
    "यह एक वाक्य है।",
    "กินข้าวกัน ไปเที่ยว",
    "👨‍👩‍👧 e\u0301le\u0300ve",
    "a\nline\nof\nverse",
]
pieces = st.sampled_from(
    [
        *SENTENCES,
        " ",
        " \u0301",
        ". \u0301x",
        "\n\n",
        "word" * 30,
        "\u00a0",
        "x." * 20,
        "...",
        "한국어",
        "\u2028",
    ]
)
long_texts = st.lists(pieces, min_size=1, max_size=40).map("".join) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200
)


@given(
    text=long_texts.filter(str.strip),
    room=st.integers(4, 60),
    overlap=st.sampled_from([0.0, 0.2, 0.5]),
    fast=st.booleans(),
)
@settings(max_examples=150)
def test_passages_fit_and_hold_everything(
    tokens: Tokens, text: str, room: int, overlap: float, fast: bool
) -> None:
    small = with_room(tokens, room) if fast else Tokens(Words(), room)
    try:
        spans = split(text, small, overlap)
    except InputError:
        assert max(small.lengths(list(text))) > room
        return
    assert small.lengths([text[start:stop] for start, stop in spans]).max() <= room
    held = np.zeros(len(text), dtype=bool)
    for start, stop in spans:
        assert text[start:stop].strip() == text[start:stop] != ""
        held[start:stop] = True
    assert all(letter.isspace() for letter, kept in zip(text, held, strict=True) if not kept)
    assert spans == sorted(spans) and len(set(spans)) == len(spans)
    whole = {edge for match in regex.finditer(r"\s*(\X)", text) for edge in match.span(1)}
    if max(small.lengths(regex.findall(r"\X", text))) <= room // 2:
        assert {edge for span in spans for edge in span} <= whole


def test_sentences_stay_whole_and_passages_are_even(tokens: Tokens) -> None:
    small = with_room(tokens, 32)
    text = " ".join(SENTENCES[:4])
    assert parts(text, small) == [" ".join(SENTENCES[:3]), SENTENCES[3]]
    even = parts(" ".join(["One two three four five."] * 6), small)
    assert [len(part.split(".")) - 1 for part in even] == [3, 3]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("今天天气好。「明日も？」そうです！", ["今天天气好。", "「明日も？」", "そうです！"]),
        ("यह एक है। दूसरा?  हाँ", ["यह एक है।", "दूसरा?", "हाँ"]),
        ("He slept! “Did he?” Yes. (No.) Etc.", ["He slept!", "“Did he?”", "Yes.", "(No.)", "Etc."]),
        ("Title\n\nbody runs\non here", ["Title", "body runs\non here"]),
        (
            "Dr. Who met J. R. Doe. He ate e.g. 3.5 g. of it",
            ["Dr. Who met J. R. Doe.", "He ate e.g. 3.5 g. of it"],
        ),
        ("What?! No... maybe.Yes", ["What?!", "No... maybe.Yes"]),
    ],
)
def test_sentences_end_where_readers_see_it(tokens: Tokens, text: str, sentences: list[str]) -> None:
    longest = max(int(tokens.lengths([one])[0]) for one in sentences)
    count = max(len(tokens.starts(one)) for one in sentences)
    assert count <= longest
    found: list[str] = []
    for room in range(count, len(tokens.starts(text)) + 1):
        found = parts(text, with_room(tokens, room))
        starts = {text.index(one) for one in sentences}
        assert {text.index(part) for part in found} <= starts


def test_text_without_spaces_is_cut_between_characters(tokens: Tokens) -> None:
    family = "👨‍👩‍👧"
    cut = parts("你好" * 50 + family, with_room(tokens, 10))
    assert "".join(cut) == "你好" * 50 + family and cut[-1].endswith(family)
    assert len(cut) == 11 and max(map(len, cut[:-1])) == 10


def test_passages_overlap_in_whole_sentences(tokens: Tokens) -> None:
    small = with_room(tokens, 32)
    text = " ".join(f"Number {number} is here." for number in range(30))
    apart, over = parts(text, small), parts(text, small, 0.25)
    assert len(over) > len(apart)
    for before, after in itertools.pairwise(over):
        shared = after.split(". ")[0]
        assert before.endswith(f"{shared}.")
    assert not any(set(one.split(". ")) & set(two.split(". ")) for one, two in itertools.pairwise(apart))


def test_a_character_too_long_for_the_model_is_refused() -> None:
    with pytest.raises(InputError, match="maximum length of 1 tokens is too short for a single character"):
        split("ab", Tokens(lambda text, **_: {"input_ids": [0, 0] * len(text)}, 1), 0.0)


@pytest.mark.parametrize("letter", [" ", "\n", ".", "!", "。", ")", "a", "a ", ". ", "\n \n", "\u0301", "? "])
def test_time_grows_with_the_text(tokens: Tokens, letter: str) -> None:
    """Eight texts take about the processor time of one as long as all of them."""

    def cost(length: int, times: int) -> float:
        text = f"a{letter * (length // len(letter))}b"
        started = time.process_time()
        for _ in range(times):
            parts(text, tokens)
        return time.process_time() - started

    # What disturbs a measurement does not disturb each of three; eight times the cost would be found in all.
    assert any(cost(60_000, 1) < 3 * cost(7_500, 8) for _ in range(3))
