"""Tests of two correlations with the same third variable: two encoders' similarities and one gold."""

from __future__ import annotations

import math

from scipy import stats

from sentemb.errors import InputError


def williams(first: float, second: float, between: float, count: int) -> float:
    """Williams' test, which Steiger (1980) recommends for correlations that share a variable.

    Args:
        first: Correlation of the first with the gold.
        second: Correlation of the second with the gold.
        between: Correlation of the first with the second.
        count: Number of items.

    Returns:
        The two-sided p-value, of Student's t with `count` - 3 degrees of freedom; 1 where the two are one and
        the same.

    Raises:
        InputError: Fewer than four items, or numbers that are no correlations of three variables.

    Reference:
        Williams: The Comparison of Regression Variables. Journal of the Royal Statistical Society B, 1959.
    """
    _check(first, second, between, count)
    if first == second:
        return 1.0
    determinant = _determinant(first, second, between)
    mean = (first + second) / 2
    spread = 2 * (count - 1) / (count - 3) * determinant + mean**2 * (1 - between) ** 3
    if spread <= 0:
        return 0.0
    t = (first - second) * math.sqrt((count - 1) * (1 + between) / spread)
    return float(2 * stats.t.sf(abs(t), count - 3))


def steiger(first: float, second: float, between: float, count: int) -> float:
    """Steiger's Z of the two correlations after Fisher's transformation, with their pooled mean.

    Args:
        first: Correlation of the first with the gold.
        second: Correlation of the second with the gold.
        between: Correlation of the first with the second.
        count: Number of items.

    Returns:
        The two-sided p-value; 1 where the two are one and the same.

    Raises:
        InputError: Fewer than four items, or numbers that are no correlations of three variables.

    Reference:
        Steiger: Tests for Comparing Elements of a Correlation Matrix. Psychological Bulletin, 1980.
    """
    _check(first, second, between, count)
    if first == second:
        return 1.0
    if max(abs(first), abs(second)) == 1:
        return 0.0
    square = ((first + second) / 2) ** 2
    covariance = between * (1 - 2 * square) - square * (1 - 2 * square - between**2) / 2
    covariance /= (1 - square) ** 2
    if covariance >= 1:
        return 0.0
    z = (math.atanh(first) - math.atanh(second)) * math.sqrt((count - 3) / (2 - 2 * covariance))
    return float(2 * stats.norm.sf(abs(z)))


def _determinant(first: float, second: float, between: float) -> float:
    return 1 - first**2 - second**2 - between**2 + 2 * first * second * between


def _check(first: float, second: float, between: float, count: int) -> None:
    if count < 4:
        raise InputError(f"{count} items are too few to compare correlations", "give four or more")
    whole = all(-1 <= value <= 1 for value in (first, second, between))
    # Rounding may take the determinant of a perfect correlation below 0.
    if not whole or _determinant(first, second, between) < -1e-9:
        raise InputError(
            f"{first:g}, {second:g} and {between:g} are no correlations of three variables",
            "give those of the first, of the second, and between the two",
        )
