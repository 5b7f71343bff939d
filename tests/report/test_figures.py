"""Figures are drawn from plain numbers, without a display."""

from __future__ import annotations

import numpy as np
import pytest

from sentemb.report.figures import curve_figure, data_uri, map_figure, png_of, project_to_plane


def test_curve_figure_draws_every_curve_with_its_values() -> None:
    figure = curve_figure(
        {"SG-OPT": ([0, 50], [40.0, 60.0]), "SimCSE": ([0, 50], [40.0, 55.0])},
        x_label="step",
        y_label="score",
    )
    axes = figure.axes[0]
    assert [line.get_label() for line in axes.lines] == ["SG-OPT", "SimCSE"]
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), [40.0, 55.0])
    assert axes.get_xlabel() == "step"
    assert axes.get_legend() is not None


def test_map_figure_places_every_text_once_per_panel() -> None:
    points = np.arange(12, dtype=np.float64).reshape(6, 2)
    figure = map_figure({"before": points, "after": -points}, list("aabbcc"), links=[(0, 1)])
    for axes in figure.axes:
        assert sum(len(scatter.get_offsets()) for scatter in axes.collections) == 6
        assert len(axes.lines) == 1


@pytest.mark.parametrize("count", [4, 40])
def test_projection_keeps_far_groups_apart(count: int) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(scale=0.01, size=(count, 8)).astype(np.float32)
    vectors[: count // 2, 0] += 1
    vectors[count // 2 :, 1] += 1
    plane = project_to_plane(vectors)
    assert plane.shape == (count, 2)
    assert np.isfinite(plane).all()
    if count == 40:
        centres = plane[:20].mean(0), plane[20:].mean(0)
        spread = max(plane[:20].std(), plane[20:].std())
        assert np.linalg.norm(centres[0] - centres[1]) > spread


def test_png_and_uri() -> None:
    png = png_of(curve_figure({"a": ([0], [1])}, x_label="x", y_label="y"))
    assert png.startswith(b"\x89PNG")
    assert data_uri(png).startswith("data:image/png;base64,iVBOR")
