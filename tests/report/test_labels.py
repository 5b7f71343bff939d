"""Rows are named by labels, grouped by base, and the best are marked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb.errors import InputError
from sentemb.report.table import Label, Table, label_table, mark_best, read_labels

TABLE = Table(
    "Scores",
    ("model", "seeds", "STS12", "average"),
    (
        ("unknown", "–", "9.00", "–"),
        ("tuned", "8", "50.00 ± 9.00", "–"),
        ("large", "–", "–", "70.00"),
        ("raw", "–", "50.00", "40.00"),
    ),
    ("a note",),
)
LABELS = {
    "raw": Label("mini", "raw", "mean"),
    "large": Label("maxi", "raw", "cls"),
    "tuned": Label("mini", "SG-OPT", "cls"),
    "absent": Label("mini", "flow", "cls"),
}


def test_rows_are_grouped_by_base_in_the_order_of_the_labels() -> None:
    table = mark_best(label_table(TABLE, LABELS))
    assert table.header == ("method", "pooling", "seeds", "STS12", "average") and table.names == 2
    assert table.groups == ("mini", "mini", "maxi", "")
    names = [("raw", "mean", "–"), ("SG-OPT", "cls", "8"), ("raw", "cls", "–"), ("unknown", "–", "–")]
    assert [row[:3] for row in table.rows] == names
    # Equal scores are both the best; a base of one row has nothing to be better than.
    assert table.best == {(0, 3), (1, 3), (0, 4)}
    assert table.top == {(0, 3), (1, 3), (2, 4)}
    assert table.notes == ("a note", "bold: the best of its base")


def test_without_labels_the_best_of_all_is_bold() -> None:
    table = mark_best(label_table(TABLE, {}))
    assert table.rows == TABLE.rows and table.groups == ()
    assert table.best == {(1, 2), (3, 2), (2, 3)} and table.top == frozenset()
    assert table.notes[-1] == "bold: the best"


def test_labels_are_read_in_their_order(write_file: Callable[[str, str], Path], tmp_path: Path) -> None:
    assert read_labels(tmp_path) == {}
    entry = 'base = "x"\nmethod = "y"\npooling = "z"\n'
    path = write_file("labels.toml", f'["b.1"]\n{entry}[a]\n{entry}')
    assert list(read_labels(path.parent).items()) == [
        ("b.1", Label("x", "y", "z")),
        ("a", Label("x", "y", "z")),
    ]
    assert str(Label("x", "y", "z")) == "y of x (z)"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[a\n", "not valid TOML"),
        ("a = 1\n", r"labels\.toml, field a: .*; set base, method and pooling"),
        ('[a]\nbase = "x"\nmethod = "y"\n', r"field a\.pooling: "),
        ('[a]\nbase = "x"\nmethod = "y"\npooling = "z"\ncolour = "red"\n', r"field a\.colour: "),
        ('[a]\nbase = 1\nmethod = ""\npooling = "z"\n', r"field a\.base: .* string"),
    ],
)
def test_a_wrong_file_is_refused(text: str, problem: str, write_file: Callable[[str, str], Path]) -> None:
    path = write_file("labels.toml", text)
    with pytest.raises(InputError, match=problem):
        read_labels(path.parent)
