"""The sections of a report on the inside of encoders: geometry, layers, learning curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sentemb.errors import InputError
from sentemb.evaluation.schema import Record
from sentemb.report.geometry import by_pairs, geometry_figures, read_training_path, shown_name
from sentemb.report.labels import Label, label_table
from sentemb.report.layers import layer_record_figure, layer_tables
from sentemb.report.results import geometry_table
from sentemb.report.sections import Chart, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sentemb.report.curves import LearningCurve

_SPEARMAN = "spearman_cosine"


def geometry_section(
    records: Sequence[Record], runs: Sequence[Path], labels: Mapping[str, Label], *, figures: bool
) -> Section | None:
    """The records of geometry, with the way of the runs among them."""
    if not records:
        return None
    groups = by_pairs(records)
    tables = tuple(label_table(geometry_table(some), labels) for some in groups)
    charts = [chart for some in groups for chart in _geometry_charts(some, runs, labels)] if figures else []
    return Section("geometry", "Geometry", tables=tables, charts=tuple(charts))


def _geometry_charts(
    records: Sequence[Record], runs: Sequence[Path], labels: Mapping[str, Label]
) -> Iterator[Chart]:
    paths = []
    for folder in runs:
        with suppress(InputError):  # a run that measured no geometry has a learning curve all the same
            path = read_training_path(folder)
            paths += [] if path is None else [path]
    shown = ("Alignment against uniformity", "Variance along each direction")
    listed = ", ".join(dict.fromkeys(shown_name(one.model, labels) for one in records))
    for figure, what in zip(geometry_figures(records, labels, paths), shown, strict=True):
        yield _chart(figure, f"{what} of {listed}")


def layers_section(records: Sequence[Record], *, figures: bool) -> Section | None:
    """The records of layers."""
    if not records:
        return None
    tables = tuple(table for record in records for table in layer_tables(record))
    charts = tuple(_chart(*layer_record_figure(record)) for record in records) if figures else ()
    return Section("layers", "Scores by layer", tables=tables, charts=charts)


def training_section(runs: Sequence[Path]) -> Section:
    """The scores of a dev set over the steps of runs, the seeds of a run as one line."""
    from sentemb.report.curves import learning_curve_figure

    by_dev: dict[str, dict[str, list[LearningCurve]]] = {}
    for folder in runs:
        for dev, curves in _learning_curves(folder).items():
            name = folder.resolve().name
            if name in by_dev.setdefault(dev, {}):
                raise InputError(f"two runs have the same name, {name}", "rename a folder")
            by_dev[dev][name] = curves
    charts = [
        _chart(
            learning_curve_figure(curves, y_label=f"{dev} dev, Spearman × 100"),
            f"Spearman correlation x 100 on {dev} over the training steps of {', '.join(curves)}",
        )
        for dev, curves in by_dev.items()
    ]
    return Section("training", "Learning curves", charts=tuple(charts))


def _learning_curves(folder: Path) -> Mapping[str, list[LearningCurve]]:
    """Dev set to the learning curve of every seed."""
    from sentemb.training.folder import read_learning_curves

    if not folder.is_dir():
        raise InputError(f"no such folder: {folder}", "list the folder of a run")
    found: dict[str, list[LearningCurve]] = {}
    for member in sorted(folder.glob("seed-*")) or [folder]:
        trace = read_learning_curves(member, (_SPEARMAN,))
        if trace is not None:
            scores = [100 * value for value in trace.values[_SPEARMAN]]
            found.setdefault(trace.dev, []).append(dict(zip(trace.steps, scores, strict=True)))
    if not found:
        raise InputError(f"{folder} does not contain a run", "list a folder that sentemb train wrote")
    return found


def _chart(figure: Figure, description: str) -> Chart:
    from sentemb.report.figures import svg_of

    return Chart(svg_of(figure), description)
