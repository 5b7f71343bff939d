"""Systems from the best to the worst, and which of them cannot be told apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb

import numpy as np

from sentemb.evaluation.comparison import DRAWS, Comparison, Difference, compare_all
from sentemb.evaluation.measures import measure
from sentemb.evaluation.resampling import bootstrap
from sentemb.evaluation.sampled import generator_of
from sentemb.evaluation.significance import LEVEL, holm
from sentemb.evaluation.systems import System

_DRAWS_PER_PAIR = 100
_TELLING = 100  # queries


@dataclass(frozen=True)
class Pair:
    """A system that scores higher, another, and whether that is more than chance.

    Attributes:
        better: The name of the one.
        worse: The name of the other.
        difference: Of the scores, worse minus better, with its p-value after Holm's correction over all
            pairs.
        agree: Whether every kind of query says so, and each of a hundred queries or more beyond chance by
            itself. Queries that share more words with the documents favour keyword search: where the kinds do
            not agree, it depends on the users.
    """

    better: str
    worse: str
    difference: Difference
    agree: bool

    @property
    def real(self) -> bool:
        """Whether the one is better: it is so beyond chance, and whatever the kind of query."""
        return self.agree and self.difference.p < LEVEL


@dataclass(frozen=True)
class Ranking:
    """Systems in their order.

    Attributes:
        names: The best first.
        scores: The mean of each over the sets, x 100.
        intervals: Of these scores, by the bootstrap over the items of each set, or over their clusters.
        sets: The scores on each set, by system and set.
        places: From 1; systems that cannot be told apart from the first of a place share it.
        pairs: Each two of them, the better first.
    """

    names: tuple[str, ...]
    scores: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    sets: Mapping[str, Mapping[str, float]]
    places: Mapping[str, int]
    pairs: tuple[Pair, ...]

    def pair(self, one: str, other: str) -> Pair:
        """What is known of two systems."""
        return next(pair for pair in self.pairs if {pair.better, pair.worse} == {one, other})


def rank(
    systems: Sequence[System],
    *,
    draws: int = DRAWS,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> Ranking:
    """Rank systems by their mean score over the sets, each set counting the same.

    Args:
        systems: Of equal sets.
        draws: Resamples and exchanges of items; at least 100 for each two systems.
        confidence: Of the intervals.
        seed: Of the draws.
        progress: Takes the stage and how many of how many systems are compared.

    Returns:
        The ranking.
    """
    sets = {
        system.name: {
            name: 100 * measure(system.measure, one.predictions[0], one.gold)
            for name, one in system.sets.items()
        }
        for system in systems
    }
    scores = {name: float(np.mean([*own.values()])) for name, own in sets.items()}
    # With fewer, the least p-value that there can be would not survive the correction.
    draws = max(draws, _DRAWS_PER_PAIR * comb(len(systems), 2))
    ordered = sorted(systems, key=lambda system: -scores[system.name])
    compared: list[tuple[System, Comparison]] = []
    for number, first in enumerate(ordered[:-1]):
        found = compare_all(first, ordered[number + 1 :], draws=draws, confidence=confidence, seed=seed)
        compared.extend((first, one) for one in found)
        if progress is not None:
            progress("comparing", number + 1, len(ordered) - 1)
    corrected = holm([one.headline.p for _, one in compared])
    pairs = tuple(
        Pair(
            first.name,
            one.second,
            replace(one.headline, p=p),
            all(_says_so(each) for each in one.sets),
        )
        for (first, one), p in zip(compared, corrected, strict=True)
    )
    names = tuple(system.name for system in ordered)
    return Ranking(
        names, scores, _intervals(ordered, draws, confidence, seed), sets, _places(names, pairs), pairs
    )


def _says_so(one: Difference) -> bool:
    """Whether a kind of query prefers the first; that of few queries has little to say by itself."""
    return one.size <= 0 and (one.items < _TELLING or one.p_items < LEVEL)


def _places(names: Sequence[str], pairs: Sequence[Pair]) -> dict[str, int]:
    """The place of each: that of the first before it that it cannot be told apart from, or its own."""
    real = {(pair.better, pair.worse) for pair in pairs if pair.real}
    places: dict[str, int] = {}
    first = names[0]
    for number, name in enumerate(names, start=1):
        if (first, name) in real:
            first = name
        places[name] = number if name == first else places[first]
    return places


def _intervals(
    systems: Sequence[System], draws: int, confidence: float, seed: int
) -> dict[str, tuple[float, float]]:
    """Of the mean scores over the sets, all systems on the same resamples."""
    parts = []
    for number, (name, one) in enumerate(systems[0].sets.items()):
        predictions = np.concatenate([system.sets[name].predictions[:1] for system in systems])
        generator = generator_of(one, seed, number)
        parts.append(
            bootstrap(
                systems[0].measure,
                predictions,
                one.gold,
                draws=draws,
                generator=generator,
                clusters=one.clusters,
            )
        )
    means = 100 * np.mean(parts, axis=0)  # (systems, draws)
    ends = np.nanquantile(means, [(1 - confidence) / 2, (1 + confidence) / 2], axis=1)
    return {system.name: (float(low), float(high)) for system, low, high in zip(systems, *ends, strict=True)}
