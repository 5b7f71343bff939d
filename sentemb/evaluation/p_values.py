"""p-values of differences between paired runs, and their correction for several comparisons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import stats


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction for several comparisons."""
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def p_of_differences(differences: Sequence[float] | npt.NDArray[np.float64]) -> float | None:
    """Student's t-test of the differences between paired runs."""
    if len(differences) < 2:
        return None
    if np.ptp(differences) < 1e-12:
        # Without any spread there is no t; what is left is that all signs agree.
        return 1.0 if abs(differences[0]) < 1e-12 else 2.0 ** (1 - len(differences))
    return float(stats.ttest_1samp(differences, 0.0).pvalue)
