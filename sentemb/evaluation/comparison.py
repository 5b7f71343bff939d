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

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from sentemb._files import write_bytes
from sentemb.errors import InputError
from sentemb.evaluation.sampled import SampledSet, average_of, sample_sets
from sentemb.evaluation.significance import LEVEL, Seed, holm, p_of_exchanges, p_of_runs
from sentemb.evaluation.systems import System
from sentemb.limits import refuse_above

DRAWS = 2000


@dataclass(frozen=True)
class Difference:
    """A system against another on one data set, or on the average of several; scores x 100.

    Attributes:
        name: The data set.
        scores: The mean score of each system over its runs.
        deviations: Standard deviation over the runs; None of a single one.
        interval: Of the difference, second minus first, over items; None where it was not asked for.
        p_items: Of the permutation test over items.
        p_seeds: Of the t-test over runs; None where neither system has two.
        p_williams: Of Williams' test, where both have one run and are compared by a correlation; else None.
        p: The larger of `p_items` and `p_seeds`, corrected over the sets.
        items: Number of items.

    Example:
        >>> records = load_records("records")
        >>> first, second = (system_of(records, name) for name in ("static-mini", "all-MiniLM-L6-v2"))
        >>> difference = compare(first, second, draws=200).sets[0]
        >>> difference.name, difference.items
        ('pairs', 30)
    """

    name: str
    scores: tuple[float, float]
    deviations: tuple[float | None, float | None]
    interval: tuple[float, float] | None
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
        measure: The metric that they are compared by.
        confidence: Of the intervals.
        runs: How many runs each has, those of one seed counted once.
        sets: The data sets that both have, in the order of the first.
        average: Over these sets; None of a single one.

    Example:
        >>> records = load_records("records")
        >>> first, second = (system_of(records, name) for name in ("static-mini", "all-MiniLM-L6-v2"))
        >>> len(compare(first, second, draws=200).sets)
        1
    """

    first: str
    second: str
    measure: str
    confidence: float
    runs: tuple[int, int]
    sets: tuple[Difference, ...]
    average: Difference | None

    @property
    def headline(self) -> Difference:
        """The average, or the only data set."""
        return self.average or self.sets[0]

    def sentence(self) -> str:
        """The outcome in words: of the average, or of the only data set."""
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


def compare(
    first: System,
    second: System,
    *,
    draws: int = DRAWS,
    confidence: float = 0.95,
    seed: int = 0,
    intervals: bool = True,
) -> Comparison:
    """Compare a system with another, set by set and on the average.

    Args:
        first: The one to compare with.
        second: The other.
        draws: Resamples and exchanges of items; the smallest p-value is one over them.
        confidence: Of the intervals.
        seed: Draws them: the same numbers give the same answer.
        intervals: Whether the bootstrap, the greater part of the time, is wanted.

    Returns:
        The comparison on the data sets that both have.

    Raises:
        InputError: They share no data set, were evaluated on different items or by different metrics, or a
            number is out of range.

    Example:
        >>> first, second = system_of(records, "bert-mini"), system_of(records, "simcse")  # doctest: +SKIP
        >>> compare(first, second).sentence()  # doctest: +SKIP
    """
    (found,) = compare_all(
        first, [second], draws=draws, confidence=confidence, seed=seed, intervals=intervals
    )
    return found


def compare_all(
    first: System,
    others: Sequence[System],
    *,
    draws: int = DRAWS,
    confidence: float = 0.95,
    seed: int = 0,
    intervals: bool = True,
    cache: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Comparison]:
    """Compare systems with the same one; all share their draws, so this is much faster than one by one.

    Args:
        first: The one to compare with.
        others: The others.
        draws: As in `compare`.
        confidence: As in `compare`.
        seed: As in `compare`.
        intervals: As in `compare`.
        cache: Keep what was found in this folder, and take it from there.
        progress: Takes the number of data sets that are done, and of all.

    Returns:
        What `compare` gives for each of the others.

    Raises:
        InputError: As in `compare`.

    Example:
        >>> records = load_records("records")
        >>> first, second = (system_of(records, name) for name in ("static-mini", "all-MiniLM-L6-v2"))
        >>> (comparison,) = compare_all(first, [second], draws=200)
        >>> comparison.second
        'all-MiniLM-L6-v2'
    """
    check_draws(draws, confidence)
    shared = [_shared(first, other) for other in others]
    settings = (draws, confidence, seed, intervals)
    kept = [
        None if cache is None else cache / f"{_key(first, other, names, settings)}.json"
        for other, names in zip(others, shared, strict=True)
    ]
    found = [
        _read(path, first, other) if path is not None and path.is_file() else None
        for path, other in zip(kept, others, strict=True)
    ]
    wanted = {index: names for index, names in enumerate(shared) if found[index] is None}
    parts = sample_sets(first, others, wanted, draws, seed, intervals=intervals, progress=progress)
    for index, some in parts.items():
        comparison = _comparison(first, others[index], some, confidence)
        if (path := kept[index]) is not None:
            write_bytes(path, TypeAdapter(Comparison).dump_json(comparison))
        found[index] = comparison
    return [one for one in found if one is not None]


def check_draws(draws: int, confidence: float) -> None:
    """Refuse numbers by which nothing can be compared.

    Args:
        draws: As in `compare`.
        confidence: As in `compare`.

    Raises:
        InputError: One is out of its range.
    """
    if draws < 100:
        raise InputError(f"{draws} draws are too few to test at p < 0.05", "use 100 or more")
    refuse_above("draws", draws, f"draws={draws:,}")
    if not 0 < confidence < 1:
        raise InputError(f"confidence is {confidence:g}", "use a number between 0 and 1, such as 0.95")


def _shared(first: System, second: System) -> list[str]:
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


def _comparison(first: System, second: System, parts: Sequence[SampledSet], confidence: float) -> Comparison:
    seeds = tuple(dict.fromkeys(first.seeds)), tuple(dict.fromkeys(second.seeds))
    own = [_difference(part, seeds, confidence) for part in parts]
    corrected = holm([one.p for one in own])
    return Comparison(
        first.name,
        second.name,
        first.measure,
        confidence,
        runs=(len(seeds[0]), len(seeds[1])),
        sets=tuple(replace(one, p=p) for one, p in zip(own, corrected, strict=True)),
        average=_difference(average_of(parts), seeds, confidence) if len(parts) > 1 else None,
    )


def _difference(
    part: SampledSet, seeds: tuple[Sequence[Seed], Sequence[Seed]], confidence: float
) -> Difference:
    """One set by itself, without a correction."""
    first, second = part.scores
    interval = None
    if len(part.resampled):
        low, high = np.quantile(part.resampled, [(1 - confidence) / 2, (1 + confidence) / 2])
        interval = (float(low), float(high))
    p_items, p_seeds = p_of_exchanges(part.observed, part.exchanged), p_of_runs(first, second, *seeds)
    return Difference(
        name=part.name,
        scores=(float(first.mean()), float(second.mean())),
        deviations=(_deviation(first), _deviation(second)),
        interval=interval,
        p_items=p_items,
        p_seeds=p_seeds,
        p_williams=part.p_williams,
        p=p_items if p_seeds is None else max(p_items, p_seeds),
        items=part.items,
    )


def _deviation(scores: npt.NDArray[np.float64]) -> float | None:
    return float(np.std(scores, ddof=1)) if len(scores) > 1 else None


def shown_p(p: float) -> str:
    """Return a p-value as text."""
    return f"p = {p:.2g}" if p >= 0.001 else "p < 0.001"


def _key(first: System, second: System, names: Sequence[str], settings: tuple[object, ...]) -> str:
    """A checksum of everything that decides a comparison but the systems' names."""
    digest = hashlib.sha256(repr((settings, first.measure, first.seeds, second.seeds)).encode())
    for name in names:
        one, other = first.sets[name], second.sets[name]
        digest.update(f"{name} {one.content} {one.classes}".encode())
        if one.clusters is not None:
            digest.update(one.clusters.of.tobytes())
        digest.update(one.predictions.tobytes() + other.predictions.tobytes())
    return digest.hexdigest()[:32]


def _read(path: Path, first: System, second: System) -> Comparison:
    comparison = TypeAdapter(Comparison).validate_json(path.read_bytes())
    return replace(comparison, first=first.name, second=second.name)
