from __future__ import annotations

import numpy as np

from sentemb.report.pair_map import pair_map_figure


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
