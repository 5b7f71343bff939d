"""Folding gives all spellings of a text one form, and knows where each of its characters comes from."""

from __future__ import annotations

import random
import unicodedata

import pytest

from sentemb.data.language import fold, folded_places

# Letters, marks, jamo, kana, symbols and invisible characters, composed and not.
ALPHABET = [
    *"aEÉßﬁİ½™´ 1１가각한ｶﾞがᄀあйЁάςאשׁאַبأكﷺक़ดำ",
    *"\u0301\u0323\u05b8\u064f\u093c\u1161\u11a8\u3099\u200d\u00ad\ufe0f",
]


@pytest.mark.parametrize("seed", range(4))
def test_spellings_share_one_form_whose_characters_have_places(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(400):
        text = "".join(draw.choices(ALPHABET, k=draw.randrange(1, 9)))
        folded = fold(text)
        assert folded == fold(unicodedata.normalize("NFD", text)) == fold(unicodedata.normalize("NFC", text))
        starts, stops = folded_places(text)
        assert len(starts) == len(stops) == len(folded)
        assert (starts[1:] >= starts[:-1]).all() and (starts < stops).all() and (stops <= len(text)).all()


def test_each_character_has_the_place_of_its_source() -> None:
    starts, stops = folded_places("aﬁ\u00ad e\u0301x")
    assert fold("aﬁ\u00ad e\u0301x") == "afi éx"
    assert starts.tolist() == [0, 1, 1, 3, 4, 6]
    assert stops.tolist() == [1, 3, 3, 4, 6, 7]
    assert [part.tolist() for part in folded_places("")] == [[], []]


def test_accents_and_signs_of_other_words_stay() -> None:
    assert fold("Größe ñ Việt й أ की") == "grösse ñ việt й أ की"
    assert fold("Acme™ №5 1½").split() == ["acme", "tm", "no", "5", "1", "1", "2"]
