"""Figures of studies of classifiers: scores against what a protocol varies, maps of texts and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sentemb.report.figures import COLOURS, project_to_plane

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = ("o", "s", "^", "D", "v", "P")
Curve = tuple[Sequence[float], Sequence[float], Sequence[float]]


def band_figure(curves: Mapping[str, Curve], *, x_label: str, y_label: str) -> Figure:
    """Draw one line per method with a band of one standard deviation (LaCon, figures 2, 3 and 6)."""
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    values = sorted({value for x, _, _ in curves.values() for value in x})
    if values[0] > 0 and values[-1] / values[0] >= 10:
        axes.set_xscale("log")
    for position, (name, (x, means, deviations)) in enumerate(curves.items()):
        colour, mean, spread = COLOURS[position % len(COLOURS)], np.asarray(means), np.asarray(deviations)
        marker = _MARKERS[position % len(_MARKERS)]
        axes.plot(x, mean, marker=marker, markersize=4, color=colour, label=name, zorder=3)
        axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if len(curves) > 1:
        axes.legend(frameon=False, fontsize="small", ncols=1 + (len(curves) > 4))
    return figure


def label_map_figure(
    panels: Mapping[str, tuple[NDArray[np.float32], NDArray[np.float32] | None]],
    classes: NDArray[np.int64],
    names: Sequence[str],
    *,
    seed: int = 0,
) -> Figure:
    """Draw texts as dots and label vectors as stars, by t-SNE (SCL, figure 2; LaCon, figure 4).

    Texts and labels of a panel are projected together, so that the nearness of a star to the dots of its
    class means something.
    """
    figure = Figure(figsize=(4.8 * len(panels), 5.0), layout="constrained")
    all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, (vectors, labels)) in zip(all_axes, panels.items(), strict=True):
        together = vectors if labels is None else np.concatenate([vectors, labels])
        points = project_to_plane(together, seed=seed)
        _draw_map(axes, points[: len(vectors)], points[len(vectors) :], classes, names)
        axes.set_title(title)
    handles, shown = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, shown, loc="outside lower center", ncols=min(len(names), 6), frameon=False)
    return figure


def _draw_map(
    axes: Axes,
    dots: NDArray[np.float64],
    stars: NDArray[np.float64],
    classes: NDArray[np.int64],
    names: Sequence[str],
) -> None:
    for number, name in enumerate(names):
        colour = COLOURS[number % len(COLOURS)]
        # Twice the palette's length is told apart by the marker.
        marker = "o" if number < len(COLOURS) else "^"
        chosen = dots[classes == number]
        axes.scatter(
            chosen[:, 0], chosen[:, 1], s=14, marker=marker, color=colour, alpha=0.6, linewidth=0, label=name
        )
        if len(stars):
            star = stars[number]
            axes.scatter(star[0], star[1], s=260, marker="*", color=colour, edgecolor="black", zorder=3)
    axes.set_xticks([])
    axes.set_yticks([])
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
