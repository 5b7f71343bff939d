"""The samples of a comparison, set by set: scores, and differences on resamples and under exchanges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from sentemb.evaluation.measures import measure as measure_of
from sentemb.evaluation.resampling import CORRELATIONS, bootstrap, exchange
from sentemb.evaluation.significance import williams
from sentemb.evaluation.systems import SetRuns, System

Double = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SampledSet:
    """One set of a comparison, with all that the average needs of it; scores x 100.

    `scores` are those of each seed, `resampled` the differences on the resamples that have one, `exchanged`
    those under each exchange.
    """

    name: str
    scores: tuple[Double, Double]
    resampled: Double
    observed: float
    exchanged: Double
    p_williams: float | None
    items: int


def sample_sets(
    first: System,
    others: Sequence[System],
    wanted: Mapping[int, Sequence[str]],
    draws: int,
    seed: int,
    *,
    intervals: bool,
    progress: Callable[[int, int], None] | None,
) -> dict[int, list[SampledSet]]:
    """The sets of each comparison that is wanted, by the index of the other system."""
    # A set's draws depend on its place among the sets that both systems have, but where it shares clusters.
    jobs: dict[tuple[int, str], list[int]] = {}
    for index, names in wanted.items():
        for place, name in enumerate(names):
            jobs.setdefault((place, name), []).append(index)
    parts: dict[int, list[SampledSet]] = {index: [] for index in wanted}
    for done, ((place, name), indexes) in enumerate(sorted(jobs.items()), start=1):
        generator = generator_of(first.sets[name], seed, place)
        some = [others[index] for index in indexes]
        found = _sample(name, first, some, draws, generator, intervals=intervals)
        for index, part in zip(indexes, found, strict=True):
            parts[index].append(part)
        if progress is not None:
            progress(done, len(jobs))
    return parts


def generator_of(one: SetRuns, seed: int, place: int) -> np.random.Generator:
    """Draws for a set: its own, or the same for all that share clusters."""
    return np.random.default_rng((seed, place if one.clusters is None else 0))


def _sample(
    name: str,
    first: System,
    others: Sequence[System],
    draws: int,
    generator: np.random.Generator,
    *,
    intervals: bool,
) -> list[SampledSet]:
    """Draw once for all systems on one set."""
    systems = [first, *others]
    sets = [system.sets[name] for system in systems]
    gold, classes, clusters = sets[0].gold, sets[0].classes, sets[0].clusters
    predictions = np.concatenate([one.predictions for one in sets])
    ends = np.cumsum([len(one.predictions) for one in sets])
    rows = [np.arange(end - len(one.predictions), end) for end, one in zip(ends, sets, strict=True)]
    resampled = np.empty((len(systems), 0))
    if intervals:
        drawn = bootstrap(
            first.measure,
            predictions,
            gold,
            draws=draws,
            generator=generator,
            classes=classes,
            clusters=clusters,
        )
        resampled = np.stack([drawn[some].mean(axis=0) for some in rows])
    pairs = [_paired(own, rows[0]) for own in rows[1:]]
    observed, exchanged = exchange(
        first.measure,
        predictions,
        gold,
        pairs,
        draws=draws,
        generator=generator,
        classes=classes,
        clusters=clusters,
    )
    scores = [_scores(system, name) for system in systems]
    parts = []
    for index in range(1, len(systems)):
        differences = 100 * (resampled[index] - resampled[0])
        parts.append(
            SampledSet(
                name=name,
                scores=(scores[0], scores[index]),
                resampled=differences[np.isfinite(differences)],
                observed=100 * float(observed[index - 1]),
                exchanged=100 * exchanged[index - 1],
                p_williams=_williams(sets[0], sets[index], first.measure),
                items=len(gold),
            )
        )
    return parts


def _paired(
    first: npt.NDArray[np.intp], second: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Run against run: surplus runs are left out, and a single one stands against each of the other's."""
    count = min(len(first), len(second))
    if count == 1:
        count = max(len(first), len(second))
        return np.resize(first, count), np.resize(second, count)
    return first[:count], second[:count]


def _scores(system: System, name: str) -> Double:
    """The score of each seed x 100, as the mean of its runs."""
    one = system.sets[name]
    scores = [100 * measure_of(system.measure, run, one.gold, classes=one.classes) for run in one.predictions]
    own = np.array([[seed == each for seed in system.seeds] for each in dict.fromkeys(system.seeds)])
    return np.asarray(own @ np.array(scores) / own.sum(axis=1))  # (seeds,)


def average_of(parts: Sequence[SampledSet]) -> SampledSet:
    """The mean over several sets, as a set by itself."""
    shortest = min(len(part.resampled) for part in parts)
    return SampledSet(
        name="average",
        scores=(
            np.mean([part.scores[0] for part in parts], axis=0),
            np.mean([part.scores[1] for part in parts], axis=0),
        ),
        resampled=np.mean([part.resampled[:shortest] for part in parts], axis=0),
        observed=float(np.mean([part.observed for part in parts])),
        exchanged=np.mean([part.exchanged for part in parts], axis=0),
        p_williams=None,
        items=sum(part.items for part in parts),
    )


def _williams(one: SetRuns, other: SetRuns, measure: str) -> float | None:
    if measure not in CORRELATIONS or len(one.predictions) > 1 or len(other.predictions) > 1:
        return None
    sides = [one.predictions[0], other.predictions[0], one.gold]
    if measure == "spearman":
        sides = [stats.rankdata(side) for side in sides]
    table = np.clip(np.corrcoef(sides), -1, 1)
    return williams(float(table[0, 2]), float(table[1, 2]), float(table[0, 1]), len(one.gold))
