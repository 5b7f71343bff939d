"""The section of `sentemb report` on how vectors lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import numpy as np

from sentemb._tables import Table
from sentemb.cli.report_layers import open_fields, picture_of
from sentemb.evaluation.geometry import Geometry
from sentemb.evaluation.geometry_records import GeometryRecord, read_geometries
from sentemb.evaluation.geometry_table import geometry_seed_table
from sentemb.evaluation.naming import without_seed
from sentemb.evaluation.record_files import Fields
from sentemb.report.labels import Label, label_table
from sentemb.report.sections import Chart, Section

_FILE = "geometry.json"


@dataclass(frozen=True)
class _Measured:
    """Encoders on one set: the table, and what is drawn."""

    table: Table
    figures: dict[str, Geometry]
    spectra: dict[str, list[float]]
    paths: dict[str, list[tuple[float, float]]] = field(default_factory=dict)


def geometry_section(
    folders: Sequence[Path], labels: Mapping[str, Label], *, figures: bool
) -> Section | None:
    """The records of geometry, and what `sentemb analyse geometry` measured."""
    records: dict[tuple[str, str], list[GeometryRecord]] = {}
    for folder in folders:
        for record in read_geometries(folder):
            records.setdefault((record.data, record.split), []).append(record)
    paths = [folder / _FILE for folder in folders if (folder / _FILE).is_file()]
    found = [*(_of_records(some, labels) for some in records.values()), *map(_of_analysis, paths)]
    if not found:
        return None
    pictures = [picture for one in found for picture in _pictures(one)] if figures else []
    return Section("geometry", "Geometry", tables=tuple(one.table for one in found), charts=tuple(pictures))


def _of_records(records: Sequence[GeometryRecord], labels: Mapping[str, Label]) -> _Measured:
    """Seeds are a row of the table and a point of the figure, the mean."""
    methods: dict[str, list[GeometryRecord]] = {}
    for one in records:
        method = without_seed(one.model)
        methods.setdefault(str(labels.get(method, method)), []).append(one)
    return _Measured(
        label_table(geometry_seed_table(records), labels),
        {name: Geometry(*_mean([one.estimate.geometry for one in runs])) for name, runs in methods.items()},
        {name: _mean([one.spectrum for one in runs]) for name, runs in methods.items()},
    )


def _mean(rows: Sequence[Sequence[float]]) -> list[float]:
    return [fmean(column) for column in zip(*rows, strict=True)]


def _of_analysis(path: Path) -> _Measured:
    fields = open_fields(path, "sentemb analyse geometry MODEL --output FOLDER writes one")
    inside, runs = fields.object("encoders"), fields.object("runs")
    if not inside.values:
        raise fields.fail("encoders", "empty")
    encoders = {name: inside.object(name) for name in inside.values}
    figures = {
        name: Geometry(**{measure: one.get(measure, float) for measure in Geometry._fields})
        for name, one in encoders.items()
    }
    spectra = {name: _numbers(one, "spectrum") for name, one in encoders.items()}
    courses = {name: runs.object(name) for name in runs.values if name in encoders}
    return _Measured(
        _table(f"Geometry on {fields.get('data', str)} {fields.get('split', str)}", figures, spectra),
        figures,
        spectra,
        {
            name: list(zip(_numbers(one, "uniformity"), _numbers(one, "alignment"), strict=True))
            for name, one in courses.items()
        },
    )


def _table(title: str, figures: dict[str, Geometry], spectra: dict[str, list[float]]) -> Table:
    return Table(
        title=title,
        header=("encoder", "alignment ↓", "uniformity ↓", "anisotropy", "effective rank"),
        rows=tuple(
            (
                name,
                *(f"{value:.3f}" for value in one[:3]),
                f"{one.effective_rank:.1f} of {len(spectra[name])}",
            )
            for name, one in figures.items()
        ),
        notes=("lower alignment and lower uniformity are better, only both together mean something",),
    )


def _pictures(measured: _Measured) -> list[Chart]:
    from sentemb.report.figures import plain
    from sentemb.report.geometry import alignment_figure, spectrum_figure

    points = {plain(name): (one.uniformity, one.alignment) for name, one in measured.figures.items()}
    paths = {plain(name): path for name, path in measured.paths.items()}
    spectra = {plain(name): np.array(values) for name, values in measured.spectra.items()}
    ranks = {plain(name): one.effective_rank for name, one in measured.figures.items()}
    listed = ", ".join(measured.figures)
    return [
        picture_of(alignment_figure(points, paths), f"Alignment against uniformity of {listed}"),
        picture_of(spectrum_figure(spectra, ranks), f"Variance along each direction of {listed}"),
    ]


def _numbers(fields: Fields, name: str) -> list[float]:
    numbered = {str(place): value for place, value in enumerate(fields.get(name, list))}
    if not numbered:
        raise fields.fail(name, "empty")
    inside = Fields(fields.path, numbered, f"{fields.prefix}{name}.", hint=fields.hint)
    return [inside.get(place, float) for place in numbered]
