from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from sentemb.data.generated_queries import CHOOSING
from sentemb.evaluation.choosing.calibration import (
    CALLED,
    FAMILIES,
    Estimate,
    Evidence,
    design_of,
    log_odds,
    predictor_for,
    predictors,
)

GENERATOR = np.random.default_rng(0)
FAMILY_OF = ("keyword", "static", "transformer", "transformer", "hybrid")


def evidence(kinds: tuple[str, ...] = CHOOSING) -> Evidence:
    levels = np.array([60.0, 40.0, 55.0, 20.0, 65.0])[:, None]
    return Evidence.of(
        FAMILY_OF, {kind: np.clip(GENERATOR.normal(levels, 30, (5, 150)), 0, 100) for kind in kinds}
    )


def test_every_predictor_has_its_shapes_and_held_on_other_collections() -> None:
    assert predictors()[0].kinds == CHOOSING
    for one in predictors():
        size = len(one.kinds) + len(FAMILIES) - 1
        assert one.coefficients.shape == (size,) and one.uncertainty.shape == (size, size)
        assert np.linalg.eigvalsh(one.uncertainty).min() > 0 and min(one.variances) > 0
        held = one.reliability
        assert held.corpora > 3 and held.called * held.wrong < 0.01 and 0.7 < held.coverage < 0.9
        assert predictor_for(one.kinds, log=one.log) is one


def test_a_prediction_follows_the_formula() -> None:
    given, one = evidence(), predictors()[0]
    found = one.predict(given)
    for system in range(5):
        value = sum(
            coefficient * 25 * np.log((given.means[kind][system] + 1) / (101 - given.means[kind][system]))
            for coefficient, kind in zip(one.coefficients, one.kinds, strict=False)
        )
        own = FAMILIES.index(FAMILY_OF[system])
        value += one.coefficients[len(one.kinds) + own] if own < len(FAMILIES) - 1 else 0.0
        assert found.mean[system] == pytest.approx(value)
    own, disagreement, size, family = one.variances
    means = np.mean([log_odds(given.means[kind]) for kind in one.kinds], axis=0)
    means -= means.mean()
    answers = np.mean([given.spreads[kind] for kind in one.kinds], axis=0)
    design = design_of(one.kinds, given)
    for first in range(5):
        for second in range(5):
            value = disagreement / 1000 * answers[first, second] + size / 100 * means[first] * means[second]
            value += own * (first == second) + family * (FAMILY_OF[first] == FAMILY_OF[second])
            value += design[first] @ one.uncertainty @ design[second]
            assert found.covariance[first, second] == pytest.approx(value)
    assert found.difference(0, 3).mean == pytest.approx(found.mean[0] - found.mean[3])


def test_fewer_generated_queries_widen_the_interval() -> None:
    levels = np.array([60.0, 40.0, 55.0, 20.0, 65.0])[:, None]
    scores = {kind: np.clip(GENERATOR.normal(levels, 30, (5, 150)), 0, 100) for kind in CHOOSING}
    one = predictors()[0]
    few = {kind: own[:, :30] for kind, own in scores.items()}
    fewer = one.predict(Evidence.of(FAMILY_OF, few))
    more = one.predict(Evidence.of(FAMILY_OF, {kind: np.tile(own, 5) for kind, own in few.items()}))
    assert fewer.difference(0, 2).mean == pytest.approx(more.difference(0, 2).mean)
    given = Evidence.of(FAMILY_OF, few)
    extra = 0.0
    for kind, coefficient in zip(one.kinds, one.coefficients, strict=False):
        means = given.means[kind]
        slopes = coefficient * (log_odds(means + 1e-4) - log_odds(means - 1e-4)) / 2e-4
        apart = slopes[0] * few[kind][0] - slopes[2] * few[kind][2]
        extra += float(np.var(apart, ddof=0)) * (1 / 30 - 1 / 150)
    widened = fewer.difference(0, 2).deviation ** 2 - more.difference(0, 2).deviation ** 2
    assert widened == pytest.approx(extra, rel=1e-3) and widened > 0


def test_judged_queries_and_the_prediction_are_weighted_by_their_precision() -> None:
    differences = GENERATOR.normal(8, 30, 400)
    found = Estimate(2.0, 5.0).updated(differences, 900.0)
    error = (differences.var() * 400 + 6 * 900) / 405 / 400
    weight = 25 / (25 + error)
    assert found.mean == pytest.approx(weight * differences.mean() + (1 - weight) * 2.0)
    assert found.deviation == pytest.approx((1 / (1 / 25 + 1 / error)) ** 0.5)
    few = Estimate(2.0, 5.0).updated(np.zeros(3), 900.0)
    assert few.deviation > 4  # three equal answers are not a certainty


def test_what_could_be_called_and_what_more_judged_queries_would_show() -> None:
    one = Estimate(4.0, 5.0)
    assert not one.is_called and Estimate(12.0, 5.0).is_called
    shown = NormalDist().inv_cdf(CALLED) + NormalDist().inv_cdf(0.8)
    assert one.detectable == pytest.approx(shown * 5)
    assert one.needed(1.01 * one.detectable, 900.0) == 0
    more = (1 / 25 + 100 / 900) ** -0.5
    assert one.needed(shown * more, 900.0) in (100, 101)
