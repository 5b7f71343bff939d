from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb._files import sha256_of
from sentemb.data import load_columns
from sentemb.data.columns import check_output, write_table
from sentemb.errors import InputError

COLUMNS = ("text", "back_translation")
TEXTS = ['a "cat", sat', "two\nlines", "ein Käfer", "1", " spaces ", "car\rriage"]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_table_reads_back_as_training_data(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"back{suffix}"
    write_table(path, dict(zip(COLUMNS, (TEXTS, TEXTS[::-1]), strict=True)), {"forward": "x"})
    rows = load_columns(path, COLUMNS)
    assert list(rows["text"]) == TEXTS
    assert list(rows["back_translation"]) == TEXTS[::-1]
    manifest = json.loads((tmp_path / f"back{suffix}.manifest.json").read_text())
    assert manifest == {
        "forward": "x",
        "columns": list(COLUMNS),
        "rows": len(TEXTS),
        "sha256": sha256_of(path),
    }


def test_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"use one of \.csv, \.jsonl, \.parquet"):
        check_output(tmp_path / "back.tsv", [], overwrite=False)
    assert not list(tmp_path.iterdir())


def test_an_input_is_never_replaced(write_file: Callable[[str, str], Path]) -> None:
    path = write_file("mine.csv", "text\na\n")
    with pytest.raises(InputError, match="would replace the input"):
        check_output(path, ["stsb", str(path)], overwrite=True)
