"""The figure of a layer map: what each layer and pooling of a model scores (SG-BERT, figure 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from sentemb.report.figures import COLOURS

_MARKERS = ("o", "s", "^", "D", "v", "P")


def layer_figure(panels: Mapping[str, Mapping[str, Sequence[float | None]]], *, title: str = "") -> Figure:
    """Draw a panel per set with a line per pooling; the best point of a panel has a ring and its score."""
    figure = Figure(figsize=(max(5.6, 4.6 * len(panels)), 3.8), layout="constrained")
    for axes, (name, curves) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
        values = {pooling: np.array(scores, dtype=float) for pooling, scores in curves.items()}
        for position, (pooling, scores) in enumerate(values.items()):
            colour, marker = COLOURS[position % len(COLOURS)], _MARKERS[position % len(_MARKERS)]
            axes.plot(scores, marker=marker, markersize=5, color=colour, label=pooling)
        best = max(values, key=lambda pooling: float(np.nanmax(values[pooling])))
        layer = int(np.nanargmax(values[best]))
        score = values[best][layer]
        axes.plot(layer, score, marker="o", markersize=12, fillstyle="none", color="black")
        axes.annotate(
            f"{score:.1f}", (layer, score), (0, 10), textcoords="offset points", ha="center", fontsize="small"
        )
        axes.set_title(name, fontsize="medium")
        axes.set_xlabel("layer (0: embedding output)")
        axes.set_xticks(range(len(values[best])))
        axes.margins(y=0.12)
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.axes[0].set_ylabel("Spearman × 100")
    figure.axes[0].legend(frameon=False, title="pooling")
    figure.suptitle(title, fontsize="medium")
    return figure
