from __future__ import annotations

from itertools import pairwise

import numpy as np

from sentemb.report.figures import alignment_figure, png_of, spectrum_figure


def test_arrows_lead_from_the_base_to_the_last_evaluation() -> None:
    path = [(-0.5, 0.1), (-1.5, 0.2), (-2.0, 0.25), (-1.9, 0.22)]
    figure = alignment_figure({"base": (-0.5, 0.1), "sg": (-2.0, 0.25)}, {"sg": path})
    (axes,) = figure.axes
    arrows = [(arrow.xyann, arrow.xy) for arrow in axes.texts]
    np.testing.assert_allclose(arrows, list(pairwise(path)))
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["base", "sg"]
    stars = [line.get_xydata()[0].tolist() for line in axes.lines if line.get_marker() == "*"]
    assert stars == [[-0.5, 0.1], [-2.0, 0.25]]
    left, right = axes.get_xlim()
    low, high = axes.get_ylim()
    assert all(left < x < right and low < y < high for x, y in path)


def test_a_run_of_one_evaluation_and_no_run_can_be_drawn() -> None:
    assert png_of(alignment_figure({"a": (-1, 0.1)}, {"a": [(-1, 0.1)]})).startswith(b"\x89PNG")
    assert png_of(alignment_figure({"a": (-1, 0.1)}, {})).startswith(b"\x89PNG")


def test_spectra_are_shares_and_unused_directions_are_left_out() -> None:
    spectra = {"a": np.array([3.0, 1.0, 1e-12, 0.0]), "collapsed": np.zeros(3)}
    figure = spectrum_figure(spectra, {"a": 1.9, "collapsed": 0.0})
    (axes,) = figure.axes
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[1, 0.75], [2, 0.25]], rtol=1e-9)
    assert len(axes.lines[1].get_xdata()) == 0
    assert axes.get_yscale() == "log"
    (legend,) = figure.legends  # below the axes, since its names are long
    assert "effective rank 1.9 of 4" in legend.get_texts()[0].get_text()
    assert png_of(figure).startswith(b"\x89PNG")
