from __future__ import annotations

import numpy as np
import pytest

from sentemb.report.studies import band_figure, label_map_figure

RNG = np.random.default_rng(0)
CURVES = {
    "ce": ([20, 100, 1000], [60.0, 75.0, 85.0], [6.0, 3.0, 1.0]),
    "scl": ([20, 100, 1000], [66.0, 77.0, 85.5], [4.0, 2.0, 1.0]),
}


def test_bands_are_one_standard_deviation_wide() -> None:
    figure = band_figure(CURVES, x_label="examples", y_label="accuracy")
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["20", "100", "1000"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["ce", "scl"]
    low, high = axes.collections[0].get_paths()[0].vertices[:, 1].min(), axes.get_lines()[0].get_ydata()[0]
    assert (low, high) == (54.0, 60.0)


def test_a_short_span_is_linear_and_one_curve_needs_no_legend() -> None:
    figure = band_figure({"ce": ([0, 0.3, 0.9], [1, 2, 3], [0, 0, 0])}, x_label="temperature", y_label="y")
    assert figure.axes[0].get_xscale() == "linear" and figure.axes[0].get_legend() is None


@pytest.mark.parametrize("with_labels", [True, False])
def test_label_vectors_are_stars_among_the_texts(with_labels: bool) -> None:
    classes = np.repeat([0, 1], 15)
    centres = np.eye(2, 8, dtype=np.float32) * 4
    vectors = centres[classes] + RNG.normal(0, 0.3, (30, 8)).astype(np.float32)
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
