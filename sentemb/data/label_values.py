"""From what files write to class numbers and scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sentemb.errors import InputError


def number_labels(
    rows: Iterable[tuple[str, Any]], names: Sequence[str], *, spellings: Sequence[str] = (), where: str
) -> npt.NDArray[np.int64]:
    """The class numbers of located labels: written as a name, or one of `spellings`, by default numbers."""
    numbers = {one: number for number, one in enumerate(spellings or map(str, range(len(names))))}
    # A name goes before a spelling: the user's own classes may be called 1 and 0.
    numbers |= {name: number for number, name in enumerate(names)}
    found = []
    for location, value in rows:
        label = spelling(value, location)
        if label not in numbers:
            shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            raise InputError(f"{location}: {label!r} is not a label of {where}", f"its labels are {shown}")
        found.append(numbers[label])
    return np.array(found, dtype=np.int64)


def spelling(value: Any, location: str) -> str:
    """Write a label as a string: `1` for 1, 1.0 and "1", `true` for True."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, (str, int)) and str(value).strip():
        return str(value).strip()
    if value is None or isinstance(value, str) or (isinstance(value, float) and math.isnan(value)):
        raise InputError(f"{location}: the label is missing", "remove the row, or fill in the label")
    raise InputError(f"{location}: {value!r} is not a class", "read decimal numbers as scores (scores=True)")


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """The classes of a user's own file, sorted, as numbers where all are: every split numbers them alike."""
    names = set(labels)
    if all(name.removeprefix("-").isdecimal() for name in names):
        return tuple(sorted(names, key=lambda name: (int(name), name)))
    return tuple(sorted(names))


def score_classes(scores: npt.NDArray[np.floating], *, decimals: int | None = 1) -> npt.NDArray[np.int64]:
    """Make classes of scores for a supervised contrastive loss, as SupCL-Seq does for STS-B.

    Args:
        scores: (n,) scores.
        decimals: Scores that are equal when rounded to so many decimals are one class: 1 in the paper
            (footnote 3). None takes them as they are, as its released code does.

    Returns:
        (n,) class numbers in the order of the scores.

    Example:
        >>> score_classes(np.array([0.0, 2.5, 5.0]))
        array([0, 1, 2])
    """
    values = np.asarray(scores, dtype=np.float64)
    rounded = values if decimals is None else np.round(values, decimals)
    return np.unique(rounded, return_inverse=True)[1].astype(np.int64)
