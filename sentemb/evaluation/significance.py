"""p-values: of differences between runs, of two correlations, and corrected for several comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import stats

from sentemb.errors import InputError

LEVEL = 0.05
"""Differences with a smaller p-value are significant."""

Seed = int | str | None
"""What tells a run from the others of its system; None of an encoder that was not trained with a seed."""

Double = npt.NDArray[np.float64]


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values after Holm's correction for several comparisons."""
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def p_of_differences(differences: Sequence[float] | Double) -> float | None:
    """Return Student's t-test of the differences between paired runs; None of a single one."""
    if len(differences) < 2:
        return None
    if np.ptp(differences) < 1e-12:
        # Without any spread there is no t; what is left is that all signs agree.
        return 1.0 if abs(differences[0]) < 1e-12 else 2.0 ** (1 - len(differences))
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def p_of_runs(
    first: Double, second: Double, seeds: Sequence[Seed], other_seeds: Sequence[Seed]
) -> float | None:
    """Return a t-test over the scores of runs: whether other seeds would give the same answer.

    Paired where both systems have the same seeds, Welch's where they have others, and of one sample where one
    of them has a single run; None where both have.
    """
    if max(len(first), len(second)) < 2:
        return None
    if min(len(first), len(second)) == 1:
        several, single = (first, second[0]) if len(second) == 1 else (second, first[0])
        return p_of_differences(several - single)
    if None not in seeds and {*seeds} == {*other_seeds}:
        place = {seed: index for index, seed in enumerate(other_seeds)}
        return p_of_differences(second[[place[seed] for seed in seeds]] - first)
    return float(stats.ttest_ind(first, second, equal_var=False).pvalue)


def p_of_exchanges(observed: float, exchanged: Double) -> float:
    """Return the share of exchanges, the observed one included, with at least the observed difference."""
    # Equal differences must count as equal whatever their last bits.
    return float((1 + (np.abs(exchanged) >= abs(observed) - 1e-10).sum()) / (1 + len(exchanged)))


def williams(first: float, second: float, between: float, count: int) -> float:
    """Return the p-value of Williams' test of two correlations of `count` items with one variable.

    Reference:
        Williams: The Comparison of Regression Variables. Journal of the Royal Statistical Society B, 1959.
        Steiger: Tests for Comparing Elements of a Correlation Matrix. Psychological Bulletin, 1980.
    """
    if count < 4:
        raise InputError(f"{count} items are too few to compare correlations", "use four or more")
    determinant = 1 - first**2 - second**2 - between**2 + 2 * first * second * between
    # Rounding may take the determinant of a perfect correlation below 0.
    if max(map(abs, (first, second, between))) > 1 or determinant < -1e-9:
        raise InputError(
            f"{first:g}, {second:g} and {between:g} cannot be the correlations of three variables",
            "pass the correlation of the first system, that of the second, and that between both",
        )
    if first == second:
        return 1.0
    mean = (first + second) / 2
    spread = 2 * (count - 1) / (count - 3) * determinant + mean**2 * (1 - between) ** 3
    if spread <= 0:
        return 0.0
    t = (first - second) * math.sqrt((count - 1) * (1 + between) / spread)
    return float(2 * stats.t.sf(abs(t), count - 3))
