from __future__ import annotations

import logging

import pytest

from sentemb.cli import console
from sentemb.cli.console import each_warning_once, next_command, progress_bar
from sentemb.encoding import load_encoder
from sentemb.encoding.truncation import report_truncation


def test_a_command_says_each_warning_once() -> None:
    handler = logging.lastResort
    assert handler is not None

    def passes(text: str) -> bool:
        return bool(handler.filter(logging.LogRecord("sentemb", logging.WARNING, "", 0, text, (), None)))

    for _ in range(2):
        with each_warning_once():
            assert [passes(text) for text in ("one", "two", "one")] == [True, True, False]
    assert passes("one") and passes("one")


def test_the_next_command_is_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    with report_truncation(lambda text: None):
        load_encoder("sg-bert-mini", max_length=10).encode(["word " * 9])
        next_command("serve", "mine")
    cut, step = capsys.readouterr().err.splitlines()
    assert cut.startswith("1 text is longer than the 8 tokens of") and step == "next: sentemb serve mine"


def test_progress_is_a_line_now_and_then_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress_bar() as report:
        report("encoding", 10, 4_000)
    assert capsys.readouterr().err == ""  # half a minute has not passed
    monkeypatch.setattr(console, "_SECONDS_BETWEEN_LINES", 0)
    with progress_bar() as report:
        report("encoding", 1_000, 4_000)
        report("reading", 7, 0)
    assert capsys.readouterr().err == "encoding: 1,000 of 4,000\nreading: 7\n"
