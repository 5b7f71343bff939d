"""Words of any script: folded, without function words, as terms of keyword search, in sentences, weighed."""

from __future__ import annotations

import random
import sqlite3
import unicodedata

import pytest

from sentemb.data.words import (
    IdfWeights,
    document_text,
    fold,
    folded_places,
    language_of,
    query_texts,
    remove_span,
    sentences_of,
    strip_punctuation,
    tokenizer,
    without_function_words,
    word_spans,
)

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


def test_folding_by_hand() -> None:
    starts, stops = folded_places("aﬁ\u00ad e\u0301x")
    assert fold("aﬁ\u00ad e\u0301x") == "afi éx"
    assert (starts.tolist(), stops.tolist()) == ([0, 1, 1, 3, 4, 6], [1, 3, 3, 4, 6, 7])
    assert [part.tolist() for part in folded_places("")] == [[], []]
    assert fold("Größe ñ Việt й أ की") == "grösse ñ việt й أ की"
    assert fold("Acme™ №5 1½").split() == ["acme", "tm", "no", "5", "1", "1", "2"]


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
def test_only_content_words_are_left(query: str, language: str, left: str) -> None:
    rest = without_function_words(query, language)
    assert fold(rest).replace("?", " ").split() == fold(left).split()


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        (["How do I sort a dictionary by value?", "the end of the line"], "en"),
        (["tar: extract an archive from a file", "list the contents of the archive"], "en"),
        (["Der Hund schläft auf dem Sofa", "Das ist nicht von mir"], "de"),
        (["Hà Nội là thủ đô của Việt Nam", "Một ngày không có nắng"], "vi"),
        (["北京是中国的首都"], "und"),
        (["Волга впадает в Каспийское море", "Москва стоит на Москве-реке"] * 3 + ["is"], "und"),
        (["w1 w2", "...", ""], "und"),
        ([], "und"),
    ],
)
def test_function_words_reveal_the_language(texts: list[str], language: str) -> None:
    assert language_of(texts) == language


def terms(language: str, text: str) -> set[str]:
    database = sqlite3.connect("")
    database.execute(f'CREATE VIRTUAL TABLE texts USING fts5(text, tokenize="{tokenizer(language)}")')
    database.execute("INSERT INTO texts VALUES (?)", (text,))
    database.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(texts, instance)")
    return {term for (term,) in database.execute("SELECT term FROM terms")}


@pytest.mark.parametrize(
    ("language", "document", "query", "is_found"),
    [
        ("en", "He was running.", "who runs?", True),
        ("en", "a 0-dimensional thing", 'NOT "dimensional" OR (AND NEAR* ^', True),
        ("fr", "Le café est fermé", "cafe", True),
        ("zh", "我在北京大学读书", "北京", True),
        ("ja", "東京タワーに行く", "タワー", True),
        ("th", "ฉันรักภาษาไทย", "ภาษา", True),
        ("hi", "भारत की राजधानी दिल्ली है", "राजधानी?", True),
        ("zh", "中 and English", "中", True),
        ("zh", "我在北京大学读书", "上海", False),
        ("hi", "की", "का", False),  # the vowel signs differ
        ("vi", "ma", "má", False),
        ("en", "anything", "?! -", False),
    ],
)
def test_a_document_is_found_by_its_words(language: str, document: str, query: str, is_found: bool) -> None:
    found = terms(language, document_text(document)) & terms(language, query_texts(query, language)[0])
    assert bool(found) == is_found


def test_runs_without_spaces_become_pairs_and_single_characters() -> None:
    assert document_text("see 北京大 now 大").split() == "see 北京 北 京大 京 大 now 大".split()
    assert document_text("수도는").split() == ["수도", "수", "도는", "도", "는"]
    assert document_text("ไทย ก").split() == ["ไท", "ทย", "ก"]
    assert query_texts("북한의 北京大 大", "und")[0].split() == ["북한", "한의", "北京", "京大", "大"]


@pytest.mark.parametrize(
    "sentences",
    [
        ["Dr. Who came.", "He left at 5 p.m. sharp!", "Why?"],
        ["- List files: ls", "- Count them: ls | wc -l"],
        ["彼は来た。", "そして去った。"],
        ["no end"],
        [],
    ],
)
def test_sentences_and_lines_are_found(sentences: list[str]) -> None:
    for gap in ("\n", "  \n\n "):
        text = gap.join(sentences)
        assert [text[start:stop] for start, stop in sentences_of(text)] == sentences


def test_words_are_found_and_removed() -> None:
    expected = {"Copy  a file: (`cp` it)": "Copy a file cp it", "ประเทศไทย": "ประ เทศ ไทย", "": "", "()": ""}
    for text, words in expected.items():
        found = [strip_punctuation(text[start:stop]) for start, stop in word_spans(text)]
        assert " ".join(found) == words
    text = "one two\nthree four"
    spans = word_spans(text)
    assert [text[start:stop] for start, stop in spans] == text.split()
    assert remove_span(text, spans[1][0], spans[2][1]) == "one four"
    assert remove_span(text, 0, spans[1][1]) == "three four"
    assert remove_span(text, 0, len(text)) == ""


def test_words_of_few_texts_have_weight() -> None:
    weights = IdfWeights(f"the Common word{n} part{n % 5} x" for n in range(50))
    assert weights.weight("word7") == weights.weight("(WORD7)") > weights.weight("part3") > 0
    assert weights.weight("the") == weights.weight("common") == weights.weight("x") == 0
    assert weights.weight("nowhere") == 0
