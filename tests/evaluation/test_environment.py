"""What records say of where they were made."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sentemb.evaluation.environment import command_line


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("/opt/env/bin/sentemb", "sentemb"),
        ("eval/sts.py", "eval/sts.py"),
        (str(Path.cwd() / "runs" / "model"), "runs/model"),
        ("--sets=/home/me/a.csv,stsb,/home/me/b.csv", "--sets=a.csv,stsb,b.csv"),
    ],
)
def test_a_record_names_no_folder_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, word: str, told: str
) -> None:
    monkeypatch.setattr(sys, "argv", [word])
    assert command_line() == [told]
