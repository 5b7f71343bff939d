from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from sentemb.data.sts import Subset
from sentemb.evaluation.measures import confusion, f1_of_classes, measure, scores_of_counts


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
    for metric, value in expected.items():
        assert measure(metric, predictions, gold) == pytest.approx(value, abs=1e-12), metric
        counts = confusion(predictions, gold)
        np.testing.assert_array_equal(counts, metrics.confusion_matrix(gold, predictions))
        assert scores_of_counts(metric, counts[None])[0] == pytest.approx(value, abs=1e-12)
    each = metrics.f1_score(gold, predictions, average=None)
    np.testing.assert_allclose(f1_of_classes(confusion(predictions, gold, classes + 1)), [*each, 0])


def test_degenerate_predictions_have_scores() -> None:
    gold = np.array([0, 1, 1, 0])
    assert measure("matthews", np.zeros(4), gold) == 0
    assert measure("f1", np.zeros(4), gold) == 0
    assert measure("macro_f1", gold, gold, classes=3) == pytest.approx(2 / 3)  # a class that neither side has
    assert np.isnan(measure("pearson", np.zeros(4), gold))


def test_correlations_over_subsets() -> None:
    random = np.random.default_rng(3)
    gold, values = random.random((2, 30))
    subsets = (Subset("a", 0, 10), Subset("b", 10, 30))
    for metric, function in (("spearman", stats.spearmanr), ("pearson", stats.pearsonr)):
        parts = [function(values[:10], gold[:10])[0], function(values[10:], gold[10:])[0]]
        whole = function(values, gold)[0]
        for protocol, expected in (
            ("all", whole),
            ("mean", np.mean(parts)),
            ("wmean", (parts[0] + 2 * parts[1]) / 3),
        ):
            found = measure(metric, values, gold, protocol=protocol, subsets=subsets)
            assert found == pytest.approx(expected, abs=1e-12)
        assert measure(metric, values, gold, protocol="mean", subsets=subsets[:1]) == pytest.approx(whole)
    assert measure("mse", values, gold) == pytest.approx(metrics.mean_squared_error(gold, values))
