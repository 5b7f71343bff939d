"""Scores of many resamples, and of many exchanges, of the same items, for many runs at once.

The draws depend on the number of items and the generator alone, so all systems of a comparison share them.
Clusters of items are drawn as a whole. A resample is written as how often each item is drawn. Then no
resample needs sorting: with the items in the order of a run's predictions, the rank of an item follows from
the number of draws below it, and Spearman's correlation from sums over the groups of equal gold values. All
these sums are of whole numbers, and exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.sparse import csr_array

from sentemb._threads import one_blas_thread
from sentemb.evaluation.measures import CORRELATIONS, scores_of_counts
from sentemb.evaluation.retrieval.metrics import METRICS as RETRIEVAL_METRICS

Double = npt.NDArray[np.float64]
Integers = npt.NDArray[np.integer]
Pairs = Sequence[tuple[Integers, Integers]]
"""For each comparison the rows of the runs that stand against each other."""


class Clusters(NamedTuple):
    """Subjects of the items of several sets, such as the documents that queries were generated from."""

    of: Integers  # the number of each item's, shape (n,)
    total: int  # in all sets


Score = Callable[[npt.NDArray[Any]], Double]

# Numbers of a block of draws: 16 MiB of float64. The draws depend on it.
_BLOCK = 1 << 21
# Resamples that are ranked at once: a block stays in the processor's cache.
_RANKED = 32


@one_blas_thread()
def bootstrap(
    metric: str,
    predictions: Double,
    gold: Double,
    *,
    draws: int,
    generator: np.random.Generator,
    classes: int = 0,
    clusters: Clusters | None = None,
) -> Double:
    """Return the score of every run on resamples of the items, or of their clusters; (runs, draws)."""
    score: Score
    if (items := item_scores(metric, predictions, gold)) is not None:

        def score(counts: npt.NDArray[Any]) -> Double:
            drawn = counts.astype(np.float64)
            return np.asarray(items @ drawn / drawn.sum(axis=0))  # a cluster may have no item in this set

    elif metric == "spearman":
        score = _RankedRuns(predictions, gold).scores
    elif metric == "pearson":
        score = _weighted_pearson(predictions, gold)
    else:
        cells, score_cells = _cells(metric, predictions, gold, classes)

        def score(counts: npt.NDArray[Any]) -> Double:
            drawn = counts.astype(np.float64)
            return np.stack([score_cells((one @ drawn).T) for one in cells])

    drawn = resamples(len(gold) if clusters is None else clusters.total, draws, generator)
    blocks = drawn if clusters is None else (counts[clusters.of] for counts in drawn)
    return np.concatenate([score(counts) for counts in blocks], axis=1)


@one_blas_thread()
def exchange(
    metric: str,
    predictions: Double,
    gold: Double,
    pairs: Pairs,
    *,
    draws: int,
    generator: np.random.Generator,
    classes: int = 0,
    clusters: Clusters | None = None,
) -> tuple[Double, Double]:
    """Return differences of mean scores, and what they become when items are exchanged between two systems.

    Under the null hypothesis it is chance which of the systems gave which answer to an item. The runs of a
    system are wrong on the same items, so an item is exchanged in all of them at once. Similarities of
    different encoders have different scales: their ranks are exchanged.
    """
    # Of exchanges (draws, n), -1 for an exchange, each returns differences (comparisons, draws).
    if (items := item_scores(metric, predictions, gold)) is not None:
        count = items.shape[1]
        gains = np.stack([(items[one] - items[other]).mean(axis=0) / count for one, other in pairs])
        exchanged: Score = lambda signs: gains @ signs.T  # noqa: E731
        observed = exchanged(np.ones((1, count)))[:, 0]
    elif metric in CORRELATIONS:
        observed, exchanged = _exchanged_correlations(metric, predictions, gold, pairs)
    else:
        exchanged = _exchanged_classes(*_cells(metric, predictions, gold, classes), pairs)
        observed = exchanged(np.ones((1, len(gold))))[:, 0]
    found = []
    count = len(gold) if clusters is None else clusters.total
    for size in _sizes(count, draws):
        drawn = generator.integers(0, 2, size=(size, count), dtype=np.int8)
        signs = 2 * drawn.astype(np.float64) - 1
        found.append(exchanged(signs if clusters is None else signs[:, clusters.of]))
    return observed, np.concatenate(found, axis=1)


def resamples(count: int, draws: int, generator: np.random.Generator) -> Iterator[Integers]:
    """Yield how often each item is drawn: blocks of shape (n, some draws)."""
    for size in _sizes(count, draws):
        drawn = generator.integers(0, count, size=(count, size)) * size + np.arange(size)
        yield np.bincount(drawn.ravel(), minlength=size * count).reshape(count, size)


def _sizes(count: int, draws: int) -> Iterator[int]:
    size = max(1, _BLOCK // count)
    for start in range(0, draws, size):
        yield min(size, draws - start)


def item_scores(metric: str, predictions: Double, gold: Double) -> Double | None:
    """Return what each item scores, for a metric that is the mean of this; None for others."""
    if metric == "accuracy":
        return np.asarray(predictions == gold, dtype=np.float64)
    return predictions if metric in RETRIEVAL_METRICS else None


class _RankedRuns:
    """Spearman's correlation of every run on resamples.

    Let the copies of a resample be numbered from 0 in the order of a run's predictions. After `cum` draws of
    an item and all below it, its copies have the numbers up to `cum` - 1: twice their sum is the growth
    of `cum` (`cum` - 1), so sums of ranks over the items of equal gold are differences of squares.
    """

    def __init__(self, predictions: Double, gold: Double) -> None:
        groups = _group_numbers(gold)
        self.gold = _one_hot(groups)  # (groups, n)
        self.runs = [_Order(one, groups) for one in predictions]

    def scores(self, counts: Integers) -> Double:
        small = counts.astype(np.min_scalar_type(int(counts.max())))
        starts = range(0, counts.shape[1], _RANKED)
        blocks = (np.ascontiguousarray(small[:, start : start + _RANKED]) for start in starts)
        return np.concatenate([self._score_block(block) for block in blocks], axis=1)

    def _score_block(self, counts: Integers) -> Double:
        n = len(counts)
        drawn = counts.astype(np.float64)
        sizes = self.gold @ drawn  # (groups, draws)
        ranks = np.cumsum(sizes, axis=0) - (sizes + 1) / 2  # of each group's copies, from 0
        equal = _cubes(drawn)  # copies of an item are equal
        spread = n**3 - n - _cubes(sizes)
        cumulated = np.empty(counts.shape, dtype=np.min_scalar_type(n))
        squares = np.empty(counts.shape)
        found = np.empty((len(self.runs), counts.shape[1]))
        for row, run in enumerate(self.runs):
            ordered = counts.take(run.order, axis=0)
            np.cumsum(ordered, axis=0, dtype=cumulated.dtype, out=cumulated)
            np.multiply(cumulated, cumulated, out=squares, dtype=np.float64)
            doubled, ties = run.tied(ordered, cumulated)
            sums = (run.growth @ squares - sizes + doubled) / 2  # of the ranks of each gold group
            product = (ranks * sums).sum(axis=0) - n * ((n - 1) / 2) ** 2
            both = spread * (n**3 - n - equal - ties)
            with np.errstate(divide="ignore", invalid="ignore"):
                found[row] = np.where(both > 0, 12 * product / np.sqrt(both), np.nan)
        return found


class _Order:
    """The order of the items by the predictions of one run."""

    def __init__(self, predictions: Double, gold: Integers) -> None:
        groups = _group_numbers(predictions)
        self.order = np.argsort(groups, kind="stable")
        sizes = np.bincount(groups)
        starts = np.cumsum(sizes) - sizes
        several = np.flatnonzero(sizes > 1)
        self.first, self.last = starts[several], (starts + sizes)[several] - 1
        self.place = np.flatnonzero(np.repeat(sizes > 1, sizes))  # of the items in groups of several
        self.group = np.repeat(np.arange(len(several)), sizes[several])
        ordered, count = gold[self.order], int(gold.max()) + 1
        self.gold = _one_hot(ordered[self.place], count)
        # What an item adds to the sum of its gold group: a figure at its place less that at the place before.
        here = _one_hot(ordered, count)
        before = csr_array((here.data[1:], (ordered[1:], np.arange(len(gold) - 1))), shape=here.shape)
        self.growth = here - before  # (groups, n)

    def tied(self, ordered: Integers, cumulated: Integers) -> tuple[Double | float, Double | float]:
        """Return what equal predictions add to the doubled sums of ranks, and to the cubes of tie sizes."""
        if not len(self.place):
            return 0.0, 0.0
        counts, upto = ordered[self.place].astype(np.float64), cumulated[self.place].astype(np.float64)
        low = cumulated[self.first].astype(np.float64) - ordered[self.first]
        high = cumulated[self.last].astype(np.float64)
        apart = upto * (upto - 1) - (upto - counts) * (upto - counts - 1)
        together = counts * (low + high - 1)[self.group]
        return self.gold @ (together - apart), _cubes(high - low) - _cubes(counts)


def _weighted_pearson(predictions: Double, gold: Double) -> Score:
    """Return Pearson's correlation of every run on resamples, from weighted sums."""
    first, *runs = _standardise(np.stack([gold, *predictions])) * np.sqrt(len(gold))
    products = [part for one in runs for part in (one, one**2, one * first)]
    columns = np.stack([first, first**2, *products])  # (2 + 3 runs, n)

    def score(counts: npt.NDArray[Any]) -> Double:
        means = columns @ counts.astype(np.float64) / len(counts)  # (2 + 3 runs, draws)
        gold, gold_squares = means[:2]
        runs, squares, products = (means[2 + place :: 3] for place in range(3))
        spread = np.maximum(squares - runs**2, 0) * np.maximum(gold_squares - gold**2, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            # Weighted variances of values that are all equal are 0 but for rounding.
            return np.where(spread > 1e-24, (products - runs * gold) / np.sqrt(spread), np.nan)

    return score


def _cells(
    metric: str, predictions: Double, gold: Double, classes: int
) -> tuple[list[csr_array], Callable[[Double], Double]]:
    """Return each run's items by cell of the confusion matrix, and the score of matrices in one line each."""
    classes = max(classes, int(predictions.max()) + 1, int(gold.max()) + 1, 2)
    cells = (gold.astype(np.intp) * classes + predictions.astype(np.intp)).astype(np.intp)

    def score(matrices: Double) -> Double:
        return scores_of_counts(metric, matrices.reshape(*matrices.shape[:-1], classes, classes))

    return [_one_hot(one, classes**2) for one in cells], score


def _exchanged_correlations(
    metric: str, predictions: Double, gold: Double, pairs: Pairs
) -> tuple[Double, Score]:
    """Return differences of correlations, and those under exchanges, from sums over the exchanged items."""
    if metric == "spearman":
        predictions, gold = stats.rankdata(predictions, axis=1), stats.rankdata(gold)
    runs, gold = _standardise(predictions), _standardise(gold[None])[0]
    columns = np.stack([gold * runs, runs, runs**2])  # (3, runs, n)
    whole = columns.sum(axis=2)

    def correlation(halves: Sequence[tuple[Double, Double]], sign: int) -> Double:
        product, total, square = (middle + sign * half for middle, half in halves)
        spread = square - total**2 / len(gold)
        return product / np.sqrt(np.maximum(spread, np.finfo(np.float64).tiny))

    def exchanged(signs: Double) -> Double:
        moved = (columns.reshape(-1, len(gold)) @ signs.T).reshape(3, len(runs), -1)  # (3, runs, draws)
        found = []
        for one, other in pairs:
            halves = [
                ((sums[one] + sums[other])[:, None] / 2, (part[one] - part[other]) / 2)
                for sums, part in zip(whole, moved, strict=True)
            ]
            found.append((correlation(halves, 1) - correlation(halves, -1)).mean(axis=0))
        return np.stack(found)

    observed = np.array([np.mean(runs[one] @ gold - runs[other] @ gold) for one, other in pairs])
    return observed, exchanged


def _exchanged_classes(cells: list[csr_array], score: Callable[[Double], Double], pairs: Pairs) -> Score:
    """Return differences of metrics of classes under exchanges."""
    by_item = [one.T for one in cells]  # (n, cells) each

    def exchanged(signs: Double) -> Double:
        moved = (signs < 0).astype(np.float64)
        found = []
        for pair in pairs:
            differences = []
            for one, other in zip(*pair, strict=True):
                first, second = by_item[one], by_item[other]
                change = moved @ (second - first)  # (draws, cells)
                differences.append(score(first.sum(axis=0) + change) - score(second.sum(axis=0) - change))
            found.append(np.mean(differences, axis=0))
        return np.stack(found)

    return exchanged


def _group_numbers(values: Double) -> Integers:
    """Return the number of each item's value, in ascending order."""
    return np.unique(values, return_inverse=True)[1]


def _cubes(sizes: Double) -> Double:
    """Return what groups of equal values take from a variance of ranks."""
    return np.asarray((sizes * (sizes * sizes - 1)).sum(axis=0))


def _one_hot(groups: Integers, count: int = 0) -> csr_array:
    """Return which items are of which group, shape (groups, n)."""
    rows = count or int(groups.max()) + 1
    return csr_array((np.ones(len(groups)), (groups, np.arange(len(groups)))), shape=(rows, len(groups)))


def _standardise(runs: Double) -> Double:
    centred = runs - runs.mean(axis=1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).sum(axis=1, keepdims=True)))
