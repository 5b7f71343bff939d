"""Figures of scores with their intervals, one row per system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sentemb.report.figures import COLOURS, panels, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def interval_figure(
    scores: Mapping[str, tuple[float, float, float]],
    *,
    x_label: str,
    limits: tuple[float, float] = (0.0, 100.0),
) -> Figure:
    """Draw scores or differences as dots with their intervals, the value written above.

    Args:
        scores: System to its score and the ends of the interval, in the order from top to bottom.
        x_label: What the score is.
        limits: Ends of the axis.

    Returns:
        The figure.
    """
    figure, (axes,) = panels(height=0.9 + 0.5 * len(scores))
    rows = range(len(scores))
    for row, (value, low, high) in zip(rows, scores.values(), strict=True):
        colour = COLOURS[row % len(COLOURS)]
        axes.plot([low, high], [row, row], color=colour, linewidth=3, alpha=0.45, solid_capstyle="round")
        axes.plot(value, row, marker="o", markersize=8, color=colour)
        axes.annotate(
            f"{value:.0f}", (value, row), (0, 7), textcoords="offset points", ha="center", fontsize="small"
        )
    axes.set_yticks(rows, [plain(name) for name in scores])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(scores) - 0.5, -0.7)
    axes.set_xlim(*limits)
    axes.set_xlabel(x_label)
    axes.grid(axis="x", color="#8a8a8a", alpha=0.3, linewidth=0.6)
    return figure
