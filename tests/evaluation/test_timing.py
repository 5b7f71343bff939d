from __future__ import annotations

import itertools
import time

import pytest

from sentemb.errors import InputError
from sentemb.evaluation.timing import time_in_turns


def test_every_round_has_every_action_and_begins_with_another() -> None:
    calls: list[str] = []
    actions = {name: (lambda name=name: calls.append(name)) for name in "abc"}
    seconds = time_in_turns(actions, rounds=2, warm_up=1)
    assert "".join(calls) == "abcbcacab"
    assert {name: len(one) for name, one in seconds.items()} == {"a": 2, "b": 2, "c": 2}
    assert time_in_turns({}, rounds=1) == {}


def test_seconds_are_those_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    seconds = time_in_turns({"slow": time.perf_counter, "fast": lambda: None}, rounds=2, warm_up=1)
    assert seconds == {"slow": [2, 2], "fast": [1, 1]}


@pytest.mark.parametrize(("rounds", "warm_up"), [(0, 0), (1, -1)])
def test_no_rounds_are_refused(rounds: int, warm_up: int) -> None:
    with pytest.raises(InputError, match="rounds is"):
        time_in_turns({}, rounds=rounds, warm_up=warm_up)
