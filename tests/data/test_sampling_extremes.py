from __future__ import annotations

import numpy as np
import pytest

from sentemb.data.sampling import draw_extremes
from sentemb.errors import InputError

GOLD = np.array([0, 5, 5, 0, 2.5, 5, 0, 5, 0, 1, 4.8, 0])


def test_only_the_ends_of_the_scale_are_drawn_by_the_seed() -> None:
    positive, negative = draw_extremes(GOLD, count=3, seed=1)
    assert set(GOLD[positive]) == {5.0} and set(GOLD[negative]) == {0.0}
    assert len({*positive, *negative}) == 6
    np.testing.assert_array_equal(draw_extremes(GOLD, count=3, seed=1).positive, positive)
    seen = {row for seed in range(30) for row in draw_extremes(GOLD, count=3, seed=seed).positive}
    assert seen == {1, 2, 5, 7}  # any pair of the highest score can come


def test_the_next_scores_fill_up() -> None:
    positive, negative = draw_extremes(GOLD, count=6, seed=0)
    assert sorted(GOLD[positive]) == [2.5, 4.8, 5, 5, 5, 5]
    assert sorted(GOLD[negative]) == [0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("gold", "count", "message"),
    [
        (GOLD, 7, "7 positive"),
        (GOLD, 0, "0 positive"),
        (GOLD[:1], 1, "from 1"),
        (np.array([1, 1, 1, 2.0]), 2, "overlap at 1"),
    ],
)
def test_what_cannot_be_drawn_is_named(gold: np.ndarray, count: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        draw_extremes(gold, count=count)
