"""Checks of constructor options, with messages that name the option and the loss."""

from __future__ import annotations

import math
from collections.abc import Collection

from sentemb.errors import InputError


def check_choice(loss: str, option: str, value: object, choices: Collection[object]) -> None:
    """Refuse a value that is none of the choices.

    Args:
        loss: Class name for the message.
        option: Option name for the message.
        value: What the user gave.
        choices: What is allowed.

    Raises:
        InputError: `value` is not allowed.
    """
    if value not in choices:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise InputError(f"{loss} has no {option} {value!r}", f"choose one of {allowed}")


def check_number(loss: str, option: str, value: float, *, low: float, inclusive: bool = False) -> None:
    """Refuse a number that is not finite or not above its lower bound.

    Args:
        loss: Class name for the message.
        option: Option name for the message.
        value: What the user gave.
        low: The bound.
        inclusive: Whether the bound itself is allowed.

    Raises:
        InputError: `value` is out of range.
    """
    inside = value >= low if inclusive else value > low
    if not (math.isfinite(value) and inside):
        bound = f"at least {low:g}" if inclusive else f"above {low:g}"
        raise InputError(f"{option} of {loss} is {value!r}", f"give a finite number {bound}")
