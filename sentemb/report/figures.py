"""Figures of scores, geometry and maps of texts, rendered without pyplot and its global state."""

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

from sentemb.errors import InputError

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
_ONE_DIRECTION = 1e-6  # coordinates of float32 unit vectors differ by less only through rounding

Points = Sequence[float]
Point = tuple[float, float]


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


def curve_figure(curves: Mapping[str, tuple[Points, Points]], *, x_label: str, y_label: str) -> Figure:
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


def band_figure(bands: Mapping[str, tuple[Points, Points, Points]], *, x_label: str, y_label: str) -> Figure:
    """Draw one line per method with a band of one standard deviation (LaCon, figures 2, 3 and 6).

    A band is x, mean and deviation of each point. The x axis is logarithmic if x spans a factor of ten.
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


def learning_curve_figure(runs: Mapping[str, Sequence[Mapping[int, float]]], *, y_label: str) -> Figure:
    """Draw a line for each run, step to score of each seed: the mean at the steps that all seeds reached."""
    figure, (axes,) = panels()
    for position, (name, seeds) in enumerate(runs.items()):
        steps = sorted(set.intersection(*({*one} for one in seeds)))
        scores = [[one[step] for one in seeds] for step in steps]
        spread = [stdev(at_step) if len(seeds) > 1 else 0.0 for at_step in scores]
        count = f", {len(seeds)} seeds" if len(seeds) > 1 else ""
        _draw_band(axes, (steps, [fmean(one) for one in scores], spread), position, plain(name) + count)
    return _finish(figure, axes, "optimizer step", y_label)


def layer_figure(scores: Mapping[str, Mapping[str, Sequence[float | None]]], *, title: str = "") -> Figure:
    """Draw the scores of each layer by pooling, a panel per set (SG-BERT, figure 1).

    The embedding output comes first. A ring and its score mark the best point of a panel.
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
    """Draw scores with the ends of their intervals as dots on lines, one row per system, from top to bottom.

    Example:
        >>> figure = interval_figure({"bm25": (40, 30, 55), "hybrid": (70, 60, 80)}, x_label="hit@10")
    """
    figure, (axes,) = panels(height=0.9 + 0.5 * len(scores))
    for row, (value, low, high) in enumerate(scores.values()):
        axes.plot(
            [low, high], [row, row], color=_colour(row), linewidth=3, alpha=0.45, solid_capstyle="round"
        )
        axes.plot(value, row, marker="o", markersize=8, color=_colour(row))
        _annotate(axes, f"{value:.0f}", (value, row), above=7)
    axes.set_xlim(*limits)
    return _name_rows(figure, axes, [*scores], x_label)


def forest_figure(
    estimates: Mapping[str, tuple[float, float, float, bool]], *, title: str, x_label: str
) -> Figure:
    """Draw differences from a baseline, the ends of their intervals, and in color which are significant."""
    figure, (axes,) = panels(width=9, height=1 + 0.27 * len(estimates))
    axes.set_title(plain(title), fontsize="medium", loc="left")
    axes.axvline(0, color="#8a8a8a", linewidth=1)
    for row, (value, low, high, is_significant) in enumerate(estimates.values()):
        color = _colour(0) if is_significant else "black"
        axes.plot([low, high], [row, row], color=color, linewidth=1.5)
        axes.plot(value, row, marker="o", markersize=5, color=color)
        text, weight = f"{value:+.2f} ({low:+.2f} to {high:+.2f})", "bold" if is_significant else "normal"
        place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": "small"}
        axes.annotate(text, (1.02, row), fontweight=weight, **place)
    return _name_rows(figure, axes, [*estimates], x_label)


def _name_rows(figure: Figure, axes: Axes, names: Sequence[str], x_label: str) -> Figure:
    """Name the rows of a figure from top to bottom."""
    axes.set_yticks(range(len(names)), [plain(name) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(names) - 0.5, -0.7)
    axes.set_xlabel(x_label)
    axes.grid(axis="x", **_GRID)
    return figure


def alignment_figure(points: Mapping[str, Point], paths: Mapping[str, Sequence[Point]]) -> Figure:
    """Draw encoders by uniformity and alignment, with their training paths (SimCSE, figure 2)."""
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
    """Draw the share of the variance along each principal direction, on a logarithmic axis."""
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


def heat_map_figure(values: NDArray[np.floating], labels: Sequence[str], *, title: str = "") -> Figure:
    """Draw the similarities of some texts with each other, shape (texts, texts), each value in its cell.

    The diagonal stays blank, because its ones would take up half of the color scale.

    Example:
        >>> figure = heat_map_figure(np.eye(2), ["a cat sat", "birds fly"])
    """
    count = len(labels)
    margin = 0.6 + 0.075 * max(map(len, labels))  # inches of the longest label
    figure, (axes,) = panels(width=margin + 0.55 * count, height=0.8 + 0.5 * count)
    others = np.ma.masked_array(values, np.eye(count, dtype=bool))
    axes.imshow(others, cmap="cividis", aspect="auto")
    axes.set_xticks(range(count), [str(number + 1) for number in range(count)])
    axes.set_yticks(range(count), [f"{label}  {number + 1}" for number, label in enumerate(labels)])
    axes.tick_params(length=0)
    axes.set_title(title, fontsize="medium")
    middle = (float(others.min()) + float(others.max())) / 2
    for row, column in np.argwhere(~np.eye(count, dtype=bool)):
        value = values[row, column]
        text = f"{value:.2f}".replace("-0.00", "0.00")
        colour = "black" if value > middle else "white"
        axes.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)
    for side in axes.spines.values():
        side.set_visible(False)
    return figure


def project_to_plane(vectors: NDArray[np.float32], *, seed: int = 0) -> NDArray[np.float64]:
    """Map vectors to the plane by t-SNE on cosine distances, from principal components; shape (texts, 2)."""
    from sklearn.manifold import TSNE

    if len(vectors) < 3:
        raise InputError(f"a map needs at least three texts, but got {len(vectors)}", "provide more texts")
    unit = _unit(vectors)
    if np.ptp(unit, axis=0).max() < _ONE_DIRECTION:
        return np.zeros((len(unit), 2))
    perplexity = min(30.0, (len(unit) - 1) / 3)  # must be smaller than the number of points
    projection = TSNE(2, metric="cosine", init="pca", perplexity=perplexity, random_state=seed)
    return np.asarray(projection.fit_transform(unit))


def pair_map_figure(vectors: Mapping[str, NDArray[np.float32]], *, positives: int, seed: int = 0) -> Figure:
    """Draw pairs with the same meaning and pairs without (SG-BERT, figures 5 and 6).

    `vectors` has the first and second sentence of each pair in turn, positives first, by encoder. Each
    sentence is a dot with the number of its pair, and a line joins the two of a pair. A projection cannot
    keep all distances, so the title of each panel has the mean cosines.
    """
    figure, all_axes = panels(len(vectors), width=5.2 * len(vectors), height=5.4)
    centre: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7, "color": "white"}
    for axes, (name, rows) in zip(all_axes, vectors.items(), strict=True):
        points, unit = project_to_plane(rows, seed=seed), _unit(rows)
        cosines = np.sum(unit[::2] * unit[1::2], axis=1)
        positive, negative = (float(np.mean(part)) for part in np.split(cosines, [positives]))
        for pair in points.reshape(-1, 2, 2):
            axes.plot(*pair.T, color="#999999", linewidth=0.6, zorder=1)
        kinds = {"negative pairs": points[2 * positives :], "positive pairs": points[: 2 * positives]}
        for number, (kind, part) in enumerate(kinds.items()):
            _scatter(axes, part, number, label=kind, zorder=2, s=130, edgecolor="white", linewidth=0.5)
        for row, (x, y) in enumerate(points):
            axes.text(x, y, str(1 + (row // 2 if row < 2 * positives else row // 2 - positives)), **centre)
        title = f"{name}\nmean cosine {positive:.2f} of positive, {negative:.2f} of negative pairs"
        axes.set(title=title, xticks=[], yticks=[])
    return _with_legend_below(figure)


def label_map_figure(
    maps: Mapping[str, tuple[NDArray[np.float32], NDArray[np.float32] | None]],
    classes: NDArray[np.int64],
    names: Sequence[str],
    *,
    seed: int = 0,
) -> Figure:
    """Draw texts as dots and label vectors, if there are any, as stars (SCL, figure 2; LaCon, figure 4).

    Texts and labels of a panel are projected together, so distances between stars and dots are comparable.
    """
    figure, all_axes = panels(len(maps), width=4.8 * len(maps), height=5.0)
    star = {"marker": "*", "s": 260, "edgecolor": "black", "zorder": 3}
    for axes, (title, (vectors, labels)) in zip(all_axes, maps.items(), strict=True):
        joined = vectors if labels is None else np.concatenate([vectors, labels])
        points = project_to_plane(joined, seed=seed)
        dots, stars = points[: len(vectors)], points[len(vectors) :]
        for number, name in enumerate(names):
            _scatter(axes, dots[classes == number], number, s=14, alpha=0.6, linewidth=0, label=name)
            if len(stars):
                _scatter(axes, stars[number : number + 1], number, **star)
        axes.set(title=title, xticks=[], yticks=[])
    return _with_legend_below(figure)


def _colour(position: int) -> str:
    return COLOURS[position % len(COLOURS)]


def _marker(position: int) -> str:
    return MARKERS[position % len(MARKERS)]


def _annotate(axes: Axes, text: str, point: Point, *, above: int) -> None:
    axes.annotate(text, point, (0, above), textcoords="offset points", ha="center", fontsize="small")


def _draw_band(axes: Axes, band: tuple[Points, Points, Points], position: int, name: str) -> None:
    x, mean, spread = (np.asarray(one, dtype=float) for one in band)
    colour = _colour(position)
    axes.plot(x, mean, marker=_marker(position), markersize=4, color=colour, label=name, zorder=3)
    if spread.any():
        axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)


def _scatter(axes: Axes, points: NDArray[np.float64], number: int, **style: Any) -> None:
    marker = "o" if number < len(COLOURS) else "^"  # distinguishes twice as many groups as there are colors
    style = {"marker": marker, "color": _colour(number), **style}
    axes.scatter(points[:, 0], points[:, 1], **style)


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    double = np.asarray(vectors, dtype=np.float64)
    norms = np.linalg.norm(double, axis=1, keepdims=True)
    unit: NDArray[np.float64] = double / np.maximum(norms, np.finfo(np.float64).tiny)
    return unit


def _with_legend_below(figure: Figure) -> Figure:
    handles, names = figure.axes[0].get_legend_handles_labels()
    columns = min(len(names), 6 if len(figure.axes) > 1 else 4)
    figure.legend(handles, names, loc="outside lower center", ncols=columns, frameon=False)
    return figure


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
