"""Power of a paired comparison: the smallest difference that it can show, and how many items would decide.

The formula is that of a paired t-test with the noncentral distribution, which for many items is the usual
(z_{1-a/2} + z_{1-b}) s / sqrt(n). The permutation test over items has the same power where the mean
difference is close to normal. Where it is not, as with few, skewed or mostly equal scores, the smallest
difference comes from a simulation: the observed differences are shifted, resampled and tested.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import optimize, special, stats

from sentemb.errors import InputError

Double = npt.NDArray[np.float64]

LEVEL = 0.05
"""Differences with a smaller p-value are significant."""
TARGET = 0.8
"""The power at which a difference counts as one that could have been shown."""
FEWEST = 6
"""Items that differ; the permutation test of fewer cannot be significant at 0.05."""
# Blocks, resamples of each, and exchanges that the tests of a block share: the standard error of a simulated
# power of 80 % is 0.6 points.
_BLOCKS, _RESAMPLES, _EXCHANGES = 40, 100, 400
_SIMULATED = 2000  # items; the mean of more is close to normal unless nearly all are equal
_NEW_ITEMS = 10**9  # more are of no use to anybody


@dataclass(frozen=True)
class Power:
    """The power of a test of a paired difference over some items, or over the seeds of training.

    Example:
        >>> gains = np.random.default_rng(0).normal(1, 10, 200)  # of each query
        >>> found = power(gains)
        >>> print(f"{found.detectable():.1f}")
        1.9
        >>> found.needed(0.5) > 1000
        True
    """

    count: int  # number of items or seeds
    error: float  # standard error of the difference, in its unit
    df: float  # degrees of freedom of this error

    def of(self, effect: float, *, count: int | None = None, level: float = LEVEL) -> float:
        """Return the probability that a true difference `effect` is significant, also with another count."""
        count = self.count if count is None else count
        df = self.df * (count - 1) / (self.count - 1)
        error = self.error * math.sqrt(self.count / count)
        return 1.0 if error == 0 else _power(effect / error, df, level)

    def detectable(self, *, level: float = LEVEL, target: float = TARGET) -> float:
        """Return the smallest true difference that is significant with probability `target`."""
        top = 4.0
        while _power(top, self.df, level) < target:
            top *= 2
        found = optimize.brentq(lambda shift: _power(shift, self.df, level) - target, 0.0, top)
        return float(found) * self.error

    def needed(self, effect: float, *, level: float = LEVEL, target: float = TARGET) -> int | None:
        """Return the smallest count that shows a true difference `effect`; None if a billion do not."""
        if effect == 0:
            return None
        low, high = 1, 2
        while self.of(effect, count=high, level=level) < target:
            low, high = high, 2 * high
            if low > _NEW_ITEMS:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            enough = self.of(effect, count=middle, level=level) >= target
            low, high = (low, middle) if enough else (middle, high)
        return high


def power(differences: Sequence[float] | Double, *, level: float = LEVEL, seed: int = 0) -> Power:
    """Return what a permutation test of paired differences can show.

    Args:
        differences: Score of one system minus that of another on each item, such as NDCG@10 x 100 of each
            query; shape (n,).
        level: The level of significance.
        seed: Of the simulation, which replaces the formula where the mean difference is far from normal.

    Returns:
        The power; its error makes the smallest difference shown with 80 % power the simulated one.

    Raises:
        InputError: Fewer than six differences are not 0, or one is not finite.

    Example:
        >>> gains = np.random.default_rng(0).normal(1, 10, 200)
        >>> found = power(gains)
        >>> print(f"{found.of(2):.2f} now, {found.of(2, count=400):.2f} with 400 queries")
        0.83 now, 0.99 with 400 queries
    """
    values = _checked(differences)
    found = Power(len(values), float(values.std(ddof=1)) / math.sqrt(len(values)), len(values) - 1)
    if np.ptp(values) < 1e-9 * np.abs(values).max() or not _is_far_from_normal(values):
        return found
    formula = found.detectable(level=level)
    simulation = _Simulation(values, len(values), level, seed)
    low, high = 0.0, 2 * formula
    while simulation.power(high) < TARGET:
        low, high = high, 2 * high
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if simulation.power(middle) >= TARGET else (middle, high)
    return replace(found, error=found.error * high / formula)


def simulate_power(
    differences: Sequence[float] | Double,
    effect: float,
    *,
    count: int | None = None,
    level: float = LEVEL,
    seed: int = 0,
) -> float:
    """Return the share of permutation tests that are significant when the true difference is `effect`.

    The observed differences are shifted to that mean, in their own direction, and resampled.

    Args:
        differences: Paired differences, as of `power`.
        effect: The true mean difference.
        count: Items of a resample; as many as observed by default.
        level: The level of significance.
        seed: Of the draws.

    Raises:
        InputError: As of `power`.

    Example:
        >>> gains = np.random.default_rng(0).normal(1, 10, 200)
        >>> abs(simulate_power(gains, 2.0) - power(gains).of(2.0)) < 0.03
        True
    """
    values = _checked(differences)
    return _Simulation(values, count or len(values), level, seed).power(abs(effect))


class _Simulation:
    """Permutation tests of resamples of centered differences, to which any shift is added later."""

    def __init__(self, values: Double, count: int, level: float, seed: int) -> None:
        generator = np.random.default_rng(seed)
        centered = (values - values.mean()) * (1 if values.mean() >= 0 else -1)
        self._level, self._count, self._exchanges = level, count, max(_EXCHANGES, math.ceil(20 / level))
        blocks = []
        for _ in range(_BLOCKS):
            drawn = centered[generator.integers(0, len(values), size=(_RESAMPLES, count))]
            signs = generator.choice(np.array([-1.0, 1.0]), size=(count, self._exchanges))
            blocks.append((drawn.sum(axis=1, keepdims=True), drawn @ signs, signs.sum(axis=0, keepdims=True)))
        self._sums, self._exchanged, self._signs = (np.stack(parts) for parts in zip(*blocks, strict=True))

    def power(self, effect: float) -> float:
        """Return the share of resamples whose test is significant, with this mean difference."""
        observed = np.abs(self._sums + self._count * effect)
        reached = np.abs(self._exchanged + effect * self._signs) >= observed * (1 - 1e-10)
        p_values = (1 + reached.sum(axis=2)) / (1 + self._exchanges)
        return float((p_values < self._level).mean())


def _power(shift: float, df: float, level: float) -> float:
    """Return the power of a two-sided t-test whose statistic is shifted by so many standard errors."""
    critical = stats.t.isf(level / 2, df)
    return 1 - float(special.ncfdtr(1, df, shift**2, critical**2))


def _is_far_from_normal(values: Double) -> bool:
    """Return True if skewness or ties may move the power of a test of the mean by some points."""
    count = len(values)
    if count > _SIMULATED:
        return False
    return bool(
        count < 30
        or abs(stats.skew(values)) > 0.05 * math.sqrt(count)
        or abs(stats.kurtosis(values)) > 0.1 * count
    )


def _checked(differences: Sequence[float] | Double) -> Double:
    values = np.asarray(differences, dtype=np.float64)
    if not np.isfinite(values).all():
        raise InputError("a difference is not a finite number", "leave out the items that have no score")
    if values.ndim != 1 or np.count_nonzero(values) < FEWEST:
        raise InputError(
            f"{np.count_nonzero(values)} differences that are not 0 are too few for a test",
            f"pass a list of the differences of items, {FEWEST} or more of which are not 0",
        )
    return values
