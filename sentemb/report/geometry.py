"""Figures of records of geometry: alignment against uniformity while training, and spectra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sentemb.evaluation.naming import without_seed
from sentemb.evaluation.schema import Record
from sentemb.report.figures import COLOURS, add_legend, panels, plain
from sentemb.report.labels import Label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[float, float]
"""Uniformity and alignment."""
# Of the largest eigenvalue: LayerNorm leaves BERT one direction less than its width, and float32 arithmetic
# puts about this much there.
_UNUSED = 1e-9


class TrainingPath(NamedTuple):
    """Where training took an encoder."""

    name: str  # of the encoder
    dev: str  # the set that the points are of
    points: tuple[Point, ...]  # at the evaluations, the base first; of several seeds the mean

    def is_on(self, record: Record) -> bool:
        """Whether a record is of the pairs that the points are of."""
        dataset = record.datasets[0]
        return (dataset.name, dataset.split) == (self.dev, "dev")


def read_training_path(folder: Path) -> TrainingPath | None:
    """Read the training path of a run, or the mean over its seeds; None where the folder holds no run."""
    from sentemb.training.folder import read_learning_curves

    members = sorted(folder.glob("seed-*")) or [folder]
    read = [read_learning_curves(member, ("uniformity", "alignment")) for member in members]
    found = [one for one in read if one is not None]
    if not found:
        return None
    at = [dict(zip(one.steps, zip(*one.values.values(), strict=True), strict=True)) for one in found]
    steps = sorted(set.intersection(*map(set, at)))
    points = np.mean([[one[step] for step in steps] for one in at], axis=0)  # (steps, 2)
    return TrainingPath(folder.resolve().name, found[0].dev, tuple(map(tuple, points.tolist())))


def by_pairs(records: Sequence[Record]) -> list[list[Record]]:
    """Records of geometry apart by the set and split that they were measured on."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for one in records:
        groups.setdefault((one.datasets[0].name, one.datasets[0].split), []).append(one)
    return list(groups.values())


def geometry_figures(
    records: Sequence[Record], labels: Mapping[str, Label], paths: Sequence[TrainingPath] = ()
) -> tuple[Figure, Figure]:
    """Alignment against uniformity, and spectra, of records on one set: means over the seeds of a method."""
    dataset = records[0].datasets[0].name
    methods: dict[str, list[Record]] = {}
    for one in records:
        methods.setdefault(plain(shown_name(one.model, labels)), []).append(one)

    def mean(runs: Sequence[Record], metric: str) -> float:
        return fmean(run.score(dataset, metric) for run in runs)

    points = {name: (mean(runs, "uniformity"), mean(runs, "alignment")) for name, runs in methods.items()}
    spectra = {
        name: np.mean([run.details["spectrum"] for run in runs], axis=0) for name, runs in methods.items()
    }
    ranks = {name: mean(runs, "effective_rank") for name, runs in methods.items()}
    ways = {plain(shown_name(one.name, labels)): one.points for one in paths if one.is_on(records[0])}
    return alignment_figure(points, ways), spectrum_figure(spectra, ranks)


def shown_name(model: str, labels: Mapping[str, Label]) -> str:
    """What figures call the method that a model is a run of."""
    method = without_seed(model)
    return str(labels.get(method, method))


def alignment_figure(points: Mapping[str, Point], paths: Mapping[str, Sequence[Point]]) -> Figure:
    """Draw encoders by uniformity and alignment, with their training paths (SimCSE, figure 2).

    Example:
        >>> figure = alignment_figure({"bert-mini": (-1.5, 0.4)}, {})
    """
    figure, (axes,) = panels(height=3.8)
    for position, (name, point) in enumerate(points.items()):
        colour = COLOURS[position % len(COLOURS)]
        if name in paths:
            _draw_path(axes, np.asarray(paths[name], dtype=float), colour)
        axes.plot(
            *point,
            marker="*P"[position // len(COLOURS) % 2],
            markersize=15,
            color=colour,
            markeredgecolor="white",
            linestyle="none",
            zorder=4,
            label=name,
        )
    axes.margins(0.08)
    axes.set_xlabel("uniformity  (← more evenly distributed)")
    axes.set_ylabel("alignment  (↓ positive pairs closer)")
    add_legend(figure, axes)
    return figure


def spectrum_figure(spectra: Mapping[str, NDArray[np.float64]], ranks: Mapping[str, float]) -> Figure:
    """Draw the share of the variance along each principal direction, on a logarithmic axis.

    Example:
        >>> figure = spectrum_figure({"bert-mini": np.array([0.5, 0.3, 0.2])}, {"bert-mini": 2.8})
    """
    figure, (axes,) = panels()
    axes.set_yscale("log")
    for position, (name, values) in enumerate(spectra.items()):
        present = values[values > _UNUSED * values.max()]
        axes.plot(
            np.arange(1, len(present) + 1),
            present / present.sum(),
            color=COLOURS[position % len(COLOURS)],
            marker="o" if len(present) < 4 else None,
            linestyle=("-", "--")[position // len(COLOURS) % 2],
            label=f"{name}: effective rank {ranks[name]:.1f} of {len(values)}",
        )
    axes.set_xlabel("principal direction")
    axes.set_ylabel("share of the variance")
    add_legend(figure, axes)
    return figure


def _draw_path(axes: Axes, path: NDArray[np.float64], colour: str) -> None:
    axes.plot(
        *path[0], marker="o", markersize=8, markerfacecolor="white", color=colour, linestyle="none", zorder=3
    )
    axes.plot(*path[1:].T, marker="o", markersize=2.5, color=colour, linestyle="none", zorder=3)
    style = {"arrowstyle": "->", "color": colour, "alpha": 0.7, "linewidth": 1, "shrinkA": 1, "shrinkB": 1}
    for start, end in pairwise(path):
        axes.annotate("", end, start, arrowprops=style)
