"""Figures of texts as points of a plane, and of their similarities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sentemb.errors import InputError
from sentemb.report.figures import COLOURS, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ONE_DIRECTION = 1e-6  # coordinates of float32 unit vectors differ by less only through rounding
_TINY = np.finfo(np.float64).tiny


def project_to_plane(vectors: NDArray[np.float32], *, seed: int = 0) -> NDArray[np.float64]:
    """Map vectors to the plane by t-SNE on cosine distances, starting from their principal components.

    Args:
        vectors: Shape (texts, dim), at least three texts.
        seed: Seed of t-SNE.

    Returns:
        Shape (texts, 2).

    Raises:
        InputError: There are fewer than three texts.

    Example:
        >>> vectors = load_encoder("static-mini").encode(texts)
        >>> project_to_plane(vectors).shape
        (64, 2)
    """
    from sklearn.manifold import TSNE

    if len(vectors) < 3:
        raise InputError(f"a map needs at least three texts, but got {len(vectors)}", "provide more texts")
    unit = _unit(vectors)
    if np.ptp(unit, axis=0).max() < _ONE_DIRECTION:
        return np.zeros((len(unit), 2))
    perplexity = min(30.0, (len(unit) - 1) / 3)  # must be smaller than the number of points
    projection = TSNE(2, metric="cosine", init="pca", perplexity=perplexity, random_state=seed)
    return np.asarray(projection.fit_transform(unit))


def heat_map_figure(values: NDArray[np.floating], labels: Sequence[str], *, title: str = "") -> Figure:
    """Draw the similarities of some texts with each other as colors, with each value in its cell.

    The diagonal stays blank, because its ones would take up half of the color scale.

    Args:
        values: Similarities, shape (texts, texts).
        labels: The texts.
        title: Title above the map.

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


def map_figure(
    maps: Mapping[str, NDArray[np.float64]],
    groups: Sequence[str],
    links: Sequence[tuple[int, int]] = (),
    labels: Sequence[str] = (),
) -> Figure:
    """Draw two-dimensional maps of the same texts side by side.

    Args:
        maps: Title to points, shape (texts, 2).
        groups: Group of each text, shown by color.
        links: Pairs of texts to join by a line.
        labels: Text on each point.

    Example:
        >>> figure = map_figure({"before": np.random.rand(4, 2)}, ["cat", "cat", "dog", "dog"])
    """
    names = sorted(set(groups))
    figure, all_axes = panels(len(maps), width=5.2 * len(maps), height=5.4)
    membership = np.array([names.index(group) for group in groups])
    size = {"s": 130, "edgecolor": "white", "linewidth": 0.5} if labels else {"s": 14}
    centre: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7, "color": "white"}
    for axes, (title, points) in zip(all_axes, maps.items(), strict=True):
        for first, second in links:
            axes.plot(*points[[first, second]].T, color="#999999", linewidth=0.6, zorder=1)
        for number, name in enumerate(names):
            _scatter(axes, points[membership == number], number, label=name, zorder=2, **size)
        for (x, y), label in zip(points, labels, strict=False):
            axes.text(x, y, label, zorder=3, **centre)
        _hide_ticks(axes, title)
    _legend_below(figure, all_axes[0])
    return figure


def pair_map_figure(vectors: Mapping[str, NDArray[np.float32]], *, positives: int, seed: int = 0) -> Figure:
    """Draw pairs with the same meaning and pairs without (SG-BERT, figures 5 and 6).

    Each sentence is a dot with the number of its pair, and a line joins the two sentences of a pair. A
    projection cannot keep all distances, so the title of each panel has the mean cosines.

    Args:
        vectors: Encoder to the vectors of the pairs, first and second sentence in turn, positives first.
        positives: Number of positive pairs.
        seed: Seed of the projection.

    Example:
        >>> figure = pair_map_figure({"before": vectors}, positives=20)  # doctest: +SKIP
    """
    maps = {
        f"{name}\nmean cosine {_mean_cosine(rows[: 2 * positives]):.2f} of positive, "
        f"{_mean_cosine(rows[2 * positives :]):.2f} of negative pairs": project_to_plane(rows, seed=seed)
        for name, rows in vectors.items()
    }
    count = len(next(iter(vectors.values()))) // 2
    numbers = [number for number in range(count) for _ in range(2)]
    return map_figure(
        maps,
        ["positive pairs" if number < positives else "negative pairs" for number in numbers],
        links=[(2 * number, 2 * number + 1) for number in range(count)],
        labels=[str(1 + (number if number < positives else number - positives)) for number in numbers],
    )


def label_map_figure(
    maps: Mapping[str, tuple[NDArray[np.float32], NDArray[np.float32] | None]],
    classes: NDArray[np.int64],
    names: Sequence[str],
    *,
    seed: int = 0,
) -> Figure:
    """Draw texts as dots and label vectors as stars, by t-SNE (SCL, figure 2; LaCon, figure 4).

    Texts and labels of a panel are projected together, so distances between stars and dots are comparable.

    Args:
        maps: Title to the vectors of the texts and of the classes, None if there are no class vectors.
        classes: The class of each text.
        names: The classes.
        seed: Seed of the projection.

    Example:
        >>> figure = label_map_figure({"ce": (vectors, None)}, classes, ["no", "yes"])  # doctest: +SKIP
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
        _hide_ticks(axes, title)
    _legend_below(figure, all_axes[0])
    return figure


def _scatter(axes: Axes, points: NDArray[np.float64], number: int, **style: Any) -> None:
    marker = "o" if number < len(COLOURS) else "^"  # distinguishes twice as many groups as there are colors
    style = {"marker": marker, "color": COLOURS[number % len(COLOURS)], **style}
    axes.scatter(points[:, 0], points[:, 1], **style)


def _hide_ticks(axes: Axes, title: str) -> None:
    axes.set_title(title)
    axes.set_xticks([])
    axes.set_yticks([])


def _legend_below(figure: Figure, axes: Axes) -> None:
    handles, names = axes.get_legend_handles_labels()
    columns = min(len(names), 6 if len(figure.axes) > 1 else 4)
    figure.legend(handles, names, loc="outside lower center", ncols=columns, frameon=False)


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    double = np.asarray(vectors, dtype=np.float64)
    unit: NDArray[np.float64] = double / np.maximum(np.linalg.norm(double, axis=1, keepdims=True), _TINY)
    return unit


def _mean_cosine(rows: NDArray[np.float32]) -> float:
    unit = _unit(rows)
    return float(np.mean(np.sum(unit[::2] * unit[1::2], axis=1)))
