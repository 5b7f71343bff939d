"""Comparisons of systems with a baseline: sentences, tables and forest plots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sentemb.errors import InputError
from sentemb.evaluation.comparison import Comparison, Difference, compare_all, holm
from sentemb.evaluation.ranks import Ranked, RankedBoard, shown_ranks
from sentemb.evaluation.schema import Record, without_seed
from sentemb.evaluation.statistics import LEVEL
from sentemb.evaluation.suites import MULTILINGUAL, RETRIEVAL, STS, TRANSFER
from sentemb.evaluation.systems import System, resolve_system, system_of
from sentemb.report.page import Section
from sentemb.report.table import ABSENT, Label, Table

_SUITES = {STS: "STS", MULTILINGUAL: "Other languages", TRANSFER: "Transfer tasks", RETRIEVAL: "Retrieval"}
_INTERVAL = "interval of the paired bootstrap over items"
_TESTS = (
    "p, items: permutation test over items; p, seeds: t-test over runs; p: the larger of both, "
    "Holm-corrected over {}"
)


@dataclass(frozen=True)
class Compared:
    """Comparisons of several systems with one baseline on one suite."""

    on: str  # name of the suite, such as `STS`
    comparisons: tuple[Comparison, ...]  # one for each system

    @property
    def p_values(self) -> list[float]:
        """p-value of each headline, Holm-corrected over the systems."""
        return holm([one.headline.p for one in self.comparisons])

    @property
    def _sets(self) -> str:
        first = self.comparisons[0]
        return "the average" if first.average else first.sets[0].name

    def table(self) -> Table:
        """Return a table with the difference of each system on the average, or on the only set."""
        first, p_values = self.comparisons[0], self.p_values
        runs = f"{first.runs[0]} run{'' if first.runs[0] == 1 else 's'}"
        level = f"{100 * first.confidence:g} %"
        return Table(
            title=f"Difference from {first.first} ({first.headline.scores[0]:.2f}, {runs}) on {self._sets}, "
            "x 100",
            header=("system", "runs", first.measure, "difference", level, "p, items", "p, seeds", "p"),
            rows=tuple(
                (one.second, str(one.runs[1]), *_cells(one.headline)[2:-1], _shown(p))
                for one, p in zip(self.comparisons, p_values, strict=True)
            ),
            notes=(
                f"{level}: {_INTERVAL}",
                _TESTS.format("the rows"),
                "bold: p below 0.05; ± is the standard deviation over runs",
            ),
            best=frozenset((place, 3) for place, p in enumerate(p_values) if p < LEVEL),
        )

    def forest(self) -> tuple[str, str]:
        """Return the title and the drawing of the differences with their intervals, the largest first."""
        from sentemb.report.figures import forest_figure, svg_of

        first, p_values = self.comparisons[0], self.p_values
        title = f"{self.on}: difference from {first.first} on {self._sets}"
        estimates = {}
        for one, p in sorted(zip(self.comparisons, p_values, strict=True), key=lambda x: -x[0].headline.size):
            size = one.headline.size
            estimates[one.second] = (size, *(one.headline.interval or (size, size)), p < LEVEL)
        figure = forest_figure(estimates, title=title, x_label=f"difference, {first.measure} x 100")
        return title, svg_of(figure)

    def verdict(self) -> str:
        """Return the conclusion in one sentence: the best of the systems compared with the baseline."""
        pairs = list(zip(self.comparisons, self.p_values, strict=True))
        better = [one for one, p in pairs if p < LEVEL and one.headline.size > 0]
        best = max(better or self.comparisons, key=lambda one: one.headline.size)
        if better or len(pairs) == 1:
            return f"{self.on}: {best.sentence()}."
        return (
            f"{self.on}: none of the {len(pairs)} other systems is significantly better than {best.first} "
            f"on {self._sets}; the closest is {best.second} ({best.headline.size:+.2f})."
        )


def comparison_table(comparison: Comparison) -> Table:
    """Tabulate both scores of each set, their difference with its interval, and p-values."""
    lines = [*comparison.sets, *([comparison.average] if comparison.average else [])]
    single = any(line.p_williams is not None for line in lines)
    level = f"{100 * comparison.confidence:g} %"
    header = ("set", comparison.first, comparison.second, "difference", level, "p, items", "p, seeds", "p")
    return Table(
        title=f"{comparison.second} compared with {comparison.first}, {comparison.measure} x 100",
        header=(*header, *(["Williams"] if single else []), "detectable"),
        rows=tuple(
            (*_cells(line), *([_shown(line.p_williams)] if single else []), _detectable(line))
            for line in lines
        ),
        notes=(
            f"difference: second minus first; {level}: {_INTERVAL}",
            _TESTS.format("sets"),
            "± is the standard deviation over runs",
            "detectable: the smallest true difference that each test shows with 80 % power, uncorrected",
        ),
        best=frozenset((place, 3) for place, line in enumerate(lines) if line.real),
    )


def rank_table(ranked: Sequence[Ranked], confidence: float, items: str, *, digits: str = ".2f") -> Table:
    """Tabulate systems with the intervals of their ranks and the places that they share."""
    pairs = len(ranked) * (len(ranked) - 1) // 2
    return Table(
        title="Ranks",
        header=("place", "system", "score", f"ranks, {100 * confidence:g} %"),
        rows=tuple(
            (str(one.place), one.name, format(one.score, digits), shown_ranks(one.ranks)) for one in ranked
        ),
        notes=(
            f"ranks: interval of the rank over resamples of the {items}, all systems together",
            "systems that share a place do not differ significantly from the first of it: permutation test "
            f"over {items}, Holm-corrected over {pairs:,} pair{'' if pairs == 1 else 's'}",
        ),
        best=frozenset((row, 2) for row, one in enumerate(ranked) if one.place == 1),
        names=2,
    )


def board_table(found: RankedBoard) -> Table:
    """Tabulate the models of a board with their ranks."""
    board = found.board
    table = rank_table(
        found.ranked, found.confidence, f"{board.scores.shape[1]:,} {board.kind}", digits=".4g"
    )
    skipped = f"{board.skipped:,} {board.kind} are skipped, of which some model has no score"
    return replace(table, notes=(*table.notes, *([skipped] if board.skipped else [])))


def compare_with_baselines(
    records: Sequence[Record],
    baselines: Sequence[str],
    labels: Mapping[str, Label],
    *,
    cache: Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Compared]:
    """Compare systems with baselines on each suite, with those of its own base if labels name the bases."""
    found = []

    def renamed(one: Comparison) -> Comparison:
        first, second = (str(labels.get(name, name)) for name in (one.first, one.second))
        return replace(one, first=first, second=second)

    # Resolve all names before the first comparison, which takes a while.
    for name in [resolve_system(baseline, records) for baseline in baselines]:
        steps = None if progress is None else partial(progress, str(labels.get(name, name)))
        for on, first, others in _rivals(records, name, labels):
            comparisons = compare_all(first, others, cache=cache, progress=steps)
            found.append(Compared(on, tuple(map(renamed, comparisons))))
    if not found:
        raise InputError(
            f"no other system to compare with {', '.join(baselines)}",
            "list folders with records of other models",
        )
    return found


def comparison_sections(found: Sequence[Compared], *, figures: bool) -> tuple[Section, Section]:
    """Return two sections: a row and an interval per system, and details set by set."""
    each = [comparison for some in found for comparison in some.comparisons]
    tables, charts = tuple(some.table() for some in found), dict(some.forest() for some in found if figures)
    sentences, details = tuple(one.sentence() for one in each), tuple(map(comparison_table, each))
    return (
        Section("significance", "Which differences are significant?", tables=tables, charts=charts),
        Section("comparisons", "Comparisons, set by set", sentences=sentences, tables=details),
    )


def _rivals(
    records: Sequence[Record], baseline: str, labels: Mapping[str, Label]
) -> Iterator[tuple[str, System, list[System]]]:
    """Yield the baseline and its rivals for each suite and preset that it has records of."""
    base = labels[baseline].base if baseline in labels else None
    for suite, shown in _SUITES.items():
        own = [record for record in records if record.suite == suite.name]
        for preset in sorted({record.protocol for record in own}) if suite.presets else [None]:
            some = [record for record in own if preset in (None, record.protocol)]
            names = dict.fromkeys(without_seed(record.model) for record in some)
            others = [
                name
                for name in names
                if name != baseline and (base is None or name not in labels or labels[name].base == base)
            ]
            if baseline in names and others:
                on = shown + (f" ({preset})" if preset else "")
                yield on, system_of(some, baseline), [system_of(some, name) for name in others]


def _cells(line: Difference) -> tuple[str, ...]:
    scores = [
        f"{score:.2f}" + ("" if deviation is None else f" ± {deviation:.2f}")
        for score, deviation in zip(line.scores, line.deviations, strict=True)
    ]
    interval = ABSENT if line.interval is None else "{:+.2f} to {:+.2f}".format(*line.interval)
    tests = map(_shown, (line.p_items, line.p_seeds, line.p))
    return (line.name, *scores, f"{line.size:+.2f}", interval, *tests)


def _detectable(line: Difference) -> str:
    detectable = line.detectable()
    return ABSENT if detectable is None else f"{detectable:.2f}"


def _shown(p: float | None) -> str:
    if p is None:
        return ABSENT
    return f"{p:.4f}" if p >= 0.0001 else "< 0.0001"
