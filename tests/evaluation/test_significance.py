"""Tests of p-values: examples of the literature, and levels that are kept."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sentemb.evaluation.significance import holm, p_of_differences, steiger, williams


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_differences_without_spread_count_their_signs() -> None:
    assert p_of_differences([0.5] * 4) == 0.125
    assert p_of_differences([0.0, 0.0]) == 1.0
    assert p_of_differences([0.3]) is None
    assert p_of_differences([1.0, 2.0, 3.0]) == pytest.approx(0.0742, abs=1e-4)


def test_williams_as_in_the_literature() -> None:
    # The example of R's package psych: t = -0.89 with 100 degrees of freedom.
    p = williams(0.4, 0.5, 0.1, 103)
    assert p == pytest.approx(2 * stats.t.sf(0.89, 100), abs=0.003)
    assert steiger(0.4, 0.5, 0.1, 103) == pytest.approx(p, abs=0.01)


@pytest.mark.parametrize("test", [williams, steiger])
def test_equal_correlations_are_told_apart_as_often_as_the_level_says(test) -> None:
    generator = np.random.default_rng(1)
    covariance = np.array([[1, 0.7, 0.5], [0.7, 1, 0.5], [0.5, 0.5, 1]])
    found = []
    for _ in range(400):
        table = np.corrcoef(generator.multivariate_normal(np.zeros(3), covariance, size=60).T)
        found.append(test(table[0, 2], table[1, 2], table[0, 1], 60))
    assert np.mean(np.array(found) < 0.05) == pytest.approx(0.05, abs=0.03)
