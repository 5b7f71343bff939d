"""Correlations of predictions with gold scores in float64, never NaN by accident."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.floating]

CORRELATIONS = ("spearman", "pearson")
# Cosines of one and the same vector differ in their last bits; ranking them would correlate rounding noise.
EQUAL_WITHIN = 1e-12


class CorrelationError(ValueError):
    """A correlation does not exist; the text says why, without a name for the data."""


def correlate(
    metric: str, similarities: Floats, gold: Floats, *, noise: float = 0.0, default: float | None = None
) -> float:
    """Return Pearson's correlation, or Spearman's with mean ranks for ties.

    Predictions that differ by no more than `noise` are equal; values that differ by `EQUAL_WITHIN` of the
    largest always are. Where no correlation exists, the result is `default`.

    Raises:
        CorrelationError: No correlation exists, and no default is given.
    """
    try:
        sides = _check_sides(similarities, gold, noise)
    except CorrelationError:
        if default is None:
            raise
        return default
    if metric == "spearman":
        sides = [stats.rankdata(side) for side in sides]
    # Sums, not dot products: the last bits of those depend on how many threads OpenBLAS has.
    centered = [side - side.mean() for side in sides]
    left, right = (side / np.sqrt(np.sum(side * side)) for side in centered)
    return float(np.clip(np.sum(left * right), -1.0, 1.0))


pearson = partial(correlate, "pearson")
spearman = partial(correlate, "spearman")


def _check_sides(similarities: Floats, gold: Floats, noise: float) -> list[Floats]:
    first, second = (np.asarray(side, dtype=np.float64) for side in (similarities, gold))
    if first.shape != second.shape or first.ndim != 1:
        raise CorrelationError(
            f"the numbers of similarities ({first.size}) and gold scores ({second.size}) differ"
        )
    if first.size < 2:
        raise CorrelationError(f"a correlation needs at least 2 pairs, not {first.size}")
    for values, noun, least in ((first, "similarities", noise), (second, "gold scores", 0.0)):
        if broken := int(np.count_nonzero(~np.isfinite(values))):
            raise CorrelationError(f"{broken} of {values.size} {noun} are NaN or infinite")
        if np.ptp(values) <= max(least, EQUAL_WITHIN * np.abs(values).max()):
            raise CorrelationError(f"all {values.size} {noun} are equal")
    return [first, second]
