"""Figures with a line per method: plain curves, bands over seeds, learning curves, scores of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sentemb.report.figures import COLOURS, MARKERS, add_legend, panels, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curve = tuple[Sequence[float], Sequence[float]]
"""The x and the y of each point."""
Band = tuple[Sequence[float], Sequence[float], Sequence[float]]
"""The x of each point, the mean and the standard deviation there."""
LearningCurve = Mapping[int, float]
"""Optimizer step to score."""


def curve_figure(curves: Mapping[str, Curve], *, x_label: str, y_label: str) -> Figure:
    """Draw one line per named curve.

    Args:
        curves: Name to the x and y of each point.
        x_label: What x is.
        y_label: What y is.

    Returns:
        The figure.

    Example:
        >>> curves = {"simcse": ([0, 50, 100], [49.8, 65.0, 69.4])}
        >>> figure = curve_figure(curves, x_label="step", y_label="score")
    """
    figure, (axes,) = panels()
    for position, (name, (x, y)) in enumerate(curves.items()):
        axes.plot(x, y, marker="o", markersize=3, color=COLOURS[position % len(COLOURS)], label=name)
    _label(figure, axes, x_label, y_label, legend=len(curves) > 1)
    return figure


def band_figure(bands: Mapping[str, Band], *, x_label: str, y_label: str) -> Figure:
    """Draw one line per method with a band of one standard deviation (LaCon, figures 2, 3 and 6).

    Args:
        bands: Method to x, mean and standard deviation of each point; a decade of x is logarithmic.
        x_label: What x is.
        y_label: What y is.

    Returns:
        The figure.

    Example:
        >>> bands = {"ce": ([10, 20], [60.0, 70.0], [2.0, 1.0])}
        >>> figure = band_figure(bands, x_label="examples", y_label="accuracy")
    """
    figure, (axes,) = panels()
    values = sorted({value for x, _, _ in bands.values() for value in x})
    if values[0] > 0 and values[-1] / values[0] >= 10:
        axes.set_xscale("log")
    for position, (name, band) in enumerate(bands.items()):
        _draw_band(axes, band, position, name)
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.set_xticks([], minor=True)
    _label(figure, axes, x_label, y_label, legend=len(bands) > 1)
    return figure


def learning_curve_figure(runs: Mapping[str, Sequence[LearningCurve]], *, y_label: str) -> Figure:
    """Draw a line for each run: the mean over its seeds at the steps that all of them reached.

    Args:
        runs: Run to the learning curve of each seed.
        y_label: What the score is.

    Returns:
        The figure.

    Example:
        >>> figure = learning_curve_figure(runs, y_label="Spearman")  # doctest: +SKIP
    """
    figure, (axes,) = panels()
    for position, (name, seeds) in enumerate(runs.items()):
        steps = sorted(set.intersection(*({*one} for one in seeds)))
        scores = [[one[step] for one in seeds] for step in steps]
        spread = [stdev(at_step) if len(seeds) > 1 else 0.0 for at_step in scores]
        count = f", {len(seeds)} seeds" if len(seeds) > 1 else ""
        _draw_band(axes, (steps, [fmean(one) for one in scores], spread), position, plain(name) + count)
    _label(figure, axes, "optimizer step", y_label, legend=True)
    return figure


def layer_figure(scores: Mapping[str, Mapping[str, Sequence[float | None]]], *, title: str = "") -> Figure:
    """Draw what each layer and pooling scores (SG-BERT, figure 1), one panel per set.

    The best point of a panel has a ring and its score.

    Args:
        scores: Set to pooling to the score of each layer, the embedding output first.
        title: Above the panels.

    Returns:
        The figure.

    Example:
        >>> figure = layer_figure({"bert-mini": {"mean": [30.0, 40.0, 50.0], "cls": [20.0, 25.0, 41.0]}})
    """
    figure, all_axes = panels(len(scores), width=max(5.2, 4.4 * len(scores)))
    for axes, (name, curves) in zip(all_axes, scores.items(), strict=True):
        values = {pooling: np.array(each, dtype=float) for pooling, each in curves.items()}
        for position, (pooling, each) in enumerate(values.items()):
            colour, marker = COLOURS[position % len(COLOURS)], MARKERS[position % len(MARKERS)]
            axes.plot(each, marker=marker, markersize=5, color=colour, label=pooling)
        _mark_best(axes, values)
        axes.set_title(name, fontsize="medium")
        axes.set_xlabel("layer (0: embedding output)")
        axes.set_xticks(range(len(next(iter(values.values())))))
        axes.margins(y=0.12)
        axes.grid(axis="y", color="#8a8a8a", alpha=0.3, linewidth=0.6)
    all_axes[0].set_ylabel("Spearman × 100")
    all_axes[0].legend(frameon=False, title="pooling")
    figure.suptitle(title, fontsize="medium")
    return figure


def _mark_best(axes: Axes, values: Mapping[str, NDArray[np.float64]]) -> None:
    best = max(values, key=lambda pooling: float(np.nanmax(values[pooling])))
    layer = int(np.nanargmax(values[best]))
    score = values[best][layer]
    axes.plot(layer, score, marker="o", markersize=12, fillstyle="none", color="black")
    axes.annotate(
        f"{score:.1f}", (layer, score), (0, 10), textcoords="offset points", ha="center", fontsize="small"
    )


def _draw_band(axes: Axes, band: Band, position: int, name: str) -> None:
    x, mean, spread = (np.asarray(one, dtype=float) for one in band)
    colour, marker = COLOURS[position % len(COLOURS)], MARKERS[position % len(MARKERS)]
    axes.plot(x, mean, marker=marker, markersize=4, color=colour, label=name, zorder=3)
    if spread.any():
        axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)


def _label(figure: Figure, axes: Axes, x_label: str, y_label: str, *, legend: bool) -> None:
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    if legend:
        add_legend(figure, axes)
