"""Near texts against a loop over all pairs, and what counts as the same."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from sentemb.data.contamination import NearTexts, fold

WORDS = "a the cat dog sat ran on mat in park man woman plays guitar red apple two birds".split()


def common(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest common subsequence, by the textbook's table."""
    above = [0] * (len(second) + 1)
    for one in first:
        row = [0]
        for j, other in enumerate(second):
            row.append(above[j] + 1 if one == other else max(above[j + 1], row[j]))
        above = row
    return above[-1]


def draw(generator: np.random.Generator, count: int) -> list[str]:
    """Sentences with repeated words; half of them are others with a word changed, left out or added."""
    texts = [" ".join(generator.choice(WORDS, generator.integers(1, 14))) for _ in range(count // 2)]
    for text in list(texts):
        words = text.split()
        place = int(generator.integers(len(words)))
        changed = [[], [words[place], "unheard"], [str(generator.choice(WORDS))]][generator.integers(3)]
        texts.append(" ".join([*words[:place], *changed, *words[place + 1 :]]) or "a")
    return texts


@pytest.mark.parametrize("nearness", [0.6, 0.8, 0.9, 1.0])
def test_no_near_text_is_missed_and_none_is_made_up(nearness: float) -> None:
    generator = np.random.default_rng(0)
    wanted = list(dict.fromkeys(draw(generator, 80)))
    index = NearTexts(wanted, nearness=nearness)
    for text in [*draw(generator, 20), *(f"{one} dog" for one in wanted[::4])]:
        words = text.split()
        expected = {}
        for number, other in enumerate(wanted):
            near = 2 * common(words, other.split()) / (len(words) + len(other.split()))
            if near >= nearness - 1e-9:
                expected[number] = near
        found = {match.number: match for match in index.find(text)}
        assert {number for number, one in found.items() if one.how != "inside"} | {
            number for number, one in found.items() if one.how == "inside" and number in expected
        } == set(expected)
        for number, match in found.items():
            if match.how == "near":
                assert math.isclose(match.nearness, expected[number])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("A  man\tplays.", "a man plays."),
        ("ｆｕｌｌ width ①", "full width 1"),
        ("caf\u00e9", "cafe\u0301"),
        ("Straße\u00a0", "STRASSE"),
    ],
)
def test_the_same_but_for_case_space_and_form(first: str, second: str) -> None:
    assert fold(first) == fold(second)
    (match,) = NearTexts([fold(first)]).find(second)
    assert (match.how, match.nearness) == ("exact", 1.0)


def test_punctuation_and_tokenization_are_near() -> None:
    index = NearTexts([fold("Two dogs run, they don't stop -- ever (we think).")])
    (match,) = index.find("two dogs run , they don't stop ever ( we think ) .")
    assert (match.how, match.nearness) == ("near", 1.0)
    assert not list(index.find("Two cats sleep, they don't move -- ever (I hope)."))


@pytest.mark.parametrize("around", ["{} here", "there {}", "so {} it is", "a man plays {}"])
def test_a_sentence_inside_a_paragraph(around: str) -> None:
    text = "a man plays the red guitar"
    (match,) = NearTexts([text, "the red guitar"], nearness=1.0).find(around.format(text))
    assert (match.number, match.how) == (0, "inside")  # the other has too few words to tell
    assert not list(NearTexts([text], nearness=1.0).find("so a man plays the red, red guitar and sings"))


def test_a_character_without_spaces_is_a_word() -> None:
    index = NearTexts(["一个戴着硬帽子的人在跳舞。", "幼い子供が馬に乗っています。"])
    (match,) = index.find("一个戴着硬帽的人在跳舞。")
    assert (match.number, match.how) == (0, "near")
    assert match.nearness == pytest.approx(2 * 11 / 23)


def test_texts_without_words_are_only_ever_the_same() -> None:
    index = NearTexts(["...", "a"])
    assert [match.how for match in index.find("...")] == ["exact"]
    assert not list(index.find("")) and not list(index.find("!?"))
