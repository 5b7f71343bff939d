"""Geometry of encoders on one set as a table: encoders, or methods with their seeds in one row."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from sentemb._tables import ABSENT, Table
from sentemb.evaluation.geometry_records import GeometryRecord
from sentemb.evaluation.naming import without_seed

_DIGITS = (3, 3, 3, 1)
_FIGURES = ("alignment ↓", "uniformity ↓", "anisotropy", "effective rank")


def geometry_table(records: Sequence[GeometryRecord]) -> Table:
    """Encoders by figures of geometry on one set, each with its interval."""
    rows = tuple((one.model, *_with_intervals(one)) for one in records)
    return Table(
        title=_title(records),
        header=("model", *_FIGURES),
        rows=rows,
        notes=(_brackets(records), *_notes(records)),
    )


def geometry_seed_table(records: Sequence[GeometryRecord]) -> Table:
    """Methods by figures of geometry on one set, as in `seed_table`."""
    methods: dict[str, list[GeometryRecord]] = {}
    for record in records:
        methods.setdefault(without_seed(record.model), []).append(record)
    rows = []
    for method, runs in methods.items():
        trained = method != runs[0].model
        cells = _with_intervals(runs[0]) if len(runs) == 1 else _with_deviations(runs)
        rows.append((method, str(len(runs)) if trained else ABSENT, *cells))
    notes = list(_notes(records))
    if any(len(runs) == 1 for runs in methods.values()):
        notes.insert(0, _brackets(records))
    if any(len(runs) > 1 for runs in methods.values()):
        notes.insert(0, "± is the standard deviation over seeds")
    return Table(
        title=_title(records), header=("model", "seeds", *_FIGURES), rows=tuple(rows), notes=tuple(notes)
    )


def _title(records: Sequence[GeometryRecord]) -> str:
    return f"Geometry on {records[0].data} {records[0].split}"


def _brackets(records: Sequence[GeometryRecord]) -> str:
    first = records[0].estimate
    return (
        f"in brackets: {100 * first.confidence:g} % intervals over pairs that share no sentence, "
        f"for as many sentences ({first.sentences:,})"
    )


def _notes(records: Sequence[GeometryRecord]) -> list[str]:
    notes = ["lower alignment and lower uniformity are better, only both together mean something"]
    if len({one.checksum for one in records}) > 1:
        notes.append("the rows were measured on different pairs or text, so do not compare them")
    return notes


def _with_intervals(record: GeometryRecord) -> list[str]:
    estimate = record.estimate
    figures = zip(estimate.geometry, estimate.low, estimate.high, _DIGITS, strict=True)
    cells = [
        f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]" for value, low, high, digits in figures
    ]
    cells[-1] += f" of {record.dimension}"
    return cells


def _with_deviations(records: Sequence[GeometryRecord]) -> list[str]:
    columns = zip(*(one.estimate.geometry for one in records), strict=True)
    cells = [
        f"{fmean(values):.{digits}f} ± {stdev(values):.{digits}f}"
        for values, digits in zip(columns, _DIGITS, strict=True)
    ]
    cells[-1] += f" of {records[0].dimension}"
    return cells
