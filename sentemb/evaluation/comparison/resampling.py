"""Scores of many resamples of the same items at once.

A resample is written as how often each item is drawn, so that ranks need no sorting: the rank of an item is
the number of draws below it. Everything is batched over resamples and linear in the number of items.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy import stats

from sentemb.evaluation.comparison.runs import Measure, SetRuns

Double = npt.NDArray[np.float64]

# Numbers of a block of resamples: 16 MiB.
_BLOCK = 1 << 21


def bootstrap_scores(
    one: SetRuns, other: SetRuns, measure: Measure, *, draws: int, generator: np.random.Generator
) -> tuple[Double, Double]:
    """Mean score over the runs of two systems on the same resamples of the items."""
    sides: tuple[list[Double], list[Double]] = ([], [])
    for counts in _resamples(len(one.gold), draws, generator):
        for side, runs in zip(sides, (one, other), strict=True):
            side.append(weighted_scores(runs, measure, counts).mean(axis=1))
    first, second = (np.concatenate(side) for side in sides)
    whole = np.isfinite(first) & np.isfinite(second)
    return first[whole], second[whole]


def weighted_scores(runs: SetRuns, measure: Measure, counts: Double) -> Double:
    """Score of every run on resamples."""
    if measure == "accuracy":
        right = (runs.predictions == runs.gold).astype(np.float64)  # (runs, n)
        return np.asarray((right @ counts / counts.sum(axis=0)).T)
    values = [runs.gold, *runs.predictions]
    if measure == "spearman":
        columns = (weighted_ranks(one, counts) for one in values)
    else:
        columns = (np.broadcast_to(one[:, None], counts.shape) for one in values)
    gold = next(columns)
    return np.stack([_correlations(gold, one, counts) for one in columns], axis=1)


def weighted_ranks(values: Double, counts: Double) -> Double:
    """Ranks of items of which some are there several times, and others not at all."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], np.diff(values[order]) != 0]))
    groups = np.add.reduceat(counts[order], starts, axis=0)  # (groups, draws)
    means = np.cumsum(groups, axis=0) - (groups - 1) / 2
    group_of = np.empty(len(values), dtype=np.intp)
    group_of[order] = np.repeat(np.arange(len(starts)), np.diff([*starts, len(values)]))
    return np.asarray(means[group_of])


def permutation_differences(
    one: SetRuns, other: SetRuns, measure: Measure, *, draws: int, generator: np.random.Generator
) -> tuple[float, Double]:
    """Difference of the mean scores, and what it becomes when items are exchanged between the systems.

    Under the null hypothesis it is chance which of the systems gave which answer to an item. The runs of a
    system are wrong on the same items, so an item is exchanged in all of them at once; of systems with
    different numbers of runs the surplus ones are left out, and a single one stands against each of the
    other's. Similarities of different encoders have different scales: their ranks are exchanged.
    """
    first, second = _paired(one.predictions, other.predictions)
    if measure == "accuracy":
        gain = (1.0 * (first == one.gold) - (second == one.gold)).mean(axis=0) / len(one.gold)  # (n,)
        exchanged = [_signs(size, len(gain), generator) @ gain for size in _sizes(len(gain), draws)]
        return float(gain.sum()), np.concatenate(exchanged)
    if measure == "spearman":
        first, second = _ranks(first), _ranks(second)
        gold = _standardised(_ranks(one.gold[None]))[0]
    else:
        gold = _standardised(one.gold[None])[0]
    first, second = _standardised(first), _standardised(second)
    observed = (first @ gold - second @ gold).mean()
    found = []
    for size in _sizes(len(gold), draws):
        signs = _signs(size, len(gold), generator)
        pairs = zip(first, second, strict=True)
        found.append(np.mean([_exchanged(a, b, gold, signs) for a, b in pairs], axis=0))
    return float(observed), np.concatenate(found)


def _exchanged(first: Double, second: Double, gold: Double, signs: Double) -> Double:
    """Difference of the correlations of one pair of runs under exchanges `(draws, n)`, -1 for an exchange."""
    middle, half = (first + second) / 2, (first - second) / 2
    moved = np.stack([gold * half, half, 2 * middle * half], axis=1)  # what exchanges change, (n, 3)
    products, sums, squares = (signs @ moved).T  # (draws,) each
    fixed = (gold * middle).sum(), middle.sum(), (middle**2 + half**2).sum()
    count = len(gold)
    sides = []
    for sign in (1, -1):
        product = fixed[0] + sign * products
        total = fixed[1] + sign * sums
        spread = fixed[2] + sign * squares - total**2 / count
        sides.append(product / np.sqrt(np.maximum(spread, np.finfo(np.float64).tiny)))
    return np.asarray(sides[0] - sides[1])


def _ranks(runs: Double) -> Double:
    return np.asarray(stats.rankdata(runs, axis=1), dtype=np.float64)


def _standardised(runs: Double) -> Double:
    centred = runs - runs.mean(axis=1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).sum(axis=1, keepdims=True)))


def _paired(first: Double, second: Double) -> tuple[Double, Double]:
    count = min(len(first), len(second))
    if count == 1:
        count = max(len(first), len(second))
        return np.broadcast_to(first, (count, first.shape[1])), np.broadcast_to(
            second, (count, second.shape[1])
        )
    return first[:count], second[:count]


def _correlations(first: Double, second: Double, counts: Double) -> Double:
    """Weighted Pearson correlation, columns against columns `(n, draws)`."""
    total = counts.sum(axis=0)
    one = first - np.einsum("nd,nd->d", first, counts) / total
    other = second - np.einsum("nd,nd->d", second, counts) / total
    weighted = one * counts
    product = np.einsum("nd,nd->d", weighted, other)
    spread = np.einsum("nd,nd->d", weighted, one) * np.einsum("nd,nd,nd->d", other, other, counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(spread > 0, product / np.sqrt(spread), np.nan))


def _resamples(count: int, draws: int, generator: np.random.Generator) -> Iterator[Double]:
    for size in _sizes(count, draws):
        drawn = generator.integers(0, count, size=(count, size)) * size + np.arange(size)
        flat = np.bincount(drawn.ravel(), minlength=size * count)
        yield flat.reshape(count, size).astype(np.float64)


def _signs(size: int, count: int, generator: np.random.Generator) -> Double:
    return np.asarray(generator.integers(0, 2, size=(size, count), dtype=np.int8) * 2.0 - 1.0)


def _sizes(count: int, draws: int) -> Iterator[int]:
    size = max(1, _BLOCK // count)
    for start in range(0, draws, size):
        yield min(size, draws - start)
