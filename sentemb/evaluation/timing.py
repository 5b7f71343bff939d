"""Timing of several actions in turns, so that other work of the machine falls on all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sentemb.errors import InputError


class Times(NamedTuple):
    """Seconds of a method, one for each round."""

    training: Sequence[float]  # of training or fitting; empty where there is none
    inference: Sequence[float]  # of encoding and scoring


def time_in_turns(
    actions: Mapping[str, Callable[[], object]], *, rounds: int, warm_up: int = 0
) -> dict[str, list[float]]:
    """Run every action once in each round and return the seconds of each.

    The order turns by one place from round to round, so that no action always follows the same other one.

    Raises:
        InputError: There are no rounds.
    """
    if rounds < 1 or warm_up < 0:
        raise InputError(f"rounds is {rounds} and warm_up is {warm_up}", "use 1 round or more")
    names = list(actions)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(warm_up + rounds):
        first = number % max(len(names), 1)
        for name in names[first:] + names[:first]:
            began = time.perf_counter()
            actions[name]()
            if number >= warm_up:
                seconds[name].append(time.perf_counter() - began)
    return seconds
