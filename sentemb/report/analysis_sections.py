"""The sections of a report on the inside of encoders: geometry, layers, learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from sentemb.errors import InputError
from sentemb.evaluation.naming import without_seed
from sentemb.evaluation.schema import Record
from sentemb.report.analyses import GeometryFile, read_geometry
from sentemb.report.labels import Label, label_table
from sentemb.report.layers import layer_record_figure, layer_tables
from sentemb.report.results import geometry_table
from sentemb.report.sections import Chart, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sentemb.report.curves import LearningCurve

_SPEARMAN = "spearman_cosine"


def geometry_section(
    records: Sequence[Record], folders: Sequence[Path], labels: Mapping[str, Label], *, figures: bool
) -> Section | None:
    """The records of geometry, and what `sentemb analyse geometry` measured."""
    sets = list(dict.fromkeys((one.datasets[0].name, one.datasets[0].split) for one in records))
    groups = [
        [one for one in records if (one.datasets[0].name, one.datasets[0].split) == key] for key in sets
    ]
    paths = [folder / "geometry.json" for folder in folders]
    analyses = [read_geometry(path) for path in paths if path.is_file()]
    tables = [label_table(geometry_table(some), labels) for some in groups]
    tables += [one.table() for one in analyses]
    if not tables:
        return None
    charts: list[Chart] = []
    if figures:
        for some in groups:
            charts += _geometry_charts(_joined(some, labels))
        for one in analyses:
            charts += _geometry_charts(one)
    return Section("geometry", "Geometry", tables=tuple(tables), charts=tuple(charts))


def _joined(records: Sequence[Record], labels: Mapping[str, Label]) -> GeometryFile:
    """Records as points and spectra, the mean over the seeds of a method."""
    methods: dict[str, list[Record]] = {}
    for one in records:
        method = without_seed(one.model)
        methods.setdefault(str(labels.get(method, method)), []).append(one)
    dataset = records[0].datasets[0]
    encoders = {
        name: {
            **{
                score.metric: fmean([run.score(dataset.name, score.metric) for run in runs])
                for score in runs[0].scores
            },
            "spectrum": [
                fmean(column) for column in zip(*(run.details["spectrum"] for run in runs), strict=True)
            ],
        }
        for name, runs in methods.items()
    }
    return GeometryFile.model_validate(
        {"data": dataset.name, "split": dataset.split, "encoders": encoders, "runs": {}}
    )


def _geometry_charts(found: GeometryFile) -> list[Chart]:
    from sentemb.report.geometry import geometry_figures

    shown = ("Alignment against uniformity", "Variance along each direction")
    listed = ", ".join(found.encoders)
    return [
        _chart(figure, f"{what} of {listed}")
        for what, figure in zip(shown, geometry_figures(found), strict=True)
    ]


def layers_section(records: Sequence[Record], *, figures: bool) -> Section | None:
    """The records of layers."""
    if not records:
        return None
    tables = tuple(table for record in records for table in layer_tables(record))
    charts = tuple(_chart(*layer_record_figure(record)) for record in records) if figures else ()
    return Section("layers", "What each layer knows", tables=tables, charts=charts)


def training_section(runs: Sequence[Path]) -> Section:
    """The scores of a dev set over the steps of runs, the seeds of a run as one line."""
    from sentemb.report.curves import learning_curve_figure

    by_dev: dict[str, dict[str, list[LearningCurve]]] = {}
    for folder in runs:
        for dev, curves in _learning_curves(folder).items():
            name = folder.resolve().name
            if name in by_dev.setdefault(dev, {}):
                raise InputError(f"two runs are called {name}", "rename a folder")
            by_dev[dev][name] = curves
    charts = [
        _chart(
            learning_curve_figure(curves, y_label=f"{dev} dev, Spearman × 100"),
            f"Spearman correlation x 100 on {dev} over the steps of {', '.join(curves)}",
        )
        for dev, curves in by_dev.items()
    ]
    return Section("training", "Learning curves", charts=tuple(charts))


def _learning_curves(folder: Path) -> Mapping[str, list[LearningCurve]]:
    """Dev set to the learning curve of every seed."""
    from sentemb.training.learning_curves import read_learning_curves

    if not folder.is_dir():
        raise InputError(f"no such folder: {folder}", "name the folder of a run")
    found: dict[str, list[LearningCurve]] = {}
    for member in sorted(folder.glob("seed-*")) or [folder]:
        trace = read_learning_curves(member, (_SPEARMAN,))
        if trace is not None:
            scores = [100 * value for value in trace.values[_SPEARMAN]]
            found.setdefault(trace.dev, []).append(dict(zip(trace.steps, scores, strict=True)))
    if not found:
        raise InputError(f"{folder} holds no run", "name a folder that sentemb train wrote")
    return found


def _chart(figure: Figure, description: str) -> Chart:
    from sentemb.report.figures import svg_of

    return Chart(svg_of(figure), description)
