"""Figures of texts as points of a plane, and of their similarities."""

from __future__ import annotations

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.report.maps import (
    heat_map_figure,
    label_map_figure,
    map_figure,
    pair_map_figure,
    project_to_plane,
)


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
    with pytest.raises(InputError, match="three texts, but got 2"):
        project_to_plane(same[:2])


def test_projection_repeats_itself() -> None:
    vectors = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)
    np.testing.assert_array_equal(project_to_plane(vectors, seed=3), project_to_plane(vectors, seed=3))


@pytest.mark.parametrize("with_labels", [True, False])
def test_label_vectors_are_stars_among_the_texts(with_labels: bool) -> None:
    classes = np.repeat([0, 1], 15)
    centres = np.eye(2, 8, dtype=np.float32) * 4
    vectors = centres[classes] + np.random.default_rng(0).normal(0, 0.3, (30, 8)).astype(np.float32)
    panel = (vectors, centres if with_labels else None)
    figure = label_map_figure({"LaCon": panel, "CE": (vectors, None)}, classes, ["no", "yes"])
    first, second = figure.axes
    assert (first.get_title(), second.get_title()) == ("LaCon", "CE")
    sizes = [len(one.get_offsets()) for one in first.collections]
    assert sizes == ([15, 1, 15, 1] if with_labels else [15, 15])
    if with_labels:
        dots, star = first.collections[0].get_offsets(), first.collections[1].get_offsets()[0]
        others = first.collections[2].get_offsets()
        assert np.linalg.norm(dots.mean(0) - star) < np.linalg.norm(others.mean(0) - star)


def test_pairs_are_numbered_joined_and_coloured_by_kind_in_every_panel() -> None:
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(10, 6)).astype(np.float32)  # two positive pairs, three negative ones
    vectors[1::2][:2] = vectors[::2][:2] * 3  # of one direction
    figure = pair_map_figure({"before": -vectors, "after": vectors}, positives=2)
    assert [axes.get_title().splitlines()[0] for axes in figure.axes] == ["before", "after"]
    for axes in figure.axes:
        assert "cosine 1.00 of positive" in axes.get_title()
        assert len(axes.lines) == 5
        negative, positive = axes.collections
        assert (len(negative.get_offsets()), len(positive.get_offsets())) == (6, 4)
        assert [text.get_text() for text in axes.texts] == list("1122112233")
        for number, line in enumerate(axes.lines):
            first, second = (axes.texts[2 * number + side].get_position() for side in (0, 1))
            np.testing.assert_allclose(line.get_xydata(), [first, second])
        np.testing.assert_allclose(axes.texts[0].get_position(), positive.get_offsets()[0])


def test_one_direction_has_a_map() -> None:
    figure = pair_map_figure({"collapsed": np.full((4, 3), 0.1, np.float32)}, positives=1)
    assert np.isfinite(figure.axes[0].collections[0].get_offsets()).all()
