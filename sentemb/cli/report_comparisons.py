"""The sections of `sentemb report` on whether differences between records are real."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import typer

from sentemb.errors import InputError
from sentemb.evaluation.comparison import compare, sts_runs, transfer_runs
from sentemb.evaluation.comparison.table import comparison_table, significance_table
from sentemb.evaluation.naming import without_seed
from sentemb.evaluation.transfer.presets import PRESETS
from sentemb.report.sections import Section

if TYPE_CHECKING:
    from sentemb._tables import Table
    from sentemb.evaluation.comparison import Comparison, Runs
    from sentemb.evaluation.result import ResultRecord
    from sentemb.evaluation.suites import Suite
    from sentemb.evaluation.transfer import TransferReport
    from sentemb.report.labels import Label


def comparison_sections(
    records: Mapping[Suite, Sequence[ResultRecord]],
    reports: Sequence[TransferReport],
    baselines: Sequence[str],
    labels: Mapping[str, Label],
) -> list[Section]:
    """Compare systems with baselines, each with those of its own base where labels tell the bases."""
    if not baselines:
        return []
    known = {one.method for one in reports}
    known |= {without_seed(one.model) for found in records.values() for one in found}
    found: list[list[Comparison]] = []
    for baseline in baselines:
        if baseline not in known:
            raise InputError(
                f"no record of {baseline}", f"there are {', '.join(sorted(known)) or 'none at all'}"
            )
        pairs = _rivals(records, reports, baseline, labels)
        found += [_compare(first, others, labels) for first, others in pairs]
    if not found:
        raise InputError(
            f"there is nothing to compare {', '.join(baselines)} with", "name folders with records of others"
        )
    each = [comparison for some in found for comparison in some]
    return [
        Section("significance", "Is it real?", tables=tuple(map(significance_table, found))),
        Section(
            "comparisons",
            "Comparisons",
            sentences=tuple(one.sentence() for one in each),
            tables=tuple(map(_table_of, each)),
        ),
    ]


def _compare(first: Runs, others: Sequence[Runs], labels: Mapping[str, Label]) -> list[Comparison]:
    def named(runs: Runs) -> Runs:
        return replace(runs, name=str(labels.get(runs.name, runs.name)))

    comparisons = []
    for other in others:
        typer.echo(f"{other.name} against {first.name}", err=True)
        comparisons.append(compare(named(first), named(other)))
    return comparisons


def _table_of(comparison: Comparison) -> Table:
    table = comparison_table(comparison)
    # The sentence stands above all tables already.
    return replace(table, notes=tuple(note for note in table.notes if note != comparison.sentence()))


def _rivals(
    records: Mapping[Suite, Sequence[ResultRecord]],
    reports: Sequence[TransferReport],
    baseline: str,
    labels: Mapping[str, Label],
) -> Iterator[tuple[Runs, list[Runs]]]:
    """The baseline's runs and those of its rivals, for each suite and preset that it has records of."""

    def rivals(methods: Sequence[str]) -> list[str]:
        own = labels.get(baseline)
        return [
            name
            for name in dict.fromkeys(methods)
            if name != baseline and (own is None or name not in labels or labels[name].base == own.base)
        ]

    for suite, found in records.items():
        methods = [without_seed(one.model) for one in found]
        runs_of = partial(sts_runs, found, measure=suite.measure)
        if baseline in methods and (others := rivals(methods)):
            yield runs_of(baseline), [runs_of(name) for name in others]
    for preset in PRESETS:
        methods = [one.method for one in reports if one.preset == preset and one.results]
        runs_under = partial(transfer_runs, reports, preset=preset)
        if baseline in methods and (others := rivals(methods)):
            yield runs_under(baseline), [runs_under(name) for name in others]
