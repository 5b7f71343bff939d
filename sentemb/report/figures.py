"""Figures as matplotlib objects, drawn without pyplot so that no global state or display is touched."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sentemb.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, distinguishable with the common colour vision deficiencies.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
# Coordinates of float32 unit vectors that differ by less are equal but for rounding.
_ONE_DIRECTION = 1e-6


def curve_figure(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, x_label: str, y_label: str
) -> Figure:
    """Draw one line per named curve."""
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    axes = figure.subplots()
    for position, (name, (x, y)) in enumerate(curves.items()):
        axes.plot(x, y, marker="o", markersize=3, color=COLOURS[position % len(COLOURS)], label=name)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    plain_frame(axes)
    if len(curves) > 1:
        axes.legend(frameon=False)
    return figure


def heat_map_figure(values: NDArray[np.floating], labels: Sequence[str], *, title: str = "") -> Figure:
    """Draw the similarities of some texts with each other as colours, each value written in its cell.

    The diagonal, every text with itself, stays blank: its ones would take up half of the colours.
    """
    count = len(labels)
    margin = 0.6 + 0.075 * max(map(len, labels))  # inches that the longest label takes
    figure = Figure(figsize=(margin + 0.55 * count, 0.8 + 0.5 * count), layout="constrained")
    axes = figure.subplots()
    others = np.ma.masked_array(values, np.eye(count, dtype=bool))
    axes.imshow(others, cmap="cividis", aspect="auto")
    axes.set_xticks(range(count), [str(number + 1) for number in range(count)])
    axes.set_yticks(range(count), [f"{label}  {number + 1}" for number, label in enumerate(labels)])
    axes.tick_params(length=0)
    axes.set_title(title, fontsize="medium")
    middle = (float(others.min()) + float(others.max())) / 2
    for row, column in np.argwhere(~np.eye(count, dtype=bool)):
        value = values[row, column]
        colour = "black" if value > middle else "white"
        written = f"{value:.2f}".replace("-0.00", "0.00")
        axes.text(column, row, written, ha="center", va="center", fontsize=8, color=colour)
    for side in axes.spines.values():
        side.set_visible(False)
    return figure


def map_figure(
    panels: Mapping[str, NDArray[np.float64]],
    groups: Sequence[str],
    links: Sequence[tuple[int, int]] = (),
    labels: Sequence[str] = (),
) -> Figure:
    """Draw two-dimensional maps of the same texts side by side."""
    names = sorted(set(groups))
    figure = Figure(figsize=(5.2 * len(panels), 5.4), layout="constrained")
    all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
    membership = np.array([names.index(group) for group in groups])
    for axes, (title, points) in zip(all_axes, panels.items(), strict=True):
        for first, second in links:
            axes.plot(*points[[first, second]].T, color="#999999", linewidth=0.6, zorder=1)
        for index, name in enumerate(names):
            # Twice the palette's length is told apart by the marker.
            marker = "o" if index < len(COLOURS) else "^"
            chosen = points[membership == index]
            axes.scatter(
                *chosen.T,
                s=130 if labels else 14,
                marker=marker,
                color=COLOURS[index % len(COLOURS)],
                edgecolor="white" if labels else None,
                linewidth=0.5,
                label=name,
                zorder=2,
            )
        for point, label in zip(points, labels, strict=False):
            axes.text(*point, label, ha="center", va="center", fontsize=7, color="white", zorder=3)
        axes.set_title(title)
        axes.set_xticks([])
        axes.set_yticks([])
        plain_frame(axes)
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(names), 6), frameon=False)
    return figure


def project_to_plane(vectors: NDArray[np.float32], *, seed: int = 0) -> NDArray[np.float64]:
    """Map vectors to the plane by t-SNE on cosine distances.

    It starts from the first two principal components, as scikit-learn does, so that what lies on the two
    sides of the whole mostly stays there; a random start places groups anywhere.
    """
    from sklearn.manifold import TSNE

    if len(vectors) < 3:
        raise InputError(f"a map needs at least three texts, not {len(vectors)}", "give more texts")
    double = np.asarray(vectors, dtype=np.float64)
    unit = double / np.maximum(np.linalg.norm(double, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    if np.ptp(unit, axis=0).max() < _ONE_DIRECTION:
        return np.zeros((len(unit), 2))
    # Perplexity has to stay below the number of points.
    perplexity = min(30.0, (len(unit) - 1) / 3)
    projection = TSNE(2, metric="cosine", init="pca", perplexity=perplexity, random_state=seed)
    return np.asarray(projection.fit_transform(unit))


def png_of(figure: Figure, *, dots_per_inch: int = 130) -> bytes:
    """Render a figure."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dots_per_inch)
    return buffer.getvalue()


def svg_of(figure: Figure) -> bytes:
    """Draw a figure as lines, sharp at any size; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "sentemb"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def data_uri(picture: bytes) -> str:
    """A picture as a URI, so that a page needs no second file."""
    kind = "png" if picture.startswith(b"\x89PNG") else "svg+xml"
    return f"data:image/{kind};base64," + base64.b64encode(picture).decode("ascii")


def plain(name: str) -> str:
    """A name as a figure's label: matplotlib reads what stands between two dollar signs as mathematics."""
    return name.replace("$", r"\$")


def plain_frame(axes: Axes) -> None:
    """Leave out the upper and the right line of the frame."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
