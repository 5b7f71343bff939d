"""Correlation of predicted similarities with gold scores, in float64, never NaN.

A side counts as constant when its values differ by no more than `EQUAL_WITHIN` of the largest.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.floating]

# Cosines of one and the same vector differ in their last bits; ranking them would correlate rounding noise.
EQUAL_WITHIN = 1e-12


class CorrelationError(ValueError):
    """A correlation does not exist; the text says why, without a name for the data."""


def pearson(similarities: Floats, gold: Floats) -> float:
    """Pearson's correlation."""
    return correlation_of(*_checked(similarities, gold))


def spearman(similarities: Floats, gold: Floats) -> float:
    """Spearman's rank correlation; equal values share the mean of their ranks."""
    first, second = _checked(similarities, gold)
    return correlation_of(stats.rankdata(first), stats.rankdata(second))


def correlation_of(first: Floats, second: Floats) -> float:
    """Return Pearson's correlation of two sides of numbers, each of which varies; NaN where one does not.

    Sums, not dot products: the last bits of those depend on how many threads OpenBLAS has.
    """
    sides = [side - side.mean() for side in (first, second)]
    with np.errstate(divide="ignore", invalid="ignore"):
        left, right = (side / np.sqrt(np.sum(side * side)) for side in sides)
    return float(np.clip(np.sum(left * right), -1.0, 1.0))


def _checked(similarities: Floats, gold: Floats) -> tuple[Floats, Floats]:
    first = np.asarray(similarities, dtype=np.float64)
    second = np.asarray(gold, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 1:
        raise CorrelationError(
            f"the numbers of similarities ({first.size}) and gold scores ({second.size}) differ"
        )
    if first.size < 2:
        raise CorrelationError(f"a correlation needs at least 2 pairs, not {first.size}")
    for values, noun in ((first, "similarities"), (second, "gold scores")):
        broken = int(np.count_nonzero(~np.isfinite(values)))
        if broken:
            raise CorrelationError(f"{broken} of {values.size} {noun} are NaN or infinite")
        if np.ptp(values) <= EQUAL_WITHIN * np.abs(values).max():
            raise CorrelationError(f"all {values.size} {noun} are equal")
    return first, second
