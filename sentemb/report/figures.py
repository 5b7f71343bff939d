"""Figures of curves, layers, intervals and geometry, rendered without pyplot and its global state."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette for color vision deficiencies, without black and yellow, which vanish on a dark or a
# light page.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A8A8A")
MARKERS = ("o", "s", "^", "D", "v", "P")
_GRID: dict[str, Any] = {"color": "#8a8a8a", "alpha": 0.3, "linewidth": 0.6}
# A legend fits into the frame up to this number of names and of characters; inches of a line below it.
_INSIDE, _SHORT, _LINE = 5, 28, 0.19
# Share of the largest eigenvalue below which a direction is unused: LayerNorm leaves BERT one direction less
# than its width, and float32 arithmetic puts about this much there.
_UNUSED = 1e-9

Curve = tuple[Sequence[float], Sequence[float]]
"""x and y of each point."""
Band = tuple[Sequence[float], Sequence[float], Sequence[float]]
"""x, mean and standard deviation of each point."""
LearningCurve = Mapping[int, float]
"""Optimizer step to score."""
Point = tuple[float, float]
"""Uniformity and alignment."""


def panels(count: int = 1, *, width: float = 5.2, height: float = 3.4) -> tuple[Figure, list[Axes]]:
    """Make a figure of panels side by side, each without the upper and the right line of its frame."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = list(figure.subplots(1, count, squeeze=False)[0])
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def png_of(figure: Figure, *, dots_per_inch: int = 130) -> bytes:
    """Render a figure as PNG.

    Example:
        >>> figure = curve_figure({"simcse": ([0, 50], [49.8, 65.0])}, x_label="step", y_label="score")
        >>> png_of(figure)[1:4]
        b'PNG'
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dots_per_inch)
    return buffer.getvalue()


def svg_of(figure: Figure) -> str:
    """Render a figure as an SVG element for a page, with text as text and the page's text color as black.

    Equal figures give equal strings.

    Example:
        >>> figure = curve_figure({"simcse": ([0, 50], [49.8, 65.0])}, x_label="step", y_label="score")
        >>> svg_of(figure)[:4]
        '<svg'
    """
    buffer = io.StringIO()
    with rc_context({"svg.hashsalt": "sentemb", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    whole = buffer.getvalue()
    drawn = re.sub(r"<metadata>.*?</metadata>", "", whole[whole.index("<svg") :], flags=re.DOTALL)
    opening, rest = drawn.split(">", 1)
    # Without a size of its own, the figure takes the width of its place.
    drawn = re.sub(r' (?:width|height)="[^"]*"', "", opening) + ">" + rest
    # Two figures of a page must not share an id.
    mark = hashlib.sha256(drawn.encode("utf-8")).hexdigest()[:8]
    drawn = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>f{mark}-", drawn)
    return drawn.replace("#000000", "currentColor").replace("'DejaVu Sans', ", "")


def plain(name: str) -> str:
    """Escape the dollar signs of a name, between which matplotlib reads mathematics."""
    return name.replace("$", r"\$")


def curve_figure(curves: Mapping[str, Curve], *, x_label: str, y_label: str) -> Figure:
    """Draw one line per named curve.

    Args:
        curves: Name to the x and y of each point.
        x_label: Label of the x axis.
        y_label: Label of the y axis.

    Example:
        >>> curves = {"simcse": ([0, 50, 100], [49.8, 65.0, 69.4])}
        >>> figure = curve_figure(curves, x_label="step", y_label="score")
    """
    figure, (axes,) = panels()
    for position, (name, (x, y)) in enumerate(curves.items()):
        axes.plot(x, y, marker="o", markersize=3, color=_colour(position), label=name)
    return _finish(figure, axes, x_label, y_label, legend=len(curves) > 1)


def band_figure(bands: Mapping[str, Band], *, x_label: str, y_label: str) -> Figure:
    """Draw one line per method with a band of one standard deviation (LaCon, figures 2, 3 and 6).

    Args:
        bands: Method to x, mean and standard deviation of each point. The x axis is logarithmic if x spans a
            factor of ten.
        x_label: Label of the x axis.
        y_label: Label of the y axis.

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
    return _finish(figure, axes, x_label, y_label, legend=len(bands) > 1)


def learning_curve_figure(runs: Mapping[str, Sequence[LearningCurve]], *, y_label: str) -> Figure:
    """Draw a line for each run: the mean over its seeds at the steps that all of them reached.

    Args:
        runs: Run to the learning curve of each seed.
        y_label: Name of the score.

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
    return _finish(figure, axes, "optimizer step", y_label)


def layer_figure(scores: Mapping[str, Mapping[str, Sequence[float | None]]], *, title: str = "") -> Figure:
    """Draw the scores of each layer and pooling (SG-BERT, figure 1), one panel per set.

    A ring and its score mark the best point of a panel.

    Args:
        scores: Set to pooling to the score of each layer, the embedding output first.
        title: Title above the panels.

    Example:
        >>> figure = layer_figure({"bert-mini": {"mean": [30.0, 40.0, 50.0], "cls": [20.0, 25.0, 41.0]}})
    """
    figure, all_axes = panels(len(scores), width=max(5.2, 4.4 * len(scores)))
    for axes, (name, curves) in zip(all_axes, scores.items(), strict=True):
        values = {pooling: np.array(each, dtype=float) for pooling, each in curves.items()}
        for position, (pooling, each) in enumerate(values.items()):
            axes.plot(each, marker=_marker(position), markersize=5, color=_colour(position), label=pooling)
        best = max(values.values(), key=lambda each: float(np.nanmax(each)))
        layer = int(np.nanargmax(best))
        axes.plot(layer, best[layer], marker="o", markersize=12, fillstyle="none", color="black")
        _annotate(axes, f"{best[layer]:.1f}", (layer, best[layer]), above=10)
        axes.set_title(name, fontsize="medium")
        axes.set_xlabel("layer (0: embedding output)")
        axes.set_xticks(range(len(best)))
        axes.margins(y=0.12)
        axes.grid(axis="y", **_GRID)
    all_axes[0].set_ylabel("Spearman × 100")
    all_axes[0].legend(frameon=False, title="pooling")
    figure.suptitle(title, fontsize="medium")
    return figure


def interval_figure(
    scores: Mapping[str, tuple[float, float, float]],
    *,
    x_label: str,
    limits: tuple[float, float] = (0.0, 100.0),
) -> Figure:
    """Draw scores or differences as dots with their intervals, one row per system.

    Args:
        scores: System to its score and the ends of the interval, from top to bottom.
        x_label: Name of the score.
        limits: Ends of the axis.

    """
    figure, (axes,) = panels(height=0.9 + 0.5 * len(scores))
    for row, (value, low, high) in enumerate(scores.values()):
        axes.plot(
            [low, high], [row, row], color=_colour(row), linewidth=3, alpha=0.45, solid_capstyle="round"
        )
        axes.plot(value, row, marker="o", markersize=8, color=_colour(row))
        _annotate(axes, f"{value:.0f}", (value, row), above=7)
    axes.set_yticks(range(len(scores)), [plain(name) for name in scores])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(scores) - 0.5, -0.7)
    axes.set_xlim(*limits)
    axes.set_xlabel(x_label)
    axes.grid(axis="x", **_GRID)
    return figure


def alignment_figure(points: Mapping[str, Point], paths: Mapping[str, Sequence[Point]]) -> Figure:
    """Draw encoders by uniformity and alignment, with their training paths (SimCSE, figure 2).

    Example:
        >>> figure = alignment_figure({"bert-mini": (-1.5, 0.4)}, {})
    """
    figure, (axes,) = panels(height=3.8)
    for position, (name, point) in enumerate(points.items()):
        colour = _colour(position)
        shared: dict[str, Any] = {"color": colour, "linestyle": "none"}
        if name in paths:
            path = np.asarray(paths[name], dtype=float)
            axes.plot(*path[0], marker="o", markersize=8, markerfacecolor="white", zorder=3, **shared)
            axes.plot(*path[1:].T, marker="o", markersize=2.5, zorder=3, **shared)
            style = {"arrowstyle": "->", "alpha": 0.7, "linewidth": 1, "shrinkA": 1, "shrinkB": 1}
            for start, end in pairwise(path):
                axes.annotate("", end, start, arrowprops={**style, "color": colour})
        star = "*P"[position // len(COLOURS) % 2]
        axes.plot(*point, marker=star, markersize=15, markeredgecolor="white", zorder=4, label=name, **shared)
    axes.margins(0.08)
    return _finish(
        figure, axes, "uniformity  (← more evenly distributed)", "alignment  (↓ positive pairs closer)"
    )


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
            color=_colour(position),
            marker="o" if len(present) < 4 else None,
            linestyle=("-", "--")[position // len(COLOURS) % 2],
            label=f"{name}: effective rank {ranks[name]:.1f} of {len(values)}",
        )
    return _finish(figure, axes, "principal direction", "share of the variance")


def _colour(position: int) -> str:
    return COLOURS[position % len(COLOURS)]


def _marker(position: int) -> str:
    return MARKERS[position % len(MARKERS)]


def _annotate(axes: Axes, text: str, point: Point, *, above: int) -> None:
    axes.annotate(text, point, (0, above), textcoords="offset points", ha="center", fontsize="small")


def _draw_band(axes: Axes, band: Band, position: int, name: str) -> None:
    x, mean, spread = (np.asarray(one, dtype=float) for one in band)
    colour = _colour(position)
    axes.plot(x, mean, marker=_marker(position), markersize=4, color=colour, label=name, zorder=3)
    if spread.any():
        axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)


def _finish(figure: Figure, axes: Axes, x_label: str, y_label: str, *, legend: bool = True) -> Figure:
    """Label the axes; the legend is inside the frame, or below the axes if it would cover them."""
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    handles, names = axes.get_legend_handles_labels()
    if legend and len(names) <= _INSIDE and max(map(len, names)) <= _SHORT:
        axes.legend(frameon=False, fontsize="small")
    elif legend:
        width, height = figure.get_size_inches()
        figure.set_size_inches(width, height + _LINE * len(names))
        figure.legend(handles, names, loc="outside lower left", frameon=False, fontsize="small")
    return figure
