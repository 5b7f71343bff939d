"""Rankings of systems, and which of them differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from sentemb.evaluation.choosing.calibration import Double, Estimate, Prediction
from sentemb.evaluation.comparison import DRAWS, Comparison, compare_all, generator_of
from sentemb.evaluation.measures import measure
from sentemb.evaluation.resampling import bootstrap
from sentemb.evaluation.significance import LEVEL, holm
from sentemb.evaluation.systems import System

_DRAWS_PER_PAIR = 100


@dataclass(frozen=True)
class Pair:
    """Two systems, and whether the first is better; differences in points of the score x 100."""

    better: str  # the one that scores higher
    worse: str
    difference: float
    interval: tuple[float, float]  # a confidence interval over items, or a prediction interval
    differs: bool  # significantly
    p: float | None = None  # of the permutation test, Holm-corrected over all pairs; None of a prediction
    detectable: float | None = None  # the smallest difference a prediction could have shown; None of a test


@dataclass(frozen=True)
class Ranking:
    """Systems, the best first, and each two of them, the better first."""

    names: tuple[str, ...]
    pairs: tuple[Pair, ...]

    @property
    def places(self) -> dict[str, int]:
        """The place of each, from 1; a system shares the place of the first that it does not differ from."""
        differ = {(pair.better, pair.worse) for pair in self.pairs if pair.differs}
        places: dict[str, int] = {}
        first = self.names[0]
        for number, name in enumerate(self.names, start=1):
            if (first, name) in differ:
                first = name
            places[name] = number if name == first else places[first]
        return places

    def pair(self, one: str, other: str) -> Pair:
        """Return what is known of two systems."""
        return next(pair for pair in self.pairs if {pair.better, pair.worse} == {one, other})


def set_scores(system: System) -> dict[str, float]:
    """Return the score x 100 of a system on each set."""
    return {
        name: 100 * measure(system.measure, one.predictions[0], one.gold) for name, one in system.sets.items()
    }


def rank_measured(
    systems: Sequence[System],
    *,
    draws: int = DRAWS,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> Ranking:
    """Rank systems with the same sets by their mean score over queries with qrels, or graded pairs."""
    scores = {system.name: float(np.mean([*set_scores(system).values()])) for system in systems}
    # With fewer, the smallest possible p-value would not survive the correction.
    draws = max(draws, _DRAWS_PER_PAIR * comb(len(systems), 2))
    ordered = sorted(systems, key=lambda system: -scores[system.name])
    compared: list[tuple[System, Comparison]] = []
    for number, first in enumerate(ordered[:-1]):
        found = compare_all(first, ordered[number + 1 :], draws=draws, confidence=confidence, seed=seed)
        compared.extend((first, one) for one in found)
        if progress is not None:
            progress("comparing", number + 1, len(ordered) - 1)
    corrected = holm([one.headline.p for _, one in compared])
    pairs = []
    for (first, one), p in zip(compared, corrected, strict=True):
        low, high = one.headline.interval or (np.nan, np.nan)
        size = -one.headline.size
        pairs.append(Pair(first.name, one.second, size, (-high, -low), bool(p < LEVEL), p=float(p)))
    return Ranking(tuple(system.name for system in ordered), tuple(pairs))


def rank_predicted(
    names: Sequence[str], prediction: Prediction, judged: Double | None = None, *, confidence: float
) -> Ranking:
    """Rank systems by their predicted score on real queries.

    Scores of queries with qrels, NDCG@10 x 100 of shape (systems, queries), update the prediction.
    """
    estimates: dict[tuple[int, int], Estimate] = {}
    for first, second in combinations(range(len(names)), 2):
        estimate = prediction.difference(first, second)
        if judged is not None:
            apart = judged[first] - judged[second]
            estimate = estimate.updated(apart, prediction.query_variance(first, second))
        estimates[first, second] = estimate
        estimates[second, first] = Estimate(-estimate.mean, estimate.deviation)
    # The mean lead over all others orders them, whether judged queries moved each pair or not.
    leads = [
        sum(estimates[own, other].mean for other in range(len(names)) if other != own)
        for own in range(len(names))
    ]
    order = sorted(range(len(names)), key=lambda place: -leads[place])
    pairs = []
    for first, second in combinations(order, 2):
        if estimates[first, second].mean < 0:
            first, second = second, first  # judged queries of this pair say otherwise
        one = estimates[first, second]
        pairs.append(
            Pair(
                names[first],
                names[second],
                one.mean,
                one.interval(confidence),
                one.is_called,
                detectable=one.smallest_called,
            )
        )
    return Ranking(tuple(names[place] for place in order), tuple(pairs))


def score_intervals(
    systems: Sequence[System], *, draws: int, confidence: float, seed: int
) -> dict[str, tuple[float, float]]:
    """Return the interval of each system's mean score over the sets, all on the same resamples."""
    parts = []
    for number, (name, one) in enumerate(systems[0].sets.items()):
        predictions = np.concatenate([system.sets[name].predictions[:1] for system in systems])
        generator = generator_of(one, seed, number)
        parts.append(bootstrap(systems[0].measure, predictions, one.gold, draws=draws, generator=generator))
    means = 100 * np.mean(parts, axis=0)  # (systems, draws)
    ends = np.nanquantile(means, [(1 - confidence) / 2, (1 + confidence) / 2], axis=1)
    return {system.name: (float(low), float(high)) for system, low, high in zip(systems, *ends, strict=True)}
