"""Ceilings that keep a hostile file or a slip of the finger from taking all memory or time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from sentemb.errors import InputError, unknown

VARIABLE = "SENTEMB_LIMITS"
"""Environment variable that raises ceilings: `line=256,archive=1024`; processes started later inherit it."""


class Ceiling(NamedTuple):
    """One ceiling.

    Attributes:
        default: Its number unless it is raised.
        of: What it counts, with the unit.
    """

    default: int
    of: str


CEILINGS = {
    "line": Ceiling(64, "MiB in a line of text"),
    "archive": Ceiling(256, "MiB of data sets in an archive"),
    "predictions": Ceiling(64, "MiB of predictions in a record"),
    "draws": Ceiling(1_000_000, "resamples in a comparison"),
    "pairs": Ceiling(1_000_000, "training pairs for adapt"),
    "negatives": Ceiling(1_000, "mined negatives per pair"),
    "weights": Ceiling(1_000, "million parameters in a new model"),
}
"""Every ceiling by its name; `sentemb --limit NAME=NUMBER` and the environment variable raise it."""


def limit(name: str) -> int:
    """The number of a ceiling, raised or not."""
    return _raised().get(name, CEILINGS[name].default)


def refuse_above(name: str, amount: float, place: str, hint: str | None = None) -> None:
    """Refuse an amount above a ceiling.

    Args:
        name: The ceiling.
        amount: What is wanted or was found.
        place: The file, line or option that wants it.
        hint: What to do in place of raising the ceiling.

    Raises:
        InputError: The amount is above it.
    """
    most = limit(name)
    if amount > most:
        instead = f"{hint}, or " if hint else ""
        raise InputError(
            f"{place}: more than {most:,} {CEILINGS[name].of}",
            f"{instead}raise the limit with sentemb --limit {name}=N",
        )


def raise_limits(given: Sequence[str]) -> None:
    """Raise ceilings for this process and those it starts.

    Args:
        given: Assignments, such as `line=256`.

    Raises:
        InputError: A ceiling is unknown, or its number is not a whole one above 0.
    """
    if given:
        os.environ[VARIABLE] = ",".join([*filter(None, [os.environ.get(VARIABLE)]), *given])
    _raised()  # what the environment says may be wrong, too


def _raised() -> dict[str, int]:
    numbers = {}
    for assignment in filter(None, os.environ.get(VARIABLE, "").split(",")):
        name, _, number = (part.strip() for part in assignment.partition("="))
        if name not in CEILINGS:
            raise unknown(f"limit (--limit, {VARIABLE})", name, CEILINGS)
        if not (number.isascii() and number.isdigit() and 0 < len(number) < 16 and int(number)):
            raise InputError(
                f"--limit {name}={number} ({VARIABLE}) is not a whole number above 0",
                f"write {name}=N, such as {name}={2 * CEILINGS[name].default}",
            )
        numbers[name] = int(number)
    return numbers
