from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from sentemb.encoding import teacher_vectors
from sentemb.errors import InputError


def teacher(width: int) -> Callable[[Sequence[str]], np.ndarray]:
    """Make an encoder of numbers written as text, whose vectors have any length."""
    return lambda texts: np.array(
        [np.cos(np.arange(1, width + 1) * float(text or 0)) for text in texts], dtype=np.float32
    )


def test_cosines_of_several_teachers_are_weighted_means() -> None:
    texts, teachers = ["1", "2", "3.5"], [teacher(4), teacher(7)]
    both = teacher_vectors(teachers, texts, weights=[1, 2])
    assert both.shape == (3, 11)
    units = [own / np.linalg.norm(own, axis=1, keepdims=True) for own in (one(texts) for one in teachers)]
    expected = units[0] @ units[0].T / 3 + units[1] @ units[1].T * 2 / 3
    np.testing.assert_allclose(both @ both.T, expected, atol=1e-6)
    np.testing.assert_allclose(teacher_vectors(teachers[:1], texts), units[0], atol=1e-6)


@pytest.mark.parametrize(
    ("count", "weights"), [(0, None), (1, [1, 2]), (1, [0.0]), (2, [2, -1])], ids=["none", "more", "0", "-1"]
)
def test_every_teacher_needs_a_positive_weight(count: int, weights: list[float] | None) -> None:
    with pytest.raises(InputError, match="positive weight"):
        teacher_vectors([teacher(3)] * count, ["1"], weights=weights)
