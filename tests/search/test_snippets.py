"""A snippet shows the matched words of a document and their positions."""

from __future__ import annotations

import random

import pytest

from sentemb.data.words import document_places, document_text, fold
from sentemb.search import SearchIndex
from sentemb.search.keywords import LENGTH, snippets_of
from tests.search.bag_of_words import BagOfWords


def shown(query: str, text: str, language: str) -> list[str]:
    (snippet,) = snippets_of(query, [text], language)
    assert text[snippet.start :].startswith(snippet.text)
    assert list(snippet.spans) == sorted(snippet.spans)
    return [snippet.text[start:stop] for start, stop in snippet.spans]


@pytest.mark.parametrize(
    ("query", "text", "language", "words"),
    [
        ("run dictionary", "Dictionaries: he RUNS, running", "en", ["Dictionaries", "RUNS", "running"]),
        ("operational", "an operation operates", "en", ["operation", "operates"]),
        ("run", "running runs", "mul", []),
        ("cafe", "un café, CAFÉ", "fr", ["café", "CAFÉ"]),
        ("cà", "ca cà", "vi", ["cà"]),
        ("首都北京", "北京是中国的首都。", "zh", ["北京", "首都"]),
        ("中国的首都", "他在中国的首都 city", "zh", ["中国的首都"]),
        ("京", "京 and 北京", "zh", ["京", "京"]),
        ("strasse finden", "Die STRA\u00adẞE, find\u00aden", "de", ["STRA\u00adẞE", "find\u00aden"]),
        ("cafe\u0301", "ﬁn: café cafe\u0301", "vi", ["café", "cafe\u0301"]),
        ("수도", "한국의 수도는", "ko", ["수도"]),
        ("how hot is my cpu", "my CPU is hot", "en", ["CPU", "hot"]),
        ("ab", "\x00ab\x00 AB \U000f0000ab\U000f0001", "mul", ["ab", "AB"]),
        ("ab", "a\U0001f600b ab \u0301ab", "mul", ["ab", "\u0301ab"]),
        ('" OR * NEAR(', "or near", "mul", ["or", "near"]),
        ("?!", "anything", "mul", []),
        ("b c d", "d b-c B", "mul", ["d", "b", "c", "B"]),
    ],
)
def test_words_are_shown_where_they_are(query: str, text: str, language: str, words: list[str]) -> None:
    assert shown(query, text, language) == words


def test_characters_of_pairs_are_those_of_the_text() -> None:
    rng = random.Random(1)
    for _ in range(300):
        text = "".join(rng.choice("aB 北京\n中ไทยßﬁ한e\u0301\u00ad") for _ in range(rng.randrange(12)))
        indexed = document_text(text)
        starts, stops = document_places(text)
        assert len(indexed) == len(starts) == len(stops)
        for letter, start, stop in zip(indexed, starts, stops, strict=True):
            assert letter == " " or letter in fold(text[start:stop])


def test_a_long_text_is_shown_where_most_different_words_are() -> None:
    filler = "nothing to see here " * 30
    text = f"{filler}cat cat cat {filler}a cat met a dog {filler}dog {filler}"
    (snippet,) = snippets_of("cat dog", [text], "en")
    assert "a cat met a dog" in snippet.text
    assert len(snippet.text) <= LENGTH
    assert text[snippet.start - 1] == " " and text[snippet.start + len(snippet.text)] == " "
    (none,) = snippets_of("bird", [text], "en")
    assert (none.start, none.spans) == (0, ()) and len(none.text) <= LENGTH
    (near,) = snippets_of("bird", [text], "en", [608])
    assert near.start == 608 and near.text.startswith("cat nothing to see") and not near.spans
    (end,) = snippets_of("bird", [text], "en", [len(text) - 3])
    assert text.endswith(end.text) and len(end.text) <= LENGTH
    (long,) = snippets_of("x" * 999, ["w " * 300 + "x" * 999], "en")
    assert long.text == "x" * 999


def test_hits_carry_snippets(words: BagOfWords) -> None:
    texts = ["w1 w2 w3", "w4 w1"]
    index = SearchIndex.build(texts, words)
    assert [hit.snippet for hit in index.search("w1")] == [None, None]
    for mode in ("keyword", "hybrid"):
        for hits in index.search(["w1 w3", "w4"], mode=mode):  # type: ignore[call-overload]
            for hit in hits:
                assert hit.snippet is not None and hit.snippet.text == hit.text
    ((hit, other),) = index.search(["w1 w3"], mode="keyword")
    assert hit.snippet.spans == ((0, 2), (6, 8)) and other.snippet.spans == ((3, 5),)
