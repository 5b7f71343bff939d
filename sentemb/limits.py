"""Ceilings that keep a hostile file or a slip of the finger from taking all memory or time."""

from __future__ import annotations

from sentemb.errors import InputError

LIMITS = {
    "line": (64, "MiB in a line of text"),
    "predictions": (64, "MiB of predictions in a record"),
    "draws": (1_000_000, "resamples in a comparison"),
    "pairs": (1_000_000, "training pairs for adapt"),
    "negatives": (1_000, "mined negatives per pair"),
    "weights": (1_000, "million parameters in a new model"),
}
"""Every ceiling by its name, with what it counts."""


def limit(name: str) -> int:
    """Return the number of a ceiling."""
    return LIMITS[name][0]


def refuse_above(name: str, amount: float, place: str, hint: str = "lower it") -> None:
    """Raise InputError if what a file, line or option (`place`) amounts to is above a ceiling."""
    most, of = LIMITS[name]
    if amount > most:
        raise InputError(f"{place}: more than {most:,} {of}", hint)
