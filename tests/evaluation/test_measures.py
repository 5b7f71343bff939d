from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from sentemb.data.sts import Subset
from sentemb.evaluation.measures import (
    CorrelationError,
    confusion,
    correlate,
    f1_of_classes,
    measure,
    scores_of_counts,
)

pearson, spearman = partial(correlate, "pearson"), partial(correlate, "spearman")
# Small integers give many ties; the gold scores of STS have 26 values at most.
numbers = st.one_of(
    st.integers(-3, 3).map(float), st.floats(-1e3, 1e3, allow_subnormal=False).map(lambda x: round(x, 3))
)


@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=60))
def test_correlations_equal_scipy_with_ties(pairs: list[tuple[float, float]]) -> None:
    first, second = np.array(pairs).T
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        for function in (pearson, spearman):
            with pytest.raises(CorrelationError, match=rf"all {len(pairs)} .* are equal"):
                function(first, second)
            assert function(first, second, default=0.0) == 0
        return
    assert pearson(first, second) == pytest.approx(stats.pearsonr(first, second)[0], abs=1e-12)
    assert spearman(first, second) == pytest.approx(stats.spearmanr(first, second)[0], abs=1e-12)


@pytest.mark.parametrize(
    ("similarities", "gold", "reason"),
    [
        ([0.5, 0.5, 0.5], [1, 2, 3], "all 3 similarities are equal"),
        ([0.1, 0.2, 0.3], [2, 2, 2], "all 3 gold scores are equal"),
        ([0.1, float("nan"), 0.3], [1, 2, 3], "1 of 3 similarities are NaN or infinite"),
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


def test_predictions_within_the_noise_are_equal() -> None:
    values = np.array([0.1, 0.1 + 1e-6, 0.1 + 2e-6])
    assert pearson(values, np.arange(3)) == pytest.approx(1)
    assert pearson(values, np.arange(3), noise=1e-5, default=0.0) == 0
    halves = np.array([0.1, 0.2, 0.3, 0.25], dtype=np.float16)
    assert pearson(halves, halves) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("classes", "rows"), [(2, 200), (2, 6), (4, 200), (5, 12)])
def test_metrics_of_classes_are_scikit_learns(classes: int, rows: int) -> None:
    random = np.random.default_rng(classes)
    gold, predictions = random.integers(0, classes, (2, rows))
    expected = {
        "accuracy": metrics.accuracy_score(gold, predictions),
        "matthews": metrics.matthews_corrcoef(gold, predictions),
        "macro_f1": metrics.f1_score(gold, predictions, average="macro"),
    }
    if classes == 2:
        expected["f1"] = metrics.f1_score(gold, predictions)
    counts = confusion(predictions, gold)
    np.testing.assert_array_equal(counts, metrics.confusion_matrix(gold, predictions))
    for metric, value in expected.items():
        assert measure(metric, predictions, gold) == pytest.approx(value, abs=1e-12), metric
        assert scores_of_counts(metric, counts[None])[0] == pytest.approx(value, abs=1e-12)
    each = metrics.f1_score(gold, predictions, average=None)
    np.testing.assert_allclose(f1_of_classes(confusion(predictions, gold, classes + 1)), [*each, 0])


def test_degenerate_predictions_have_scores() -> None:
    gold = np.array([0, 1, 1, 0])
    assert measure("matthews", np.zeros(4), gold) == measure("f1", np.zeros(4), gold) == 0
    assert measure("macro_f1", gold, gold, classes=3) == pytest.approx(2 / 3)  # a class that neither side has
    assert np.isnan(measure("pearson", np.zeros(4), gold))


def test_correlations_over_subsets() -> None:
    gold, values = np.random.default_rng(3).random((2, 30))
    subsets = (Subset("a", 0, 10), Subset("b", 10, 30))
    for metric, function in (("spearman", stats.spearmanr), ("pearson", stats.pearsonr)):
        parts = [function(values[:10], gold[:10])[0], function(values[10:], gold[10:])[0]]
        whole = function(values, gold)[0]
        expected = {"all": whole, "mean": np.mean(parts), "wmean": (parts[0] + 2 * parts[1]) / 3}
        for protocol, value in expected.items():
            found = measure(metric, values, gold, protocol=protocol, subsets=subsets)
            assert found == pytest.approx(value, abs=1e-12)
        assert measure(metric, values, gold, protocol="mean", subsets=subsets[:1]) == pytest.approx(whole)
