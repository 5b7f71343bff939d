from __future__ import annotations

from pathlib import Path

import pytest

from sentemb.data.sources import read_rows
from sentemb.errors import InputError

PAGES = {
    "hashes.md": ("# Copy files #\n\nUse `cp`.\n", "Copy files", "Use `cp`."),
    "underlined.md": ("Copy files\n==========\nUse `cp`.", "Copy files", "Use `cp`."),
    "ruled.rst": ("\n==========\nCopy files\n==========\n\nUse ``cp``.\n", "Copy files", "Use ``cp``."),
    "plain.rst": ("Use ``cp``.\n\nThen\n----\nMore.", "", "Use ``cp``.\n\nThen\n----\nMore."),
    "tag.md": ("#1 in lists\nMore.", "", "#1 in lists\nMore."),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_one_document(name: str, tmp_path: Path) -> None:
    content, title, text = PAGES[name]
    (tmp_path / name).write_text(content)
    (row,) = read_rows(tmp_path / name)
    assert row.values == {"title": title, "text": text}
    (row,) = read_rows(tmp_path / name, columns=["text"])
    assert row.values == {"text": text}


def test_pages_beside_data_tell_of_it(tmp_path: Path) -> None:
    for name, (content, *_) in PAGES.items():
        (tmp_path / name).write_text(content)
    assert len(list(read_rows(tmp_path))) == len(PAGES)
    (tmp_path / "data.txt").write_text("one\ntwo\n")
    assert [row.values["text"] for row in read_rows(tmp_path)] == ["one", "two"]


def test_a_page_without_a_word_is_empty(tmp_path: Path) -> None:
    (tmp_path / "blank.md").write_text("\n \n")
    with pytest.raises(InputError, match=r"blank\.md is empty"):
        list(read_rows(tmp_path / "blank.md"))
