"""Checks of constructor options, with messages that name the option and the loss."""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

from sentemb.errors import InputError


def check_choice(loss: str, option: str, value: object, choices: Collection[object]) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise InputError(f"{loss} has no {option} {value!r}", f"choose one of {allowed}")


def check_number(
    loss: str, option: str, value: Any, *, low: float, inclusive: bool = False, whole: bool = False
) -> None:
    """Refuse what is no number, or one that is not finite or not above its lower bound."""
    number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    if not (number and math.isfinite(value) and (value >= low if inclusive else value > low)):
        bound = f"at least {low:g}" if inclusive else f"above {low:g}"
        noun = "whole number" if whole else "finite number"
        raise InputError(f"{option} of {loss} is {value!r}", f"give a {noun} {bound}")
