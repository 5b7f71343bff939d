"""Texts of any script can be found by their words in SQLite's full-text index."""

from __future__ import annotations

import sqlite3

import pytest

from sentemb.data.keywords import document_text, query_texts, tokenizer


def found(language: str, document: str, query: str) -> bool:
    database = sqlite3.connect("")
    database.execute(f'CREATE VIRTUAL TABLE texts USING fts5(text, tokenize="{tokenizer(language)}")')
    database.execute("INSERT INTO texts VALUES (?)", (document_text(document),))
    database.execute("CREATE VIRTUAL TABLE queries USING fts5vocab(texts, instance)")
    terms = {term for (term,) in database.execute("SELECT term FROM queries")}
    database.execute("DELETE FROM texts")
    database.execute("INSERT INTO texts VALUES (?)", (query_texts(query, language)[0],))
    return bool(terms & {term for (term,) in database.execute("SELECT term FROM queries")})


@pytest.mark.parametrize(
    ("language", "document", "query"),
    [
        ("en", "He was running.", "who runs?"),
        ("en", "a 0-dimensional thing", 'NOT "dimensional" OR (AND NEAR* ^'),
        ("fr", "Le café est fermé", "cafe"),
        ("zh", "我在北京大学读书", "北京"),
        ("ja", "東京タワーに行く", "タワー"),
        ("th", "ฉันรักภาษาไทย", "ภาษา"),
        ("hi", "भारत की राजधानी दिल्ली है", "राजधानी?"),
        ("zh", "中 and English", "中"),
    ],
)
def test_a_document_is_found_by_a_word(language: str, document: str, query: str) -> None:
    assert found(language, document, query)


def test_other_words_do_not_match() -> None:
    assert not found("zh", "我在北京大学读书", "上海")
    assert not found("hi", "की", "का")  # the vowel signs tell them apart
    assert not found("vi", "ma", "má")
    assert not found("en", "anything", "?! -")


def test_runs_without_spaces_become_pairs_and_single_characters() -> None:
    assert document_text("see 北京大 now 大").split() == [
        "see",
        "北京",
        "北",
        "京大",
        "京",
        "大",
        "now",
        "大",
    ]
    assert document_text("수도는").split() == ["수도", "수", "도는", "도", "는"]
    assert document_text("ไทย ก").split() == ["ไท", "ทย", "ก"]
    assert query_texts("북한의 北京大 大", "und")[0].split() == ["북한", "한의", "北京", "京大", "大"]
