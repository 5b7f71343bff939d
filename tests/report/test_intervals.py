from __future__ import annotations

from sentemb.report.figures import interval_figure


def test_each_system_has_its_dot_within_its_interval_from_top_to_bottom() -> None:
    figure = interval_figure({"keyword": (40, 30, 55), "a $b$": (70, 60, 80)}, x_label="score")
    (axes,) = figure.axes
    lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines]
    assert lines == [([30, 55], [0, 0]), ([40], [0]), ([60, 80], [1, 1]), ([70], [1])]
    assert [text.get_text() for text in axes.texts] == ["40", "70"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["keyword", r"a \$b\$"]
    low, high = axes.get_ylim()
    assert low > high
