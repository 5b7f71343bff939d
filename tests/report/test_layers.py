"""The figure of a layer map."""

from __future__ import annotations

import numpy as np

from sentemb.report.figures import png_of
from sentemb.report.layers import layer_figure

CURVES = {"cls": [None, 20.0, 31.0], "mean": [40.0, 52.5, 50.0]}


def test_a_panel_per_set_with_a_line_per_pooling_and_the_best_point_named() -> None:
    figure = layer_figure({"stsb test": CURVES, "sickr test": {"mean": [1.0, 2.0, 3.0]}}, title="bert")
    first, second = figure.axes
    assert (first.get_title(), second.get_title()) == ("stsb test", "sickr test")
    lines = {line.get_label(): line.get_ydata() for line in first.lines}
    np.testing.assert_array_equal(lines["cls"], [np.nan, 20.0, 31.0])
    assert [text.get_text() for text in first.texts] == ["52.5"]
    assert [text.get_text() for text in second.texts] == ["3.0"]
    assert png_of(figure, dots_per_inch=40).startswith(b"\x89PNG")
