"""Figures of how vectors lie: alignment against uniformity while training, and spectra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sentemb.report.figures import COLOURS, add_legend, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[float, float]
# Of the largest eigenvalue: LayerNorm leaves BERT one direction less than its width, and float32 arithmetic
# puts about this much there.
_UNUSED = 1e-9


def alignment_figure(points: Mapping[str, Point], paths: Mapping[str, Sequence[Point]]) -> Figure:
    """Draw encoders by uniformity and alignment, with the way that training took them (SimCSE, figure 2)."""
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
    axes.set_xlabel("uniformity  (← spread more evenly)")
    axes.set_ylabel("alignment  (↓ pairs of one meaning closer)")
    add_legend(figure, axes)
    return figure


def spectrum_figure(spectra: Mapping[str, NDArray[np.float64]], ranks: Mapping[str, float]) -> Figure:
    """Draw the share of the variance along each principal direction, on a logarithmic axis."""
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
