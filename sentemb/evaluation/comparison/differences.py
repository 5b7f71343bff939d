"""Two systems on the same items: how far apart, how sure, and in words.

Two things make a difference uncertain, and they are kept apart:

- the items: another sample of sentence pairs would give other scores. The interval is the paired bootstrap's
  over items, the p-value a permutation test's, both of the mean score over the runs of a system.
- the seeds: training again would give another encoder. The p-value is a t-test's over the scores of the
  runs: paired where both systems have the same seeds, Welch's where they have others, and of one sample where
  one of them has a single run.

A difference is called real only if both say so: its p-value is the larger one. Over the sets of a suite it is
corrected by Holm's procedure; the average over the sets is one comparison by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from sentemb.errors import InputError
from sentemb.evaluation.comparison.dependent import williams
from sentemb.evaluation.comparison.resampling import (
    bootstrap_scores,
    permutation_differences,
    weighted_scores,
)
from sentemb.evaluation.comparison.runs import Measure, Runs, Seed, SetRuns
from sentemb.evaluation.p_values import holm, p_of_differences

Double = npt.NDArray[np.float64]
DRAWS = 2000
LEVEL = 0.05


@dataclass(frozen=True)
class Difference:
    """A system against another on one set, or on the average of several; scores x 100.

    Attributes:
        name: The set.
        scores: The mean score of each system over its runs.
        deviations: Standard deviation over the runs; None of a single one.
        interval: Of the difference, second minus first, over items.
        p_items: Of the permutation test over items.
        p_seeds: Of the t-test over runs; None where neither system has two.
        p_williams: Of Williams' test, where both have one run and are judged by a correlation; else None.
        p: The larger of `p_items` and `p_seeds`, corrected over the sets.
        items: Number of items.
    """

    name: str
    scores: tuple[float, float]
    deviations: tuple[float | None, float | None]
    interval: tuple[float, float]
    p_items: float
    p_seeds: float | None
    p_williams: float | None
    p: float
    items: int

    @property
    def size(self) -> float:
        """Second minus first."""
        return self.scores[1] - self.scores[0]

    @property
    def real(self) -> bool:
        """Whether it is significant at 0.05."""
        return self.p < LEVEL


@dataclass(frozen=True)
class Comparison:
    """A system against another.

    Attributes:
        first: The name of the one that is compared with.
        second: The name of the other.
        measure: What they are judged by.
        confidence: Of the intervals.
        runs: How many runs each has, those of one seed counted once.
        sets: The sets that both have, in the order of the first.
        average: Over these sets; None of a single one.
    """

    first: str
    second: str
    measure: Measure
    confidence: float
    runs: tuple[int, int]
    sets: tuple[Difference, ...]
    average: Difference | None

    def sentence(self) -> str:
        """The outcome in words: of the average, or of the only set."""
        one = self.average or self.sets[0]
        low, high = one.interval
        where = "on the average" if self.average else f"on {one.name}"
        interval = f"{100 * self.confidence:g} % interval {low:+.2f} to {high:+.2f}"
        seeds = f"{self.runs[0]} and {self.runs[1]} runs"
        if not one.real:
            return (
                f"{self.second} and {self.first} cannot be told apart {where}: "
                f"{one.size:+.2f} ({interval}), {_written(one.p)}, {seeds}"
            )
        word = "better" if one.size > 0 else "worse"
        return (
            f"{self.second} is {word} than {self.first} by {abs(one.size):.2f} {where} ({interval}), "
            f"{_written(one.p)}, {seeds}"
        )


def compare(
    first: Runs, second: Runs, *, draws: int = DRAWS, confidence: float = 0.95, seed: int = 0
) -> Comparison:
    """Compare a system with another, set by set and on the average.

    Args:
        first: The one to compare with.
        second: The other.
        draws: Resamples and exchanges of items; the smallest p-value is one over them.
        confidence: Of the intervals.
        seed: Draws them: the same numbers give the same answer.

    Returns:
        The comparison on the sets that both have.

    Raises:
        InputError: They share no set, were judged on different items or by different measures, or a number is
            out of range.

    Example:
        >>> first, second = sts_runs(records, "bert-mini"), sts_runs(records, "simcse")  # doctest: +SKIP
        >>> compare(first, second).sentence()  # doctest: +SKIP
    """
    if draws < 100:
        raise InputError(f"{draws} draws say nothing about a p-value of 0.05", "give 100 or more")
    if not 0 < confidence < 1:
        raise InputError(f"confidence is {confidence:g}", "give a number between 0 and 1, such as 0.95")
    if first.measure != second.measure:
        raise InputError(f"{first.name} is judged by {first.measure}, {second.name} by {second.measure}")
    names = [name for name in first.sets if name in second.sets]
    if not names:
        raise InputError(f"{first.name} and {second.name} share no set", "judge both on the same sets")
    for name in names:
        if first.sets[name].content != second.sets[name].content:
            raise InputError(
                f"{first.name} and {second.name} were judged on different items of {name}",
                "judge both on the same files",
            )
    parts = [
        _Part(name, first, second, draws, np.random.default_rng((seed, place)))
        for place, name in enumerate(names)
    ]
    own = [part.p for part in parts]
    sets = [part.difference(p, confidence) for part, p in zip(parts, holm(own), strict=True)]
    average = _average(parts, confidence) if len(parts) > 1 else None
    runs = (len({*first.seeds}), len({*second.seeds}))
    return Comparison(first.name, second.name, first.measure, confidence, runs, tuple(sets), average)


class _Part:
    """One set of a comparison, with all that the average needs of it."""

    def __init__(
        self, name: str, first: Runs, second: Runs, draws: int, generator: np.random.Generator
    ) -> None:
        self.name, self.seeds = name, (tuple(dict.fromkeys(first.seeds)), tuple(dict.fromkeys(second.seeds)))
        one, other = first.sets[name], second.sets[name]
        self.items = len(one.gold)
        # Each (seeds,), in the order of `seeds`.
        self.scores = (_scores(one, first.measure, first.seeds), _scores(other, first.measure, second.seeds))
        resampled = bootstrap_scores(other, one, first.measure, draws=draws, generator=generator)
        self.resampled = 100 * (resampled[0] - resampled[1])
        observed, exchanged = permutation_differences(
            other, one, first.measure, draws=draws, generator=generator
        )
        self.observed, self.exchanged = 100 * observed, 100 * exchanged
        self.williams = _williams(one, other, first.measure)

    @property
    def p(self) -> float:
        """Uncorrected."""
        return _p(self.observed, self.exchanged, _t_test(*self.scores, *self.seeds))

    def difference(self, p: float, confidence: float) -> Difference:
        """The set by itself."""
        return _difference(
            self.name,
            self.scores,
            self.seeds,
            self.resampled,
            (self.observed, self.exchanged),
            confidence,
            p=p,
            p_williams=self.williams,
            items=self.items,
        )


def _average(parts: Sequence[_Part], confidence: float) -> Difference:
    scores = (
        np.mean([part.scores[0] for part in parts], axis=0),
        np.mean([part.scores[1] for part in parts], axis=0),
    )
    shortest = min(len(part.resampled) for part in parts)
    resampled = np.mean([part.resampled[:shortest] for part in parts], axis=0)
    observed = float(np.mean([part.observed for part in parts]))
    exchanged = np.mean([part.exchanged for part in parts], axis=0)
    seeds = parts[0].seeds
    return _difference(
        "average",
        scores,
        seeds,
        resampled,
        (observed, exchanged),
        confidence,
        p=_p(observed, exchanged, _t_test(*scores, *seeds)),
        p_williams=None,
        items=sum(part.items for part in parts),
    )


def _difference(
    name: str,
    scores: tuple[Double, Double],
    seeds: tuple[Sequence[Seed], Sequence[Seed]],
    resampled: Double,
    permuted: tuple[float, Double],
    confidence: float,
    *,
    p: float,
    p_williams: float | None,
    items: int,
) -> Difference:
    low, high = np.quantile(resampled, [(1 - confidence) / 2, (1 + confidence) / 2])
    deviations = [float(np.std(side, ddof=1)) if len(side) > 1 else None for side in scores]
    return Difference(
        name=name,
        scores=(float(scores[0].mean()), float(scores[1].mean())),
        deviations=(deviations[0], deviations[1]),
        interval=(float(low), float(high)),
        p_items=_permutation_p(*permuted),
        p_seeds=_t_test(*scores, *seeds),
        p_williams=p_williams,
        p=p,
        items=items,
    )


def _scores(runs: SetRuns, measure: Measure, seeds: Sequence[Seed]) -> Double:
    """The score of each seed, as the mean of its runs."""
    scores = 100 * weighted_scores(runs, measure, np.ones((len(runs.gold), 1)))[0]
    own = np.array([[seed == one for seed in seeds] for one in dict.fromkeys(seeds)])  # (seeds, runs)
    return np.asarray(own @ scores / own.sum(axis=1))


def _p(observed: float, exchanged: Double, p_seeds: float | None) -> float:
    p_items = _permutation_p(observed, exchanged)
    return p_items if p_seeds is None else max(p_items, p_seeds)


def _permutation_p(observed: float, exchanged: Double) -> float:
    # Equal differences must count as equal whatever their last bits.
    return float((1 + (np.abs(exchanged) >= abs(observed) - 1e-10).sum()) / (1 + len(exchanged)))


def _t_test(
    first: Double, second: Double, seeds: Sequence[Seed], other_seeds: Sequence[Seed]
) -> float | None:
    """Would other seeds tell the same?"""
    if max(len(first), len(second)) < 2:
        return None
    if min(len(first), len(second)) == 1:
        several, single = (first, second[0]) if len(second) == 1 else (second, first[0])
        return p_of_differences(several - single)
    if None not in seeds and {*seeds} == {*other_seeds}:
        place = {seed: index for index, seed in enumerate(other_seeds)}
        return p_of_differences(second[[place[seed] for seed in seeds]] - first)
    return float(stats.ttest_ind(first, second, equal_var=False).pvalue)


def _williams(one: SetRuns, other: SetRuns, measure: Measure) -> float | None:
    if measure == "accuracy" or len(one.predictions) > 1 or len(other.predictions) > 1:
        return None
    sides = [one.predictions[0], other.predictions[0], one.gold]
    if measure == "spearman":
        sides = [stats.rankdata(side) for side in sides]
    table = np.clip(np.corrcoef(sides), -1, 1)
    return williams(float(table[0, 2]), float(table[1, 2]), float(table[0, 1]), len(one.gold))


def _written(p: float) -> str:
    return f"p = {p:.2g}" if p >= 0.001 else "p < 0.001"
