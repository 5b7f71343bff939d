"""Words, cut out and weighed."""

from __future__ import annotations

import pytest

from sentemb.data.sentences import IdfWeights, remove_span, strip_punctuation, word_spans


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Copy  a file: (`cp` it)", ["Copy", "a", "file", "cp", "it"]),
        ("ประเทศไทย", ["ประ", "เทศ", "ไทย"]),
        ("", []),
        ("()", [""]),
    ],
)
def test_words_stand_between_blanks(text: str, words: list[str]) -> None:
    assert [strip_punctuation(text[start:stop]) for start, stop in word_spans(text)] == words


def test_a_part_is_cut_out_between_words() -> None:
    text = "one two\nthree four"
    spans = word_spans(text)
    assert [text[start:stop] for start, stop in spans] == ["one", "two", "three", "four"]
    assert remove_span(text, spans[1][0], spans[2][1]) == "one four"
    assert remove_span(text, 0, spans[1][1]) == "three four"
    assert remove_span(text, 0, len(text)) == ""


def test_words_of_few_texts_tell_them_apart() -> None:
    telling = IdfWeights(f"the Common word{n} part{n % 5} x" for n in range(50))
    assert telling.weight("word7") == telling.weight("(WORD7)") > telling.weight("part3") > 0
    assert telling.weight("the") == telling.weight("common") == telling.weight("x") == 0
    assert telling.weight("nowhere") == 0
