"""Probing files in SentEval's layout."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentemb.data.labelled import read_probe
from sentemb.errors import InputError

LINES = ["tr\tPRES\tShe sings .", "tr\tPAST\tHe\u2028ran .", "va\tPAST\tThey slept .", "te\tPRES\tWe go ."]


def write(folder: Path, lines: list[str]) -> Path:
    path = folder / "probing" / "past_present.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_splits_labels_and_sentences(tmp_path: Path) -> None:
    path = write(tmp_path, LINES)
    parts = read_probe("past_present.txt", data_dir=tmp_path, check_rows=False)
    assert {split: part.texts for split, part in parts.items()} == {
        "train": ["She sings .", "He\u2028ran ."],
        "dev": ["They slept ."],
        "test": ["We go ."],
    }
    assert [part.labels.tolist() for part in parts.values()] == [[1, 0], [0], [1]]
    assert parts["test"].label_names == ("PAST", "PRES")
    assert parts["test"].source == str(path)


def test_absent_files_say_where_they_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the probing file") as caught:
        read_probe("past_present.txt", data_dir=tmp_path)
    assert "facebookresearch/SentEval" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*LINES, "dev\tPAST\tNo ."], "line 5: expected tr, va or te"),
        ([*LINES, "te PAST No ."], "line 5: expected tr, va or te"),
        ([*LINES, "te\tFUTURE\tNo ."], "line 5: 'FUTURE' is not a label of the training rows"),
        (LINES[:3], "test has 0 rows instead of some"),
    ],
)
def test_broken_lines_are_named(lines: list[str], message: str, tmp_path: Path) -> None:
    write(tmp_path, lines)
    with pytest.raises(InputError, match=message):
        read_probe("past_present.txt", data_dir=tmp_path, check_rows=False)


def test_a_file_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    write(tmp_path, LINES)
    with pytest.raises(InputError, match="train has 2 rows instead of 100,000"):
        read_probe("past_present.txt", data_dir=tmp_path)


def test_a_file_of_other_characters_is_refused(tmp_path: Path) -> None:
    write(tmp_path, LINES).write_bytes(b"tr\tPAST\tcaf\xe9 .\n")
    with pytest.raises(InputError, match=r"past_present\.txt, line 1: byte 11 is not utf-8"):
        read_probe("past_present.txt", data_dir=tmp_path)
