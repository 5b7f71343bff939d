"""Only what lies between marks is replaced, and a mark that cannot be filled is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb.errors import InputError
from sentemb.report.into import put_into

BEFORE = "# Mine\n\n<!-- report:sts -->\nold\n<!-- /report:sts -->\n\ntext \\1 between\n\n"


def test_what_lies_between_marks_is_replaced(write_file: Callable[[str, str], Path]) -> None:
    path = write_file(
        "a.md",
        BEFORE + "<!-- report:transfer -->\n<!-- /report:transfer -->\n<!-- report:sts -->\n"
        "<!-- /report:sts -->\nend\n",
    )
    texts = {"sts": "| a \\g<name> |\n", "transfer": "| b |\n", "layers": "| c |\n"}
    assert put_into([path], texts) == {path: ["sts", "transfer", "sts"]}
    sts = "<!-- report:sts -->\n\n| a \\g<name> |\n\n<!-- /report:sts -->\n"
    new = (
        f"# Mine\n\n{sts}\ntext \\1 between\n\n"
        f"<!-- report:transfer -->\n\n| b |\n\n<!-- /report:transfer -->\n{sts}end\n"
    )
    assert path.read_text() == new
    put_into([path], texts)
    assert path.read_text() == new


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nothing", "does not contain a mark for a table"),
        ("<!-- report:sts -->\nnever closed\n", "not closed"),
        ("<!-- report:sts -->\n<!-- report:transfer -->\n<!-- /report:transfer -->\n", "not closed"),
        (
            BEFORE + "<!-- report:layers -->\n<!-- /report:layers -->\n",
            "a mark for layers, but there are no records",
        ),
        (b"\xff\xfe", "not valid UTF-8"),
    ],
)
def test_a_mark_that_cannot_be_filled_is_refused_and_nothing_changes(
    text: str | bytes, problem: str, write_file: Callable[[str, str | bytes], Path]
) -> None:
    path = write_file("a.md", text)
    before = path.read_bytes()
    with pytest.raises(InputError, match=problem):
        put_into([path], {"sts": "x", "transfer": "y"})
    assert path.read_bytes() == before


def test_an_absent_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        put_into([tmp_path / "a.md"], {"sts": "x"})


def test_of_several_files_all_are_changed_or_none(write_file: Callable[[str, str], Path]) -> None:
    good = write_file("good.md", BEFORE)
    bad = write_file("bad.md", "<!-- report:layers -->\n<!-- /report:layers -->\n")
    with pytest.raises(InputError, match="a mark for layers, but there are no records"):
        put_into([good, bad], {"sts": "x"})
    assert good.read_text() == BEFORE
