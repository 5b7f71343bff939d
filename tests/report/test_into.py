"""Only text between marks is replaced, and a mark without a table is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb.errors import InputError
from sentemb.report.build import put_into

BEFORE = "# Mine\n\n<!-- report:sts -->\nold\n<!-- /report:sts -->\n\ntext \\1 between\n\n"
UNKNOWN = "<!-- report:layers -->\n<!-- /report:layers -->\n"


def test_what_lies_between_marks_is_replaced(write_file: Callable[[str, str], Path]) -> None:
    marks = "<!-- report:transfer -->\n<!-- /report:transfer -->\n<!-- report:sts -->\n<!-- /report:sts -->\n"
    path = write_file("a.md", f"{BEFORE}{marks}end\n")
    texts = {"sts": "| a \\g<name> |\n", "transfer": "| b |\n", "layers": "| c |\n"}
    sts = "<!-- report:sts -->\n\n| a \\g<name> |\n\n<!-- /report:sts -->\n"
    transfer = "<!-- report:transfer -->\n\n| b |\n\n<!-- /report:transfer -->\n"
    for _ in range(2):
        assert put_into([path], texts) == {path: ["sts", "transfer", "sts"]}
        assert path.read_text() == f"# Mine\n\n{sts}\ntext \\1 between\n\n{transfer}{sts}end\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "no such file"),
        ("nothing", "does not contain a mark for a table"),
        ("<!-- report:sts -->\nnever closed\n", "not closed"),
        ("<!-- report:sts -->\n<!-- report:transfer -->\n<!-- /report:transfer -->\n", "not closed"),
        (BEFORE + UNKNOWN, "a mark for layers, but there are no records"),
        (b"\xff\xfe", "not valid UTF-8"),
    ],
)
def test_a_mark_that_cannot_be_filled_is_refused_and_nothing_changes(
    text: str | bytes | None, problem: str, write_file: Callable[[str, str | bytes], Path], tmp_path: Path
) -> None:
    good, path = write_file("good.md", BEFORE), tmp_path / "a.md"
    if text is not None:
        path = write_file("a.md", text)
    before = path.read_bytes() if text is not None else b""
    with pytest.raises(InputError, match=problem):
        put_into([good, path], {"sts": "x", "transfer": "y"})
    assert good.read_text() == BEFORE and (text is None or path.read_bytes() == before)
