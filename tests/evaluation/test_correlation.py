from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sentemb.evaluation.correlation import CorrelationError, pearson, spearman

# Small integers give many ties; the gold scores of STS have 26 values at most.
numbers = st.one_of(
    st.integers(-3, 3).map(float), st.floats(-1e3, 1e3, allow_subnormal=False).map(lambda x: round(x, 3))
)
samples = st.lists(st.tuples(numbers, numbers), min_size=2, max_size=60)


@given(samples)
def test_equals_scipy_with_ties(pairs: list[tuple[float, float]]) -> None:
    first, second = np.array(pairs).T
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        for function in (pearson, spearman):
            with pytest.raises(CorrelationError, match=rf"all {len(pairs)} .* are equal"):
                function(first, second)
        return
    assert pearson(first, second) == pytest.approx(stats.pearsonr(first, second)[0], abs=1e-12)
    assert spearman(first, second) == pytest.approx(stats.spearmanr(first, second)[0], abs=1e-12)
    ranks = [stats.rankdata(side) for side in (first, second)]
    assert spearman(first, second) == pytest.approx(np.corrcoef(*ranks)[0, 1], abs=1e-12)


def test_halves_are_widened_before_ranking() -> None:
    values = np.array([0.1, 0.2, 0.3, 0.25], dtype=np.float16)
    assert pearson(values, values) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("similarities", "gold", "reason"),
    [
        ([0.5, 0.5, 0.5], [1, 2, 3], "all 3 similarities are equal"),
        ([0.1, 0.2, 0.3], [2, 2, 2], "all 3 gold scores are equal"),
        ([0.1, float("nan"), 0.3], [1, 2, 3], "1 of 3 similarities are NaN or infinite"),
        ([0.1, float("inf"), 0.3], [1, 2, 3], "1 of 3 similarities are NaN or infinite"),
        ([0.1], [1], "at least 2 pairs, not 1"),
        ([], [], "at least 2 pairs, not 0"),
        ([0.1, 0.2], [1, 2, 3], "the numbers of similarities .2. and gold scores .3. differ"),
        # What one vector's cosines with itself look like.
        ([1.0, 1.0 - 2e-16, 1.0 + 2e-16], [1, 2, 3], "all 3 similarities are equal"),
        ([0.0, 0.0], [1, 2], "all 2 similarities are equal"),
    ],
)
def test_no_correlation_is_an_error_without_a_warning(
    similarities: list[float], gold: list[float], reason: str
) -> None:
    for function in (pearson, spearman):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(CorrelationError, match=reason):
                function(np.array(similarities), np.array(gold))
