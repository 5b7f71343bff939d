"""Figures with a line per method."""

from __future__ import annotations

import numpy as np

from sentemb.report.figures import band_figure, curve_figure, layer_figure, learning_curve_figure

BANDS = {
    "ce": ([20, 100, 1000], [60.0, 75.0, 85.0], [6.0, 3.0, 1.0]),
    "scl": ([20, 100, 1000], [66.0, 77.0, 85.5], [4.0, 2.0, 1.0]),
}
LAYERS = {"cls": [None, 20.0, 31.0], "mean": [40.0, 52.5, 50.0]}


def test_curve_figure_draws_every_curve_with_its_values() -> None:
    curves = {"SG-OPT": ([0, 50], [40.0, 60.0]), "SimCSE": ([0, 50], [40.0, 55.0])}
    (axes,) = curve_figure(curves, x_label="step", y_label="score").axes
    assert [line.get_label() for line in axes.lines] == ["SG-OPT", "SimCSE"]
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), [40.0, 55.0])
    assert axes.get_xlabel() == "step"
    assert axes.get_legend() is not None


def test_bands_are_one_standard_deviation_wide() -> None:
    (axes,) = band_figure(BANDS, x_label="examples", y_label="accuracy").axes
    assert axes.get_xscale() == "log"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["20", "100", "1000"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["ce", "scl"]
    low, middle = axes.collections[0].get_paths()[0].vertices[:, 1].min(), axes.get_lines()[0].get_ydata()[0]
    assert (low, middle) == (54.0, 60.0)


def test_a_short_span_is_linear_and_one_curve_needs_no_legend() -> None:
    figure = band_figure({"ce": ([0, 0.3, 0.9], [1, 2, 3], [0, 0, 0])}, x_label="temperature", y_label="y")
    assert figure.axes[0].get_xscale() == "linear" and figure.axes[0].get_legend() is None


def test_a_learning_curve_is_the_mean_of_the_seeds_where_all_have_a_score() -> None:
    runs = {"$a": [{0: 1.0, 50: 2.0, 100: 9.0}, {0: 3.0, 50: 4.0}], "b": [{0: 5.0}]}
    (axes,) = learning_curve_figure(runs, y_label="score").axes
    first, second = axes.lines
    np.testing.assert_array_equal(first.get_xydata(), [[0, 2], [50, 3]])
    assert [line.get_label() for line in (first, second)] == [r"\$a, 2 seeds", "b"]
    assert len(axes.collections) == 1  # one seed has no band


def test_a_panel_per_set_with_a_line_per_pooling_and_the_best_point_named() -> None:
    figure = layer_figure({"stsb test": LAYERS, "sickr test": {"mean": [1.0, 2.0, 3.0]}}, title="bert")
    first, second = figure.axes
    assert (first.get_title(), second.get_title()) == ("stsb test", "sickr test")
    lines = {line.get_label(): line.get_ydata() for line in first.lines}
    np.testing.assert_array_equal(lines["cls"], [np.nan, 20.0, 31.0])
    assert [text.get_text() for text in first.texts] == ["52.5"]
    assert [text.get_text() for text in second.texts] == ["3.0"]
