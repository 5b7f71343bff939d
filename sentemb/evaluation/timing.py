"""How long several ways take, measured in turns, so that what else the machine does falls on all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from sentemb._tables import ABSENT, Table
from sentemb.errors import InputError


class Times(NamedTuple):
    """Seconds of a method, one for each round.

    Attributes:
        training: Of training or fitting; empty where there is none.
        inference: Of encoding and scoring.
    """

    training: Sequence[float]
    inference: Sequence[float]


def time_in_turns(
    actions: Mapping[str, Callable[[], object]], *, rounds: int, warm_up: int = 0
) -> dict[str, list[float]]:
    """Run every action once in each round, and say what each took.

    The order turns by one place from round to round: none always runs behind the same other one.
    """
    if rounds < 1 or warm_up < 0:
        raise InputError(
            f"{rounds} rounds after {warm_up} to warm up measure nothing", "give 1 round or more"
        )
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


def efficiency_table(
    times: Mapping[str, Times], *, title: str, reference: str, published: Mapping[str, tuple[str, str]]
) -> Table:
    """Methods by the median of their seconds, and how many times the reference's these are."""
    if reference not in times:
        raise InputError(f"{reference}, to which the others are compared, was not measured", "add it")
    base = median(times[reference].inference)
    rows = []
    for name, one in times.items():
        paper = published.get(name, (ABSENT, ABSENT))
        inference = median(one.inference)
        training = f"{median(one.training):.2f}" if one.training else ABSENT
        rows.append((name, training, f"{inference:.2f}", f"{inference / base:.2f}", *paper))
    return Table(
        title=title,
        header=(
            "method",
            "training s",
            "inference s",
            f"× {reference}",
            "published training s",
            "published inference s",
        ),
        rows=tuple(rows),
        notes=(
            f"medians of {len(times[reference].inference)} rounds in which every method had its turn",
            "the published seconds are of another machine: compare ratios",
        ),
    )
