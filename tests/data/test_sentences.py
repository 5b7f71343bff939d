from __future__ import annotations

import pytest

from sentemb.data.sentences import sentences_of


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
