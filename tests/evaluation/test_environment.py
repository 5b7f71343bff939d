"""The environment that records name, and timing in turns."""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

import pytest

from sentemb.errors import InputError
from sentemb.evaluation.environment import command_line, time_in_turns


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


def test_every_round_has_every_action_and_begins_with_another(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    actions = {name: (lambda name=name: calls.append(name)) for name in "abc"}
    seconds = time_in_turns(actions, rounds=2, warm_up=1)
    assert "".join(calls) == "abcbcacab"
    assert {name: len(one) for name, one in seconds.items()} == {"a": 2, "b": 2, "c": 2}
    assert time_in_turns({}, rounds=1) == {}
    clock = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    seconds = time_in_turns({"slow": time.perf_counter, "fast": lambda: None}, rounds=2, warm_up=1)
    assert seconds == {"slow": [2, 2], "fast": [1, 1]}
    with pytest.raises(InputError, match="rounds is 0"):
        time_in_turns({}, rounds=0)
