"""Figures are drawn from plain numbers, without a display."""

from __future__ import annotations

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.report.figures import (
    curve_figure,
    data_uri,
    heat_map_figure,
    map_figure,
    png_of,
    project_to_plane,
)


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


def test_heat_map_writes_every_value_but_the_diagonal_legibly() -> None:
    values = np.array([[1.0, 0.2, 0.3], [0.2, 1.0, 0.6], [0.3, 0.6, 1.0]])
    figure = heat_map_figure(values, ["a cat", "a dog", "rain"], title="cosines")
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a cat  1", "a dog  2", "rain  3"]
    written = {text.get_position(): (text.get_text(), text.get_color()) for text in axes.texts}
    assert len(written) == 6
    assert written[1, 0] == written[0, 1] == ("0.20", "white")
    assert written[2, 1] == ("0.60", "black")  # column first
    assert axes.images[0].get_clim() == (0.2, 0.6)


def test_heat_map_keeps_long_labels_inside() -> None:
    figure = heat_map_figure(np.eye(2), ["Since the surgery she has had pain in her knee " * 2, "short"])
    figure.draw_without_rendering()  # makes the layout known
    for label in figure.axes[0].get_yticklabels():
        assert label.get_window_extent().x0 >= 0


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


def test_projection_of_one_direction_and_of_too_few() -> None:
    same = np.full((5, 3), 0.1, dtype=np.float32) * np.arange(1, 6, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(project_to_plane(same), np.zeros((5, 2)))
    np.testing.assert_array_equal(project_to_plane(0 * same), np.zeros((5, 2)))
    with pytest.raises(InputError, match="three texts, not 2"):
        project_to_plane(same[:2])


def test_projection_repeats_itself() -> None:
    vectors = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)
    np.testing.assert_array_equal(project_to_plane(vectors, seed=3), project_to_plane(vectors, seed=3))


def test_png_and_uri() -> None:
    png = png_of(curve_figure({"a": ([0], [1])}, x_label="x", y_label="y"))
    assert png.startswith(b"\x89PNG")
    assert data_uri(png).startswith("data:image/png;base64,iVBOR")
