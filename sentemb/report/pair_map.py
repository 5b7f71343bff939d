"""Maps of pairs that mean the same and of pairs that do not (SG-BERT, figures 5 and 6)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sentemb.report.figures import map_figure, project_to_plane


def pair_map_figure(vectors: Mapping[str, NDArray[np.float32]], *, positives: int, seed: int = 0) -> Figure:
    """Draw each sentence as a dot with its pair's number, the two of a pair joined by a line.

    A projection cannot keep all distances, so each panel names the mean cosines that it shows.
    """
    panels = {
        f"{name}\nmean cosine {_mean_cosine(rows[: 2 * positives]):.2f} of positive, "
        f"{_mean_cosine(rows[2 * positives :]):.2f} of negative pairs": project_to_plane(rows, seed=seed)
        for name, rows in vectors.items()
    }
    count = len(next(iter(vectors.values()))) // 2
    numbers = [number for number in range(count) for _ in range(2)]
    return map_figure(
        panels,
        ["positive pairs" if number < positives else "negative pairs" for number in numbers],
        links=[(2 * number, 2 * number + 1) for number in range(count)],
        labels=[str(1 + (number if number < positives else number - positives)) for number in numbers],
    )


def _mean_cosine(rows: NDArray[np.float32]) -> float:
    double = rows.astype(np.float64)
    unit = double / np.maximum(np.linalg.norm(double, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return float(np.mean(np.sum(unit[::2] * unit[1::2], axis=1)))
