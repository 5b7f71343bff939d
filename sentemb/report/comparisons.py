"""Whether systems differ from a baseline: sentences, tables and forest plots of comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sentemb.errors import InputError
from sentemb.evaluation.comparison import Comparison, Difference, compare_all
from sentemb.evaluation.naming import without_seed
from sentemb.evaluation.schema import Record
from sentemb.evaluation.significance import LEVEL, holm
from sentemb.evaluation.suites import MULTILINGUAL, RETRIEVAL, STS, TRANSFER
from sentemb.evaluation.systems import System, resolve_system, system_of
from sentemb.report.forest import Estimate, ForestPlot
from sentemb.report.labels import Label
from sentemb.report.sections import Section
from sentemb.report.table import ABSENT, Table

_SUITES = {STS: "STS", MULTILINGUAL: "Other languages", TRANSFER: "Transfer tasks", RETRIEVAL: "Retrieval"}


@dataclass(frozen=True)
class Compared:
    """Systems against one baseline, on one suite.

    Attributes:
        on: What they were evaluated on, such as `STS`.
        comparisons: One for each of the systems.
    """

    on: str
    comparisons: tuple[Comparison, ...]

    @property
    def p_values(self) -> list[float]:
        """Of each comparison's headline, corrected with Holm's procedure over the systems."""
        return holm([one.headline.p for one in self.comparisons])

    def table(self) -> Table:
        """A row for each system: its difference on the average, or on the only set."""
        first = self.comparisons[0]
        sets = "the average" if first.average else first.sets[0].name
        runs = f"{first.runs[0]} run{'' if first.runs[0] == 1 else 's'}"
        rows = tuple(
            (one.second, str(one.runs[1]), *_cells(one.headline)[2:-1], _p(p))
            for one, p in zip(self.comparisons, self.p_values, strict=True)
        )
        header = ["system", "runs", first.measure, "difference", f"{100 * first.confidence:g} %"]
        return Table(
            title=f"Difference from {first.first} ({first.headline.scores[0]:.2f}, {runs}) on {sets}, x 100",
            header=(*header, "p, items", "p, seeds", "p"),
            rows=rows,
            notes=(
                f"{100 * first.confidence:g} %: interval of the paired bootstrap over items",
                (
                    "p, items: permutation test over items; p, seeds: t-test over runs; p: the larger of "
                    "both, Holm-corrected over the rows"
                ),
                "bold: p below 0.05; ± is the standard deviation over runs",
            ),
            best=frozenset((place, 3) for place, p in enumerate(self.p_values) if p < LEVEL),
        )

    def forest(self) -> ForestPlot:
        """The differences with their intervals, the largest first."""
        first = self.comparisons[0]
        estimates = []
        for one, p in zip(self.comparisons, self.p_values, strict=True):
            size = one.headline.size
            low, high = one.headline.interval or (size, size)
            estimates.append(Estimate(one.second, size, low, high, significant=p < LEVEL))
        return ForestPlot(
            title=f"{self.on}: difference from {first.first} on "
            f"{'the average' if first.average else first.sets[0].name}",
            axis=f"difference, {first.measure} x 100",
            estimates=sorted(estimates, key=lambda one: -one.size),
        )

    def verdict(self) -> str:
        """What to remember, in a sentence: the best of the systems against the baseline."""
        pairs = list(zip(self.comparisons, self.p_values, strict=True))
        better = [one for one, p in pairs if p < LEVEL and one.headline.size > 0]
        best = max(better or self.comparisons, key=lambda one: one.headline.size)
        if better or len(pairs) == 1:
            return f"{self.on}: {best.sentence()}."
        return (
            f"{self.on}: none of the {len(pairs)} other systems is significantly better than "
            f"{best.first} on {'the average' if best.average else best.sets[0].name}; the closest is "
            f"{best.second} ({best.headline.size:+.2f})."
        )


def comparison_table(comparison: Comparison) -> Table:
    """Set by set: both scores, their difference with its interval, and how sure it is.

    Args:
        comparison: The comparison.

    Returns:
        The table; significant differences are bold.
    """
    lines = [*comparison.sets, *([comparison.average] if comparison.average else [])]
    single = any(line.p_williams is not None for line in lines)
    header = ["set", comparison.first, comparison.second, "difference", f"{100 * comparison.confidence:g} %"]
    header += ["p, items", "p, seeds", "p", *(["Williams"] if single else [])]
    rows = tuple((*_cells(line), *([_p(line.p_williams)] if single else [])) for line in lines)
    return Table(
        title=f"{comparison.second} compared with {comparison.first}, {comparison.measure} x 100",
        header=tuple(header),
        rows=rows,
        notes=(
            f"difference: second minus first; {100 * comparison.confidence:g} %: interval of the paired "
            "bootstrap over items",
            (
                "p, items: permutation test over items; p, seeds: t-test over runs; p: the larger of "
                "both, Holm-corrected over sets"
            ),
            "± is the standard deviation over runs",
        ),
        best=frozenset((place, 3) for place, line in enumerate(lines) if line.real),
    )


def compare_with_baselines(
    records: Sequence[Record],
    baselines: Sequence[str],
    labels: Mapping[str, Label],
    *,
    cache: Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Compared]:
    """Compare all systems with baselines, each with those of its own base where labels tell the bases.

    Args:
        records: Records of any suites; those without predictions for items do not take part.
        baselines: Names of systems, or what else `resolve_system` takes.
        labels: What systems are called.
        cache: Folder where comparisons are kept between reports.
        progress: Told the baseline, the number of data sets done and of all.

    Returns:
        The comparisons, suite by suite for each baseline.

    Raises:
        InputError: A baseline has no record, or nothing to be compared with.
    """
    found = []
    # All before the first comparison, which takes a while.
    for name in [resolve_system(baseline, records) for baseline in baselines]:
        for on, first, others in _rivals(records, name, labels):
            shown = str(labels.get(name, name))
            steps = None if progress is None else partial(progress, shown)
            comparisons = compare_all(first, others, cache=cache, progress=steps)
            found.append(Compared(on, tuple(_named(one, labels) for one in comparisons)))
    if not found:
        raise InputError(
            f"no other system to compare with {', '.join(baselines)}",
            "list folders with records of other models",
        )
    return found


def comparison_sections(found: Sequence[Compared]) -> tuple[Section, Section]:
    """The comparisons as two sections: a row and an interval per system, and then set by set."""
    each = [comparison for some in found for comparison in some.comparisons]
    return (
        Section(
            "significance",
            "Which differences are significant?",
            tables=tuple(some.table() for some in found),
            forests=tuple(some.forest() for some in found),
        ),
        Section(
            "comparisons",
            "Comparisons, set by set",
            sentences=tuple(one.sentence() for one in each),
            tables=tuple(map(comparison_table, each)),
        ),
    )


def _named(comparison: Comparison, labels: Mapping[str, Label]) -> Comparison:
    first, second = (str(labels.get(name, name)) for name in (comparison.first, comparison.second))
    return replace(comparison, first=first, second=second)


def _rivals(
    records: Sequence[Record], baseline: str, labels: Mapping[str, Label]
) -> Iterator[tuple[str, System, list[System]]]:
    """The baseline and its rivals, for each suite and preset that it has records of."""
    own = labels.get(baseline)
    for suite in _SUITES:
        of_suite = [record for record in records if record.suite == suite.name]
        protocols = sorted({record.protocol for record in of_suite})
        presets = protocols if suite in (TRANSFER, RETRIEVAL) else [None]
        for preset in presets:
            some = [record for record in of_suite if preset in (None, record.protocol)]
            names = dict.fromkeys(without_seed(record.model) for record in some)
            others = [
                name
                for name in names
                if name != baseline and (own is None or name not in labels or labels[name].base == own.base)
            ]
            if baseline in names and others:
                on = _SUITES[suite] + (f" ({preset})" if preset else "")
                yield on, system_of(some, baseline), [system_of(some, name) for name in others]


def _cells(line: Difference) -> tuple[str, ...]:
    scores = [
        f"{score:.2f}" + ("" if deviation is None else f" ± {deviation:.2f}")
        for score, deviation in zip(line.scores, line.deviations, strict=True)
    ]
    interval = ABSENT if line.interval is None else "{:+.2f} to {:+.2f}".format(*line.interval)
    tests = (_p(line.p_items), _p(line.p_seeds), _p(line.p))
    return (line.name, *scores, f"{line.size:+.2f}", interval, *tests)


def _p(value: float | None) -> str:
    if value is None:
        return ABSENT
    return f"{value:.4f}" if value >= 0.0001 else "< 0.0001"
