from __future__ import annotations

import pytest

from sentemb.data.language import language_of


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        (["How do I sort a dictionary by value?", "the end of the line"], "en"),
        (["tar: extract an archive from a file", "list the contents of the archive"], "en"),
        (["Der Hund schläft auf dem Sofa", "Das ist nicht von mir"], "de"),
        (["Le chat est sur la table", "Je ne sais pas"], "fr"),
        (["Hà Nội là thủ đô của Việt Nam", "Một ngày không có nắng"], "vi"),
        (["北京是中国的首都"], "und"),
        (["Волга впадает в Каспийское море", "Москва стоит на Москве-реке"] * 3 + ["is"], "und"),
        (["w1 w2", "...", ""], "und"),
        ([], "und"),
    ],
)
def test_function_words_tell_the_language(texts: list[str], language: str) -> None:
    assert language_of(texts) == language
