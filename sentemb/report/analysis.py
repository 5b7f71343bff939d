"""Analyses of encoders: geometry, layers and learning curves as tables, figures and sections of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sentemb.errors import InputError
from sentemb.evaluation.schema import DataSet, Record, without_seed
from sentemb.report.page import Section
from sentemb.report.results import geometry_table
from sentemb.report.table import ABSENT, Label, Table, label_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sentemb.training.folder import LearningCurves

_SPEARMAN = "spearman_cosine"

Scores = Mapping[str, tuple[float | None, ...]]
"""Pooling to one score per layer, from the embedding output (layer 0); None if there is no score."""


class TrainingPath(NamedTuple):
    """Alignment and uniformity of an encoder during training."""

    name: str  # of the encoder
    dev: str  # the data set
    points: tuple[tuple[float, float], ...]  # at the evaluations, the base first; the mean over seeds

    def is_on(self, record: Record) -> bool:
        """Return whether a record was measured on the same pairs."""
        return (record.datasets[0].name, record.datasets[0].split) == (self.dev, "dev")


def read_training_path(folder: Path) -> TrainingPath | None:
    """Read the training path of a run, or the mean over its seeds; None if the folder does not have one."""
    found = _read_seeds(folder, ("uniformity", "alignment"))
    if not found:
        return None
    at = [dict(zip(one.steps, zip(*one.values.values(), strict=True), strict=True)) for one in found]
    steps = sorted(set.intersection(*map(set, at)))
    points = np.mean([[one[step] for step in steps] for one in at], axis=0)  # (steps, 2)
    return TrainingPath(folder.resolve().name, found[0].dev, tuple(map(tuple, points.tolist())))


def by_pairs(records: Sequence[Record]) -> list[list[Record]]:
    """Group records of geometry by the set and split on which they were measured."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for one in records:
        groups.setdefault((one.datasets[0].name, one.datasets[0].split), []).append(one)
    return list(groups.values())


def shown_name(model: str, labels: Mapping[str, Label]) -> str:
    """Return the name in figures of the method that a model is a run of."""
    method = without_seed(model)
    return str(labels.get(method, method))


def geometry_figures(
    records: Sequence[Record], labels: Mapping[str, Label], paths: Sequence[TrainingPath] = ()
) -> tuple[Figure, Figure]:
    """Draw alignment over uniformity, and spectra, of records on one set: means over seeds."""
    from sentemb.report.figures import alignment_figure, plain, spectrum_figure

    dataset = records[0].datasets[0].name
    methods: dict[str, list[Record]] = {}
    for one in records:
        methods.setdefault(plain(shown_name(one.model, labels)), []).append(one)
    uniformity, alignment, rank = (
        {name: fmean(run.score(dataset, metric) for run in runs) for name, runs in methods.items()}
        for metric in ("uniformity", "alignment", "effective_rank")
    )
    points = {name: (uniformity[name], alignment[name]) for name in methods}
    spectra = {
        name: np.mean([run.details["spectrum"] for run in runs], axis=0) for name, runs in methods.items()
    }
    drawn = {plain(shown_name(one.name, labels)): one.points for one in paths if one.is_on(records[0])}
    return alignment_figure(points, drawn), spectrum_figure(spectra, rank)


def geometry_section(
    records: Sequence[Record], runs: Sequence[Path], labels: Mapping[str, Label], *, figures: bool
) -> Section:
    """Return the section on geometry, with the training paths of runs."""
    groups, charts = by_pairs(records), {}
    if figures:
        from sentemb.report.figures import svg_of

        paths = []
        for folder in runs:
            with suppress(InputError):  # a run without geometry has a learning curve
                paths += [path for path in [read_training_path(folder)] if path is not None]
        for some in groups:
            listed = ", ".join(dict.fromkeys(shown_name(one.model, labels) for one in some))
            first, second = geometry_figures(some, labels, paths)
            charts[f"Alignment against uniformity of {listed}"] = svg_of(first)
            charts[f"Variance along each direction of {listed}"] = svg_of(second)
    tables = tuple(label_table(geometry_table(some), labels) for some in groups)
    return Section("geometry", "Geometry", tables=tables, charts=charts)


def layer_scores(record: Record, dataset: DataSet) -> tuple[Scores, int, str]:
    """Return the scores of one data set of a record of the suite `layers`, and the best layer and pooling."""
    found: dict[str, dict[int, float]] = {}
    for score in record.scores:
        if score.dataset == dataset.name:
            pooling, _, number = score.protocol.partition(", layer ")
            found.setdefault(pooling, {})[int(number)] = score.value
    layers = range(1 + max(map(max, found.values())))
    # The first of equals: the lowest layer.
    best = [(score, -layer, pooling) for pooling, own in found.items() for layer, score in own.items()]
    _, layer, pooling = max(best, key=lambda one: one[:2])
    scores = {pooling: tuple(own.get(layer) for layer in layers) for pooling, own in found.items()}
    return scores, -layer, pooling


def layer_tables(record: Record) -> Iterator[Table]:
    """Yield a table for each data set: a row per layer, the best score in bold."""
    for dataset in record.datasets:
        scores, layer, pooling = layer_scores(record, dataset)
        yield Table(
            title=f"{record.model}: {dataset.name} {dataset.split}, {dataset.items:,} pairs, Spearman x 100 "
            "of cosine similarities by layer and pooling, protocol all",
            header=("layer", *scores),
            rows=tuple(
                (str(number), *(ABSENT if score is None else f"{score:.2f}" for score in own))
                for number, own in enumerate(zip(*scores.values(), strict=True))
            ),
            notes=("layer 0 is the embedding output",),
            best=frozenset({(layer, 1 + list(scores).index(pooling))}),
        )


def layer_record_figure(record: Record) -> tuple[Figure, str]:
    """Return the figure of a record, a panel per data set, and its description."""
    from sentemb.report.figures import layer_figure, plain

    found = {f"{one.name} {one.split}": layer_scores(record, one) for one in record.datasets}
    best = [f"layer {layer}, {pooling} pooling" for _, layer, pooling in found.values()]
    figure = layer_figure({name: one[0] for name, one in found.items()}, title=plain(record.model))
    return figure, f"Scores by layer of {record.model}; the best: {', '.join(best)}"


def layers_section(records: Sequence[Record], *, figures: bool) -> Section:
    """Return the section on layers."""
    tables, charts = tuple(table for record in records for table in layer_tables(record)), {}
    if figures:
        from sentemb.report.figures import svg_of

        charts = {text: svg_of(figure) for figure, text in map(layer_record_figure, records)}
    return Section("layers", "Scores by layer", tables=tables, charts=charts)


def training_section(runs: Sequence[Path]) -> Section:
    """Return the section with the dev scores of runs over the steps, the seeds of a run as one line."""
    by_dev: dict[str, dict[str, list[dict[int, float]]]] = {}
    for folder in runs:
        if not folder.is_dir():
            raise InputError(f"no such folder: {folder}", "list the folder of a run")
        name = folder.resolve().name
        if any(name in curves for curves in by_dev.values()):
            raise InputError(f"two runs have the same name, {name}", "rename a folder")
        found = _read_seeds(folder, (_SPEARMAN,))
        if not found:
            raise InputError(f"{folder} does not contain a run", "list a folder that sentemb train wrote")
        for one in found:
            curve = {step: 100 * value for step, value in zip(one.steps, one.values[_SPEARMAN], strict=True)}
            by_dev.setdefault(one.dev, {}).setdefault(name, []).append(curve)
    charts = {}
    for dev, curves in by_dev.items():
        from sentemb.report.figures import learning_curve_figure, svg_of

        title = f"Spearman correlation x 100 on {dev} over the training steps of {', '.join(curves)}"
        charts[title] = svg_of(learning_curve_figure(curves, y_label=f"{dev} dev, Spearman × 100"))
    return Section("training", "Learning curves", charts=charts)


def _read_seeds(folder: Path, measures: Sequence[str]) -> list[LearningCurves]:
    from sentemb.training.folder import read_learning_curves

    read = [read_learning_curves(one, measures) for one in sorted(folder.glob("seed-*")) or [folder]]
    return [one for one in read if one is not None]
