"""Holm's correction by hand."""

from __future__ import annotations

import pytest

from sentemb.evaluation.holm import holm


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []
