"""The program of the tables: rows from the command line, records and tables in the output folder."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from sentemb.multitask.records import read_rows

PROGRAM = str(Path(__file__).resolve().parents[2] / "eval" / "multitask.py")


def test_the_paper_s_table_from_a_command(
    small_bert: Path,
    shared_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if not (shared_data / "cs224n").is_dir():
        pytest.skip(f"no cs224n in {shared_data}")
    output, runs = tmp_path / "out", tmp_path / "runs"
    size = ["--held-out", "0.2", "--rows", "8", "--dev-rows", "24", "--set", "max_steps=1"]
    data = ["--base", str(small_bert), "--data-dir", str(shared_data), "--runs", str(runs)]
    command = ["multitask.py", "--tables", "6", "--seeds", "1,2", *size, *data, "--output", str(output)]
    monkeypatch.setattr(sys, "argv", command)
    runpy.run_path(PROGRAM, run_name="__main__")
    printed = capsys.readouterr()
    assert "6 runs, 0 of them finished before" in printed.err
    assert "| Epoch Round Robin | 2 |" in printed.out and "49.3" in printed.out
    assert (output / "tables.md").read_text().endswith(printed.out.strip() + "\n")
    assert sorted({record.row for record in read_rows(output)}) == [
        "table2-none",
        "table6-batch-round-robin",
        "table6-epoch-round-robin",
    ]
    monkeypatch.setattr(sys, "argv", [*command[:2], "11", *command[3:]])
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(PROGRAM, run_name="__main__")
    assert caught.value.code == 2 and "no table 11" in capsys.readouterr().err
