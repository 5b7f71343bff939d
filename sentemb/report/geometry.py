"""Figures of how vectors lie: alignment against uniformity while training, and spectra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sentemb.report.figures import COLOURS, add_legend, panels, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sentemb.report.analyses import GeometryFile

Point = tuple[float, float]
# Of the largest eigenvalue: LayerNorm leaves BERT one direction less than its width, and float32 arithmetic
# puts about this much there.
_UNUSED = 1e-9


def geometry_figures(found: GeometryFile) -> tuple[Figure, Figure]:
    """Alignment against uniformity, and spectra."""
    encoders = {plain(name): one for name, one in found.encoders.items()}
    points = {name: (one.uniformity, one.alignment) for name, one in encoders.items()}
    paths = {
        plain(name): list(zip(one.uniformity, one.alignment, strict=True))
        for name, one in found.runs.items()
        if name in found.encoders
    }
    spectra = {name: np.array(one.spectrum) for name, one in encoders.items()}
    ranks = {name: one.effective_rank for name, one in encoders.items()}
    return alignment_figure(points, paths), spectrum_figure(spectra, ranks)


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
