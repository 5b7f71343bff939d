"""Ceilings: what they refuse, and how they are raised."""

from __future__ import annotations

import pytest

from sentemb.cli.main import run
from sentemb.errors import InputError
from sentemb.limits import CEILINGS, VARIABLE, limit, raise_limits, refuse_above


@pytest.fixture(autouse=True)
def none_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")


def test_a_raised_ceiling_holds_for_processes_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "draws=2000000")
    raise_limits(["line=128", "line=256"])
    assert (limit("draws"), limit("line"), limit("archive")) == (2_000_000, 256, CEILINGS["archive"].default)


def test_the_error_says_how_to_raise_it() -> None:
    refuse_above("line", 64, "a.txt, line 2")
    with pytest.raises(
        InputError, match=r"a.txt, line 2: more than 64 MiB in a line of text; cut it, or .* --limit line=N"
    ):
        refuse_above("line", 64.1, "a.txt, line 2", "cut it")


@pytest.mark.parametrize(
    ("given", "named"),
    [("lines=1", "line"), ("line=-1", "--limit line=-1"), ("line", "line="), ("line=nan", "nan"), ("=", "")],
)
def test_a_ceiling_that_is_none(given: str, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        run(["--limit", given, "data", "info", "stsb"])
    printed = capsys.readouterr().err
    assert left.value.code == 2 and printed.count("\n") == 1 and named in printed


def test_a_wrong_environment_is_told_by_every_verb(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "evil")
    with pytest.raises(SystemExit) as left:
        run(["data", "list"])
    printed = capsys.readouterr().err
    assert left.value.code == 2 and printed.count("\n") == 1 and VARIABLE in printed


def test_help_tells_every_ceiling(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(["--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert all(f"{name}={ceiling.default}" in told for name, ceiling in CEILINGS.items())
