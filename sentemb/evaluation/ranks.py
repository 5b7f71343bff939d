"""Ranks of several systems with intervals, and places that systems share if they do not differ significantly.

The items are resampled for all systems together, so the interval of a rank holds how systems are alike. Two
systems differ if a permutation test says so, Holm-corrected over all pairs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from sentemb.data.files import Row, read_file, source_at, usual_columns
from sentemb.errors import InputError
from sentemb.evaluation.comparison import (
    CONFIDENCE,
    DRAWS,
    amounts,
    check_draws,
    compare_all,
    generator_of,
    holm,
)
from sentemb.evaluation.resampling import bootstrap, exchange, resamples
from sentemb.evaluation.statistics import FEWEST, LEVEL, power
from sentemb.evaluation.systems import System

Double = npt.NDArray[np.float64]

_COLUMNS = [(model, item, "score") for model in ("model", "system") for item in ("task", "query")]
_MEAN = "ndcg@10"  # a metric that is the mean of the items' scores
_MOST_DRAWS = 10_000  # of permutations; smaller p-values are bounded instead
# P(S >= x) <= _BOUND P(N >= x) for a weighted sum S of random signs with variance 1 and a normal N:
# Bentkus and Dzindzalieta, A tight Gaussian bound for weighted sums of Rademacher random variables, 2015.
_BOUND = 1 / (4 * stats.norm.sf(np.sqrt(2)))


@dataclass(frozen=True)
class Ranked:
    """A system among others."""

    name: str  # in tables
    score: float  # the mean
    ranks: tuple[int, int]  # the interval of its rank, 1 is the best
    place: int  # systems that share a place do not differ significantly from the first of it


class Board(NamedTuple):
    """Scores of models on the same tasks or queries."""

    models: tuple[str, ...]  # names
    kind: str  # what the items are, such as tasks
    scores: Double  # shape (models, items)
    skipped: int  # number of items that some model lacks


@dataclass(frozen=True)
class RankedBoard:
    """A board with the ranks of its models."""

    board: Board  # the scores
    ranked: tuple[Ranked, ...]  # the best first
    confidence: float  # of the intervals
    level: float  # that Holm's correction leaves to the next pair

    def sentence(self) -> str:
        """Return who is first, and how sure that is, in a sentence."""
        first, *others = self.ranked
        equal = sum(one.place == 1 for one in others)
        start = f"{first.name} is first (rank {shown_ranks(first.ranks)})"
        if not equal:
            rest = others[0].name if len(others) == 1 else f"the {len(others)} others"
            return f"{start}; it differs significantly from {rest}"
        rest = f"{equal} of {len(others)} others" if len(others) > 1 else others[0].name
        return f"{start}; {rest} {'does' if equal == 1 else 'do'} not differ significantly from it"

    def power_sentence(self) -> str:
        """Return what the items could have shown of the first two models, in a sentence."""
        rows = [self.board.models.index(one.name) for one in self.ranked[:2]]
        gains, kind = self.board.scores[rows[0]] - self.board.scores[rows[1]], self.board.kind
        if np.count_nonzero(gains) < FEWEST or 2.0 ** (1 - np.count_nonzero(gains)) >= self.level:
            return f"{len(gains)} {kind} are too few for any two models to differ significantly"
        found = power(gains, level=self.level)
        shown = (
            f"With 80 % power, {len(gains):,} {kind} could have shown a difference of "
            f"{found.detectable(level=self.level):.3g} between the first two"
        )
        needed = found.needed(gains.mean(), level=self.level)
        if self.ranked[1].place > 1 or needed is None:
            return shown
        (more,) = amounts([max(1, needed - len(gains))], [kind], "more ")
        return f"{shown}; if the true one is the present {gains.mean():.2g}, {more} would decide"


def shown_ranks(ranks: tuple[int, int]) -> str:
    """Return an interval of ranks as text."""
    return f"{ranks[0]}" if ranks[0] == ranks[1] else f"{ranks[0]} to {ranks[1]}"


def rank_intervals(drawn: Double, confidence: float = CONFIDENCE) -> list[tuple[int, int]]:
    """Return the interval of the ranks that each system takes in draws of its score, (systems, draws)."""
    drawn = drawn[:, np.isfinite(drawn).all(axis=0)]  # a correlation may not exist in a resample
    if not drawn.shape[1]:
        return [(1, len(drawn))] * len(drawn)
    best, worst = (stats.rankdata(-drawn, axis=0, method=ties) for ties in ("min", "max"))
    low = np.quantile(best, (1 - confidence) / 2, axis=1, method="inverted_cdf")
    high = np.quantile(worst, (1 + confidence) / 2, axis=1, method="inverted_cdf")
    return [(int(one), int(other)) for one, other in zip(low, high, strict=True)]


def share_places(names: Sequence[str], differing: Collection[tuple[str, str]]) -> dict[str, int]:
    """Return the place of each, the best first; a system shares that of the first it does not differ from."""
    places: dict[str, int] = {}
    first = names[0]
    for number, name in enumerate(names, start=1):
        if (first, name) in differing:
            first = name
        places[name] = number if name == first else places[first]
    return places


def rank_scores(
    scores: Double, names: Sequence[str], differing: Collection[tuple[str, str]], drawn: Double, level: float
) -> tuple[Ranked, ...]:
    """Return the systems, the best first, by their scores, pairs that differ and draws of their scores."""
    order = [int(row) for row in np.argsort(-scores, kind="stable")]
    places = share_places([names[row] for row in order], differing)
    intervals = rank_intervals(drawn, level)
    return tuple(Ranked(names[row], float(scores[row]), intervals[row], places[names[row]]) for row in order)


def resampled_means(scores: Double, draws: int, seed: int = 0) -> Double:
    """Return the mean of each system's scores (systems, items) on resamples of the items."""
    blocks = resamples(scores.shape[1], draws, np.random.default_rng(seed))
    return np.concatenate([scores @ counts / scores.shape[1] for counts in blocks], axis=1)


def resampled_systems(systems: Sequence[System], draws: int, seed: int) -> Double:
    """Return the mean score x 100 of each system over its runs and the sets, which all have, on resamples."""
    parts = []
    for number, (name, one) in enumerate(systems[0].sets.items()):
        runs = [system.sets[name].predictions for system in systems]
        found = bootstrap(
            systems[0].measure,
            np.concatenate(runs),
            one.gold,
            draws=draws,
            generator=generator_of(one, seed, number),
            classes=one.classes,
            clusters=one.clusters,
        )
        ends = np.cumsum([len(own) for own in runs])[:-1]
        parts.append([own.mean(axis=0) for own in np.split(found, ends)])
    return np.asarray(100 * np.mean(parts, axis=0))


def rank_systems(
    systems: Sequence[System], *, draws: int = DRAWS, confidence: float = CONFIDENCE, seed: int = 0
) -> tuple[Ranked, ...]:
    """Rank systems by their mean score over the sets that all have.

    Args:
        systems: Three systems or more, evaluated on the same items.
        draws: Resamples and exchanges of items.
        confidence: Of the intervals.
        seed: Of the draws.

    Raises:
        InputError: As in `compare_all`.

    Example:
        >>> records = load_records("records")
        >>> systems = [system_of(records, name) for name in ("static-mini", "all-MiniLM-L6-v2")]
        >>> [one.place for one in rank_systems(systems, draws=200)]
        [1, 2]
    """
    draws = max(draws, min(_MOST_DRAWS, 100 * len(systems) * (len(systems) - 1) // 2))
    shared = set.intersection(*({*one.sets} for one in systems))
    kept = [
        System(
            one.name, one.measure, one.seeds, {name: one.sets[name] for name in one.sets if name in shared}
        )
        for one in systems
    ]
    pairs: list[tuple[str, str]] = []
    p_values: list[float] = []
    scores: dict[str, float] = {}
    for number, first in enumerate(kept[:-1]):
        for found in compare_all(first, kept[number + 1 :], draws=draws, seed=seed, intervals=False):
            pairs.append((found.first, found.second))
            p_values.append(found.headline.p)
            scores |= dict(zip(pairs[-1], found.headline.scores, strict=True))
    drawn, names = resampled_systems(kept, draws, seed), [one.name for one in kept]
    differing = differing_pairs(pairs, p_values)
    return rank_scores(np.array([scores[name] for name in names]), names, differing, drawn, confidence)


def differing_pairs(pairs: Sequence[tuple[str, str]], p_values: Sequence[float]) -> set[tuple[str, str]]:
    """Return the pairs that differ after Holm's correction, in both orders."""
    found = [pair for pair, p in zip(pairs, holm(p_values), strict=True) if p < LEVEL]
    return {(one, other) for pair in found for one, other in (pair, pair[::-1])}


def read_board(path: str | Path, models: Sequence[str] = ()) -> Board:
    r"""Read a table with the columns model, task (or query) and score.

    Args:
        path: CSV, TSV, JSONL or Parquet file.
        models: The models to keep; all by default.

    Raises:
        InputError: The file cannot be read, has two scores of a model on a task or no task that all models
            have, or a model is unknown.

    Example:
        >>> _ = Path("board.csv").write_text("model,task,score\na,x,1\nb,x,2\na,y,3\nb,y,3\n")
        >>> read_board("board.csv").scores.tolist()
        [[1.0, 3.0], [2.0, 3.0]]
    """
    source = source_at(path)
    model_column, item_column, score_column = usual_columns(source, _COLUMNS)
    found: dict[str, dict[str, float]] = {}
    for row in read_file(source):
        model, item = _label(row, model_column), _label(row, item_column)
        own = found.setdefault(model, {})
        if item in own:
            raise InputError(
                f"{row.location}: a second score of {model} on {item}", "keep one score, such as the mean"
            )
        own[item] = row.number(score_column)
    for model in models:
        if model not in found:
            raise InputError(f"{path} does not have the model {model}", f"choose among {', '.join(found)}")
    names = tuple(models or found)
    if len(names) < 2:
        raise InputError(f"{path} has one model, {names[0]}", "add the scores of another")
    items = dict.fromkeys(item for name in names for item in found[name])
    shared = [item for item in items if all(item in found[name] for name in names)]
    kind = "tasks" if item_column.lower() == "task" else "queries"
    if len(shared) < 2:
        fewest = min(names, key=lambda name: len(found[name]))
        raise InputError(
            f"{path}: all {len(names)} models have {len(shared)} of {len(items)} {kind} in common",
            f"name the models to rank, without those of few {kind}, such as {fewest} ({len(found[fewest])})",
        )
    scores = np.array([[found[name][item] for item in shared] for name in names])
    return Board(names, kind, scores, len(items) - len(shared))


def rank_board(
    board: Board, *, draws: int = DRAWS, confidence: float = CONFIDENCE, seed: int = 0
) -> RankedBoard:
    r"""Rank the models of a board by their mean score; higher is better.

    Args:
        board: The scores.
        draws: Resamples and exchanges of items.
        confidence: Of the intervals.
        seed: Of the draws.

    Raises:
        InputError: A number is out of range.

    Example:
        >>> rows = [f"{model},{task},{model * 50 + task % 7}" for model in (1, 2) for task in range(20)]
        >>> _ = Path("scores.csv").write_text("\n".join(["model,task,score", *rows]))
        >>> [(one.name, one.ranks, one.place) for one in rank_board(read_board("scores.csv")).ranked]
        [('2', (1, 1), 1), ('1', (2, 2), 2)]
    """
    check_draws(draws, confidence)
    count = len(board.models)
    draws = max(draws, min(_MOST_DRAWS, 100 * count * (count - 1) // 2))
    pairs = list(combinations(board.models, 2))
    p_values = [p for row in range(count - 1) for p in _p_values(board.scores[row:], draws, seed)]
    differing = differing_pairs(pairs, p_values)
    means = board.scores.mean(axis=1)
    drawn = resampled_means(board.scores, draws, seed)
    ranked = rank_scores(means, board.models, differing, drawn, confidence)
    return RankedBoard(board, ranked, confidence, LEVEL / max(1, len(pairs) - len(differing) // 2))


def _p_values(scores: Double, draws: int, seed: int) -> list[float]:
    """Return the p-value of the first row with each other, of exchanges of items or bounded if smaller."""
    baseline = np.zeros(1, dtype=np.intp)
    rows = [(baseline + number, baseline) for number in range(1, len(scores))]
    gold = np.zeros(scores.shape[1])
    generator = np.random.default_rng(seed)
    observed, exchanged = exchange(_MEAN, scores, gold, rows, draws=draws, generator=generator)
    reached = np.abs(exchanged) >= np.abs(observed)[:, None] * (1 - 1e-10)
    gains = scores[1:] - scores[0]
    spread = np.sqrt((gains**2).sum(axis=1))
    statistic = np.abs(gains.sum(axis=1)) / np.where(spread > 0, spread, 1.0)
    bounds = 2 * _BOUND * stats.norm.sf(statistic)
    return [*np.minimum((1 + reached.sum(axis=1)) / (1 + draws), bounds)]


def _label(row: Row, column: str) -> str:
    """Return a name, which may be a number."""
    value = row.values.get(column)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else row.filled(column)
