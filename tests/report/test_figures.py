"""Figures show the numbers that they are given, and leave nothing of their own ink on a page."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import numpy as np

from sentemb.report.figures import (
    alignment_figure,
    band_figure,
    curve_figure,
    forest_figure,
    interval_figure,
    layer_figure,
    learning_curve_figure,
    png_of,
    spectrum_figure,
    svg_of,
)

BANDS = {
    "ce": ([20, 100, 1000], [60.0, 75.0, 85.0], [6.0, 3.0, 1.0]),
    "scl": ([20, 100, 1000], [66.0, 77.0, 85.5], [4.0, 2.0, 1.0]),
}


def curve(name: str):
    return curve_figure({name: ([0, 1], [1, 2]), "b": ([0], [1])}, x_label="x", y_label="y")


def test_svg_is_text_in_the_color_of_the_page_at_the_width_of_its_place() -> None:
    assert png_of(curve("a"), dots_per_inch=40).startswith(b"\x89PNG")
    first, again, other = (svg_of(curve(name)) for name in ("SG-OPT <1>", "SG-OPT <1>", "c"))
    root = ElementTree.fromstring(first)
    assert "width" not in root.attrib and root.attrib["viewBox"].startswith("0 0 ")
    assert "SG-OPT <1>" in [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "currentColor" in first and "#000000" not in first and "#ffffff" not in first.lower()
    assert first == again
    ids = [
        {one.attrib["id"] for one in ElementTree.fromstring(drawn).iter() if "id" in one.attrib}
        for drawn in (first, other)
    ]
    assert not ids[0] & ids[1]


def test_bands_are_one_standard_deviation_wide() -> None:
    (axes,) = band_figure(BANDS, x_label="examples", y_label="accuracy").axes
    assert axes.get_xscale() == "log"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["20", "100", "1000"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["ce", "scl"]
    low, middle = axes.collections[0].get_paths()[0].vertices[:, 1].min(), axes.get_lines()[0].get_ydata()[0]
    assert (low, middle) == (54.0, 60.0)
    (short,) = band_figure({"ce": ([0, 0.3, 0.9], [1, 2, 3], [0, 0, 0])}, x_label="x", y_label="y").axes
    assert short.get_xscale() == "linear" and short.get_legend() is None


def test_a_learning_curve_is_the_mean_of_the_seeds_where_all_have_a_score() -> None:
    runs = {"$a": [{0: 1.0, 50: 2.0, 100: 9.0}, {0: 3.0, 50: 4.0}], "b": [{0: 5.0}]}
    (axes,) = learning_curve_figure(runs, y_label="score").axes
    first, second = axes.lines
    np.testing.assert_array_equal(first.get_xydata(), [[0, 2], [50, 3]])
    assert [line.get_label() for line in (first, second)] == [r"\$a, 2 seeds", "b"]
    assert len(axes.collections) == 1  # one seed has no band


def test_a_panel_per_set_with_a_line_per_pooling_and_the_best_point_marked() -> None:
    layers = {"cls": [None, 20.0, 31.0], "mean": [40.0, 52.5, 50.0]}
    first, second = layer_figure({"stsb test": layers, "sickr test": {"mean": [1.0, 2.0, 3.0]}}).axes
    assert (first.get_title(), second.get_title()) == ("stsb test", "sickr test")
    lines = {line.get_label(): line.get_ydata() for line in first.lines}
    np.testing.assert_array_equal(lines["cls"], [np.nan, 20.0, 31.0])
    assert [axes.texts[0].get_text() for axes in (first, second)] == ["52.5", "3.0"]


def test_each_system_has_its_dot_within_its_interval_from_top_to_bottom() -> None:
    (axes,) = interval_figure({"keyword": (40, 30, 55), "a $b$": (70, 60, 80)}, x_label="score").axes
    lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines]
    assert lines == [([30, 55], [0, 0]), ([40], [0]), ([60, 80], [1, 1]), ([70], [1])]
    assert [text.get_text() for text in axes.texts] == ["40", "70"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["keyword", r"a \$b\$"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]
    estimates = {"SG-OPT": (0.8, 0.2, 1.4, True), "$Flow$": (-1.0, -3.0, 1.0, False)}
    (axes,) = forest_figure(estimates, title="STS", x_label="points").axes
    zero, *lines = axes.lines
    assert list(zero.get_xdata()) == [0, 0]
    assert [list(line.get_xdata()) for line in lines] == [[0.2, 1.4], [0.8], [-3, 1], [-1]]
    assert lines[0].get_color() != lines[2].get_color() == "black"
    assert [one.get_text() for one in axes.texts] == ["+0.80 (+0.20 to +1.40)", "-1.00 (-3.00 to +1.00)"]


def test_arrows_lead_from_the_base_to_the_last_evaluation() -> None:
    path = [(-0.5, 0.1), (-1.5, 0.2), (-2.0, 0.25), (-1.9, 0.22)]
    (axes,) = alignment_figure({"base": (-0.5, 0.1), "sg": (-2.0, 0.25)}, {"sg": path}).axes
    np.testing.assert_allclose([(arrow.xyann, arrow.xy) for arrow in axes.texts], list(pairwise(path)))
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["base", "sg"]
    stars = [line.get_xydata()[0].tolist() for line in axes.lines if line.get_marker() == "*"]
    assert stars == [[-0.5, 0.1], [-2.0, 0.25]]
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    assert all(left < x < right and low < y < high for x, y in path)
    assert png_of(alignment_figure({"a": (-1, 0.1)}, {"a": [(-1, 0.1)]})).startswith(b"\x89PNG")


def test_spectra_are_shares_without_unused_directions() -> None:
    spectra = {"a": np.array([3.0, 1.0, 1e-12, 0.0]), "collapsed": np.zeros(3)}
    figure = spectrum_figure(spectra, {"a": 1.9, "collapsed": 0.0})
    (axes,) = figure.axes
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[1, 0.75], [2, 0.25]], rtol=1e-9)
    assert len(axes.lines[1].get_xdata()) == 0 and axes.get_yscale() == "log"
    (legend,) = figure.legends  # below the axes, since its names are long
    assert "effective rank 1.9 of 4" in legend.get_texts()[0].get_text()
    assert png_of(figure).startswith(b"\x89PNG")
