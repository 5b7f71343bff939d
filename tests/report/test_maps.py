"""Figures of texts as points of a plane, and of their similarities."""

from __future__ import annotations

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.report.figures import (
    heat_map_figure,
    label_map_figure,
    pair_map_figure,
    project_to_plane,
)


def test_heat_map_writes_every_value_but_the_diagonal_legibly() -> None:
    values = np.array([[1.0, 0.2, 0.3], [0.2, 1.0, 0.6], [0.3, 0.6, 1.0]])
    figure = heat_map_figure(
        values, ["a cat", "a dog", "Since the surgery she has had pain in her knee " * 2]
    )
    axes = figure.axes[0]
    assert axes.get_yticklabels()[1].get_text() == "a dog  2"
    written = {text.get_position(): (text.get_text(), text.get_color()) for text in axes.texts}
    assert len(written) == 6
    assert written[1, 0] == written[0, 1] == ("0.20", "white")
    assert written[2, 1] == ("0.60", "black")  # column first
    assert axes.images[0].get_clim() == (0.2, 0.6)
    figure.draw_without_rendering()  # makes the layout known
    assert all(label.get_window_extent().x0 >= 0 for label in axes.get_yticklabels())


@pytest.mark.parametrize("count", [4, 40])
def test_projection_keeps_far_groups_apart_and_repeats_itself(count: int) -> None:
    vectors = np.random.default_rng(0).normal(scale=0.01, size=(count, 8)).astype(np.float32)
    vectors[: count // 2, 0] += 1
    vectors[count // 2 :, 1] += 1
    plane = project_to_plane(vectors, seed=3)
    np.testing.assert_array_equal(plane, project_to_plane(vectors, seed=3))
    assert plane.shape == (count, 2) and np.isfinite(plane).all()
    if count == 40:
        centres = plane[:20].mean(0), plane[20:].mean(0)
        assert np.linalg.norm(centres[0] - centres[1]) > max(plane[:20].std(), plane[20:].std())


def test_projection_of_one_direction_and_of_too_few() -> None:
    same = np.full((5, 3), 0.1, dtype=np.float32) * np.arange(1, 6, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(project_to_plane(same), np.zeros((5, 2)))
    np.testing.assert_array_equal(project_to_plane(0 * same), np.zeros((5, 2)))
    with pytest.raises(InputError, match="three texts, but got 2"):
        project_to_plane(same[:2])
    figure = pair_map_figure({"collapsed": same[:4]}, positives=1)
    assert np.isfinite(figure.axes[0].collections[0].get_offsets()).all()


def test_label_vectors_are_stars_among_the_texts() -> None:
    classes = np.repeat([0, 1], 15)
    centres = np.eye(2, 8, dtype=np.float32) * 4
    vectors = centres[classes] + np.random.default_rng(0).normal(0, 0.3, (30, 8)).astype(np.float32)
    figure = label_map_figure({"LaCon": (vectors, centres), "CE": (vectors, None)}, classes, ["no", "yes"])
    first, second = figure.axes
    assert (first.get_title(), second.get_title()) == ("LaCon", "CE")
    sizes = [[len(one.get_offsets()) for one in axes.collections] for axes in (first, second)]
    assert sizes == [[15, 1, 15, 1], [15, 15]]
    dots, star = first.collections[0].get_offsets(), first.collections[1].get_offsets()[0]
    others = first.collections[2].get_offsets()
    assert np.linalg.norm(dots.mean(0) - star) < np.linalg.norm(others.mean(0) - star)


def test_pairs_are_numbered_joined_and_colored_by_kind_in_every_panel() -> None:
    vectors = np.random.default_rng(0).normal(size=(10, 6)).astype(np.float32)  # 2 positive, 3 negative pairs
    vectors[1::2][:2] = vectors[::2][:2] * 3  # of one direction
    figure = pair_map_figure({"before": -vectors, "after": vectors}, positives=2)
    assert [axes.get_title().splitlines()[0] for axes in figure.axes] == ["before", "after"]
    for axes in figure.axes:
        assert "cosine 1.00 of positive" in axes.get_title()
        negative, positive = axes.collections
        assert (len(negative.get_offsets()), len(positive.get_offsets())) == (6, 4)
        assert [text.get_text() for text in axes.texts] == list("1122112233")
        for number, line in enumerate(axes.lines):
            first, second = (axes.texts[2 * number + side].get_position() for side in (0, 1))
            np.testing.assert_allclose(line.get_xydata(), [first, second])
        assert len(axes.lines) == 5
        np.testing.assert_allclose(axes.texts[0].get_position(), positive.get_offsets()[0])
