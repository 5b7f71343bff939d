"""Function words leave queries that say more, in the language of the documents or of the query."""

from __future__ import annotations

import pytest

from sentemb.data.language import fold, without_function_words


@pytest.mark.parametrize(
    ("query", "language", "left"),
    [
        ("How hot is my processor?", "en", "hot processor"),
        ("to be or not to be", "en", "to be or not to be"),
        ("the WHO on it", "en", "WHO"),
        ("HOW HOT IS IT", "en", "hot"),
        ("don't lock Ann's door", "en", "lock ann door"),
        ("Où est l’école\u00a0?", "fr", "école"),
        ("Wie heiß ist mein Prozessor", "und", "heiß prozessor"),
        ("die hard", "und", "die hard"),
        ("как мой процессор", "ru", "процессор"),
        ("ما هو الم\u064fعالج", "ar", "المعالج"),
        ("मेरा प्रोसेसर कैसे", "hi", "प्रोसेसर"),
        ("我的处理器", "zh", "我的处理器"),
    ],
)
def test_only_other_words_are_left(query: str, language: str, left: str) -> None:
    rest = without_function_words(query, language)
    assert fold(rest).replace("?", " ").split() == fold(left).split()
