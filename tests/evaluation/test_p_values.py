"""Holm's correction by hand, and differences without spread."""

from __future__ import annotations

import pytest

from sentemb.evaluation.p_values import holm, p_of_differences


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_differences_without_spread_count_their_signs() -> None:
    assert p_of_differences([0.5] * 4) == 0.125
    assert p_of_differences([0.0, 0.0]) == 1.0
    assert p_of_differences([0.3]) is None
    assert p_of_differences([1.0, 2.0, 3.0]) == pytest.approx(0.0742, abs=1e-4)
