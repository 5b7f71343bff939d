"""Compare two systems on the same items: how far apart they are, and how sure that is, also in words.

Two things make a difference uncertain, and they are kept apart:

- the items: another sample of sentence pairs would give other scores. The interval is the paired bootstrap's
  over items, the p-value a permutation test's, both of the mean score over the runs of a system.
- the seeds: training again would give another encoder. The p-value is a t-test's over the scores of the runs:
  paired where both systems have the same seeds, Welch's where they have others, and of one sample where one
  of them has a single run.

A difference is significant only if both say so: its p-value is the larger one. Over the sets of a suite it is
corrected by Holm's procedure; the average over the sets is one comparison by itself.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter
from scipy import stats

from sentemb._files import write_bytes
from sentemb.errors import InputError
from sentemb.evaluation.measures import CORRELATIONS
from sentemb.evaluation.measures import measure as measure_of
from sentemb.evaluation.resampling import bootstrap, exchange, item_scores
from sentemb.evaluation.retrieval.metrics import METRICS as RETRIEVAL_METRICS
from sentemb.evaluation.statistics import FEWEST, LEVEL, Power, power
from sentemb.evaluation.systems import Seed, SetRuns, System
from sentemb.limits import refuse_above

DRAWS = 2000
_MANY = 1_000_000  # larger counts of missing items are not spelled out
_ONE = {"queries": "query"}
CONFIDENCE = 0.95
"""Level of intervals over items or seeds."""
Double = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """The difference of two systems on one data set, or on the average of several; scores x 100."""

    name: str  # the data set
    scores: tuple[float, float]  # the mean score of each system over its runs
    deviations: tuple[float | None, float | None]  # over the runs; None of a single one
    interval: tuple[float, float] | None  # of second minus first, over items; None where not requested
    p_items: float  # of the permutation test over items
    p_seeds: float | None  # of the t-test over runs; None where neither system has two
    p_williams: float | None  # of Williams' test, where both have one run and a correlation; else None
    p: float  # the larger of `p_items` and `p_seeds`, corrected over the sets
    items: int  # number of items
    power_items: Power | None = None  # of the permutation test; None where too few items differ
    power_seeds: Power | None = None  # of the t-test; None where neither system has two runs

    @property
    def size(self) -> float:
        """Second minus first."""
        return self.scores[1] - self.scores[0]

    @property
    def real(self) -> bool:
        """True if it is significant at 0.05."""
        return self.p < LEVEL

    def detectable(self, level: float = LEVEL) -> float | None:
        """Return the smallest true difference that both tests show with 80 % power, each by itself."""
        powers = [one for one in (self.power_items, self.power_seeds) if one is not None]
        return None if self.power_items is None else max(one.detectable(level=level) for one in powers)

    def missing(self, level: float = LEVEL) -> tuple[int | None, int | None]:
        """Return how many more items, and seeds, would show the present difference with 80 % power.

        None where the test has decided, or no number would do.
        """
        found: list[int | None] = []
        for one, p in ((self.power_items, self.p_items), (self.power_seeds, self.p_seeds)):
            needed = None
            if one is not None and p is not None and p >= level:
                needed = one.needed(abs(self.size), level=level)
            found.append(None if one is None or needed is None else max(1, needed - one.count))
        return found[0], found[1]


@dataclass(frozen=True)
class Comparison:
    """A comparison of two systems."""

    first: str  # name of the baseline
    second: str  # name of the system that is compared with it
    measure: str  # the metric
    confidence: float  # of the intervals
    runs: tuple[int, int]  # how many each has, those of one seed counted once
    sets: tuple[Difference, ...]  # the data sets that both have, in the order of the first
    average: Difference | None  # over these sets; None of a single one

    @property
    def headline(self) -> Difference:
        """The average, or the only data set."""
        return self.average or self.sets[0]

    def sentence(self) -> str:
        """Return the outcome of the headline in words."""
        one = self.headline
        where = "on the average" if self.average else f"on {one.name}"
        interval = ""
        if one.interval is not None:
            low, high = one.interval
            interval = f" ({100 * self.confidence:g} % interval {low:+.2f} to {high:+.2f})"
        end = f"{interval}, {shown_p(one.p)}, {self.runs[0]} and {self.runs[1]} runs"
        if not one.real:
            return f"{self.second} and {self.first} do not differ significantly {where}: {one.size:+.2f}{end}"
        word = "better" if one.size > 0 else "worse"
        return f"{self.second} is {word} than {self.first} by {abs(one.size):.2f} {where}{end}"

    def power_sentence(self) -> str:
        """Return what the items and seeds of the headline could have shown, and how many would decide."""
        one, kind = self.headline, "queries" if self.measure in RETRIEVAL_METRICS else "items"
        if one.power_items is None:
            return f"Fewer than {FEWEST} of the {one.items:,} {kind} differ, which cannot show any difference"
        shown = f"{one.items:,} {kind} could have shown a difference of {one.power_items.detectable():.2f}"
        if one.power_seeds is not None:
            several = "seed" if one.power_seeds.count == 1 else "seeds"
            shown += f", {one.power_seeds.count} {several} one of {one.power_seeds.detectable():.2f}"
        shown = f"With 80 % power, {shown}"
        more = amounts(one.missing(), (kind, "seeds"), "more ")
        if one.real or not more:
            return shown
        return (
            f"{shown}; if the true difference is the present {abs(one.size):.2f}, {' and '.join(more)} would "
            "decide"
        )


def amounts(counts: Sequence[int | None], kinds: Sequence[str], more: str = "") -> list[str]:
    """Return how many of each kind are missing, in two digits, as text."""
    return [
        f"{_about(count)} {more}{kind if count > 1 else _ONE.get(kind, kind.removesuffix('s'))}"
        for count, kind in zip(counts, kinds, strict=True)
        if count
    ]


def _about(count: int) -> str:
    if count > _MANY:
        return f"over {_MANY:,}"
    return f"about {round(count, 1 - (len(str(count)) - 1)):,}" if count > 99 else f"{count}"


def shown_p(p: float) -> str:
    """Return a p-value as text."""
    return f"p = {p:.2g}" if p >= 0.001 else "p < 0.001"


def compare(first: System, second: System, **options: Any) -> Comparison:
    """Compare a system with another, set by set and on the average.

    Args:
        first: The baseline.
        second: The other system.
        options: `draws`, `confidence`, `seed` and `intervals` of `compare_all`.

    Returns:
        The comparison on the data sets that both have.

    Raises:
        InputError: As in `compare_all`.

    Example:
        >>> first, second = system_of(records, "bert-mini"), system_of(records, "simcse")  # doctest: +SKIP
        >>> compare(first, second).sentence()  # doctest: +SKIP
    """
    return compare_all(first, [second], **options)[0]


def compare_all(
    first: System,
    others: Sequence[System],
    *,
    draws: int = DRAWS,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    intervals: bool = True,
    cache: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Comparison]:
    """Compare systems with one baseline; all share their draws, which is much faster than one by one.

    Args:
        first: The baseline.
        others: The other systems.
        draws: Resamples and exchanges of items; the smallest p-value is one over them.
        confidence: Of the intervals.
        seed: Of the draws.
        intervals: Compute the bootstrap intervals, which take most of the time.
        cache: Folder in which comparisons are kept and looked up.
        progress: Called with the number of finished data sets, and of all.

    Returns:
        A comparison for each of the others, on the data sets that both have.

    Raises:
        InputError: Two share no data set, were evaluated on different items or by different metrics, or a
            number is out of range.

    Example:
        >>> records = load_records("records")
        >>> first, second = (system_of(records, name) for name in ("static-mini", "all-MiniLM-L6-v2"))
        >>> (comparison,) = compare_all(first, [second], draws=200)
        >>> comparison.second
        'all-MiniLM-L6-v2'
    """
    check_draws(draws, confidence)
    settings = (draws, confidence, seed, intervals)
    found: dict[int, Comparison] = {}
    files: dict[int, Path] = {}
    samples: dict[int, list[_Sample]] = {}
    # A set's draws depend on its place among the sets that both systems have, unless it shares clusters.
    jobs: dict[tuple[int, str], list[int]] = {}
    for index, other in enumerate(others):
        names = _shared_sets(first, other)
        if cache is not None:
            files[index] = path = cache / f"{_key(first, other, names, settings)}.json"
            if path.is_file():
                comparison = TypeAdapter(Comparison).validate_json(path.read_bytes())
                found[index] = replace(comparison, first=first.name, second=other.name)
                continue
        samples[index] = []
        for place, name in enumerate(names):
            jobs.setdefault((place, name), []).append(index)
    for done, ((place, name), indexes) in enumerate(sorted(jobs.items()), start=1):
        generator = generator_of(first.sets[name], seed, place)
        systems = [first, *(others[index] for index in indexes)]
        drawn = _draw_set(name, systems, draws, generator, intervals=intervals)
        for index, sample in zip(indexes, drawn, strict=True):
            samples[index].append(sample)
        if progress is not None:
            progress(done, len(jobs))
    for index, own in samples.items():
        found[index] = _comparison(first, others[index], own, confidence)
        if index in files:
            write_bytes(files[index], TypeAdapter(Comparison).dump_json(found[index]))
    return [found[index] for index in range(len(others))]


def check_draws(draws: int, confidence: float) -> None:
    """Raise InputError if numbers of draws or confidence are out of range."""
    if draws < 100:
        raise InputError(f"{draws} draws are too few to test at p < 0.05", "use 100 or more")
    refuse_above("draws", draws, f"draws={draws:,}")
    if not 0 < confidence < 1:
        raise InputError(f"confidence is {confidence:g}", "use a number between 0 and 1, such as 0.95")


def _shared_sets(first: System, second: System) -> list[str]:
    if first.measure != second.measure:
        raise InputError(
            f"the systems have different measures: {first.name} has {first.measure}, {second.name} "
            f"has {second.measure}"
        )
    names = [name for name in first.sets if name in second.sets]
    if not names:
        raise InputError(
            f"{first.name} and {second.name} do not share a data set", "evaluate both on the same sets"
        )
    for name in names:
        if first.sets[name].content != second.sets[name].content:
            raise InputError(
                f"{first.name} and {second.name} were evaluated on different items of {name}",
                "evaluate both on the same files",
            )
    return names


class _Sample(NamedTuple):
    """Two systems on one set, or on the average of several; scores x 100."""

    name: str
    scores: tuple[Double, Double]  # of each seed
    resampled: Double  # differences on the resamples that have one
    observed: float
    exchanged: Double  # differences under each exchange
    p_williams: float | None
    items: int
    error: float  # standard error of the difference over items
    power: Power | None


def generator_of(one: SetRuns, seed: int, place: int) -> np.random.Generator:
    """Return the random numbers of a set, which sets that share clusters have in common."""
    return np.random.default_rng((seed, place if one.clusters is None else 0))


def _draw_set(
    name: str, systems: Sequence[System], draws: int, generator: np.random.Generator, *, intervals: bool
) -> list[_Sample]:
    """Draw once for all systems on one set; the first is compared with each of the others."""
    sets = [system.sets[name] for system in systems]
    measure, gold = systems[0].measure, sets[0].gold
    predictions = np.concatenate([one.predictions for one in sets])
    ends = np.cumsum([len(one.predictions) for one in sets])
    rows = [np.arange(end - len(one.predictions), end) for end, one in zip(ends, sets, strict=True)]
    drawing: dict[str, Any] = {"draws": draws, "generator": generator}
    drawing |= {"classes": sets[0].classes, "clusters": sets[0].clusters}
    resampled = np.empty((len(systems), 0))
    if intervals:
        drawn = bootstrap(measure, predictions, gold, **drawing)
        resampled = np.stack([drawn[own].mean(axis=0) for own in rows])
    pairs = []
    for own in rows[1:]:  # surplus runs are skipped, and a single one stands against each of the other's
        sizes = (len(own), len(rows[0]))
        count = max(sizes) if min(sizes) == 1 else min(sizes)
        pairs.append((np.resize(own, count), np.resize(rows[0], count)))
    observed, exchanged = exchange(measure, predictions, gold, pairs, **drawing)
    scores = [_seed_scores(system, name) for system in systems]
    items = item_scores(measure, predictions, gold)
    samples = []
    for index in range(1, len(systems)):
        differences = 100 * (resampled[index] - resampled[0])
        difference, null = 100 * float(observed[index - 1]), 100 * exchanged[index - 1]
        one, other = pairs[index - 1]
        gains = None if items is None else 100 * (items[one] - items[other]).mean(axis=0)
        error = _error_of_exchanges(null, difference, len(gold))
        if gains is not None and len(gains) > 1:
            error = float(gains.std(ddof=1)) / math.sqrt(len(gains))
        samples.append(
            _Sample(
                name,
                (scores[0], scores[index]),
                differences[np.isfinite(differences)],
                difference,
                null,
                _p_williams(sets[0], sets[index], measure),
                len(gold),
                error,
                _power_of_items(error, len(gold), gains),
            )
        )
    return samples


def _error_of_exchanges(exchanged: Double, observed: float, items: int) -> float:
    """Return the standard error of a difference. Exchanges of items take what was observed for noise too."""
    return math.sqrt(max(float(np.var(exchanged)) - observed**2 / items, 0.0))


def _power_of_items(error: float, items: int, gains: Double | None = None) -> Power | None:
    """Return what a test of items can show, of their own gains if their mean is the difference."""
    if error == 0 or (items if gains is None else np.count_nonzero(gains)) < FEWEST:
        return None
    return Power(items, error, items - 1) if gains is None else power(gains)


def _seed_scores(system: System, name: str) -> Double:
    """Return the score of each seed x 100, as the mean of its runs; shape (seeds,)."""
    one = system.sets[name]
    scores = [100 * measure_of(system.measure, run, one.gold, classes=one.classes) for run in one.predictions]
    own = np.array([[seed == each for seed in system.seeds] for each in dict.fromkeys(system.seeds)])
    return np.asarray(own @ np.array(scores) / own.sum(axis=1))


def _p_williams(one: SetRuns, other: SetRuns, measure: str) -> float | None:
    if measure not in CORRELATIONS or len(one.predictions) > 1 or len(other.predictions) > 1:
        return None
    sides = [one.predictions[0], other.predictions[0], one.gold]
    if measure == "spearman":
        sides = [stats.rankdata(side) for side in sides]
    table = np.clip(np.corrcoef(sides), -1, 1)
    return williams(float(table[0, 2]), float(table[1, 2]), float(table[0, 1]), len(one.gold))


def _comparison(first: System, second: System, samples: Sequence[_Sample], confidence: float) -> Comparison:
    seeds = tuple(dict.fromkeys(first.seeds)), tuple(dict.fromkeys(second.seeds))
    own = [_difference(sample, seeds, confidence) for sample in samples]
    corrected = holm([one.p for one in own])
    clustered = any(one.clusters is not None for one in first.sets.values())
    return Comparison(
        first.name,
        second.name,
        first.measure,
        confidence,
        runs=(len(seeds[0]), len(seeds[1])),
        sets=tuple(replace(one, p=p) for one, p in zip(own, corrected, strict=True)),
        average=_difference(_average(samples, clustered), seeds, confidence) if len(samples) > 1 else None,
    )


def _average(samples: Sequence[_Sample], clustered: bool) -> _Sample:
    """Return the mean over several sets, as a set by itself."""
    shortest = min(len(one.resampled) for one in samples)
    observed, items = float(np.mean([one.observed for one in samples])), sum(one.items for one in samples)
    exchanged = np.mean([one.exchanged for one in samples], axis=0)
    error = math.hypot(*(one.error for one in samples)) / len(samples)
    if clustered:  # the sets have the same items
        error = _error_of_exchanges(exchanged, observed, max(one.items for one in samples))
    return _Sample(
        "average",
        (
            np.mean([one.scores[0] for one in samples], axis=0),
            np.mean([one.scores[1] for one in samples], axis=0),
        ),
        np.mean([one.resampled[:shortest] for one in samples], axis=0),
        observed,
        exchanged,
        None,
        items,
        error,
        _power_of_items(error, items),
    )


def _difference(
    sample: _Sample, seeds: tuple[Sequence[Seed], Sequence[Seed]], confidence: float
) -> Difference:
    """Return the difference on one set, without a correction."""
    first, second = sample.scores
    interval = None
    if len(sample.resampled):
        low, high = np.quantile(sample.resampled, [(1 - confidence) / 2, (1 + confidence) / 2])
        interval = (float(low), float(high))
    # Equal differences must count as equal whatever their last bits. The observed one is an exchange too.
    reached = np.abs(sample.exchanged) >= abs(sample.observed) - 1e-10
    p_items = float((1 + reached.sum()) / (1 + len(sample.exchanged)))
    p_seeds = p_of_runs(first, second, *seeds)
    powers = sample.power, power_of_runs(first, second, *seeds)
    deviations = [float(np.std(scores, ddof=1)) if len(scores) > 1 else None for scores in sample.scores]
    p, tests = p_items if p_seeds is None else max(p_items, p_seeds), (p_items, p_seeds, sample.p_williams)
    scores = (float(first.mean()), float(second.mean()))
    return Difference(
        sample.name, scores, (deviations[0], deviations[1]), interval, *tests, p, sample.items, *powers
    )


def _key(first: System, second: System, names: Sequence[str], settings: tuple[object, ...]) -> str:
    """Return a checksum of everything that decides a comparison but the systems' names."""
    digest = hashlib.sha256(repr(("power", settings, first.measure, first.seeds, second.seeds)).encode())
    for name in names:
        one, other = first.sets[name], second.sets[name]
        digest.update(f"{name} {one.content} {one.classes}".encode())
        if one.clusters is not None:
            digest.update(one.clusters.of.tobytes())
        digest.update(one.predictions.tobytes() + other.predictions.tobytes())
    return digest.hexdigest()[:32]


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
    if (paired := _differences_of_runs(first, second, seeds, other_seeds)) is not None:
        return p_of_differences(paired)
    return float(stats.ttest_ind(first, second, equal_var=False).pvalue)


def power_of_runs(
    first: Double, second: Double, seeds: Sequence[Seed], other_seeds: Sequence[Seed]
) -> Power | None:
    """Return what the t-test of `p_of_runs` can show; None where both systems have a single run."""
    if max(len(first), len(second)) < 2:
        return None
    if (paired := _differences_of_runs(first, second, seeds, other_seeds)) is not None:
        return Power(len(paired), float(np.std(paired, ddof=1)) / math.sqrt(len(paired)), len(paired) - 1)
    parts = [np.var(scores, ddof=1) / len(scores) for scores in (first, second)]
    whole, degrees = sum(parts), [len(scores) - 1 for scores in (first, second)]
    df = (
        whole**2 / sum(part**2 / own for part, own in zip(parts, degrees, strict=True))
        if whole
        else sum(degrees)
    )
    return Power(min(len(first), len(second)), math.sqrt(whole), float(df))


def _differences_of_runs(
    first: Double, second: Double, seeds: Sequence[Seed], other_seeds: Sequence[Seed]
) -> Double | None:
    """Return the differences that are tested over seeds; None where the runs are not paired."""
    if min(len(first), len(second)) == 1:
        return np.asarray(second - first)
    if None not in seeds and {*seeds} == {*other_seeds}:
        place = {seed: index for index, seed in enumerate(other_seeds)}
        return np.asarray(second[[place[seed] for seed in seeds]] - first)
    return None


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
