"""What records say of where they were made."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sentemb.evaluation.environment import command_line


@pytest.mark.parametrize(
    ("program", "name"),
    [(str(Path("/opt/env/bin/sentemb")), "sentemb"), ("eval/sts.py", "eval/sts.py")],
)
def test_a_record_does_not_say_where_the_program_is_installed(
    monkeypatch: pytest.MonkeyPatch, program: str, name: str
) -> None:
    monkeypatch.setattr(sys, "argv", [program, "eval", "sts", "/data/model"])
    assert command_line() == [name, "eval", "sts", "/data/model"]
