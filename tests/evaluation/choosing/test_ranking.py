from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from sentemb.evaluation.choosing.calibration import CALLED, Prediction
from sentemb.evaluation.choosing.choice import rank_measured, rank_predicted, score_intervals, set_scores
from sentemb.evaluation.systems import SetRuns, System


def system(name: str, **sets: np.ndarray) -> System:
    runs = {
        one: SetRuns(gold=np.zeros(len(scores)), predictions=scores[None], content=one)
        for one, scores in sets.items()
    }
    return System(name, "ndcg@10", (None,), runs)


def scores(mean: float, seed: int, count: int = 200) -> np.ndarray:
    return np.clip(np.random.default_rng(seed).normal(mean, 0.2, count), 0, 1)


def test_places_scores_and_intervals() -> None:
    first = scores(0.7, 0)
    near = first + np.random.default_rng(1).normal(0, 0.05, 200)
    low = scores(0.3, 2)
    systems = [system("low", a=low, b=low), system("near", a=near, b=near), system("first", a=first, b=first)]
    found = rank_measured(systems)
    assert {*found.names[:2]} == {"first", "near"} and found.names[2] == "low"
    assert [found.places[name] for name in found.names] == [1, 1, 3]
    assert set_scores(systems[0])["a"] == pytest.approx(100 * low.mean())
    (bottom, top), ranks = score_intervals(systems, draws=2000, confidence=0.95, seed=0)["low"]
    assert ranks == (3, 3)
    assert bottom < 100 * low.mean() < top
    # Four hundred queries: as wide as the normal approximation says.
    assert top - bottom == pytest.approx(2 * 1.96 * 100 * low.std() / 400**0.5, rel=0.15)
    assert not found.pair("first", "near").differs and found.pair("low", "near").differs
    assert [pair.worse for pair in found.pairs if pair.better == found.names[0]] == [*found.names[1:]]
    apart = found.pair("first", "low")
    assert apart.interval[0] < apart.difference < apart.interval[1] and apart.interval[0] > 0


def test_p_values_are_corrected_over_all_pairs() -> None:
    base = scores(0.5, 0)
    shifted = base + np.random.default_rng(3).normal(0.012, 0.08, 200)
    two = rank_measured([system("base", a=base), system("shifted", a=shifted)])
    others = [system(f"other{number}", a=scores(0.5, 10 + number)) for number in range(6)]
    many = rank_measured([system("base", a=base), system("shifted", a=shifted), *others])
    alone, among = (found.pair("base", "shifted").p for found in (two, many))
    assert alone is not None and among is not None and alone < 0.05 < among
    shown, hidden = (found.pair("base", "shifted") for found in (two, many))
    assert shown.missing is None and hidden.missing is not None
    assert (hidden.detectable or 0) > (shown.detectable or 1)  # at a stricter level


def test_many_systems_can_still_differ() -> None:
    # Holm's correction of 66 pairs takes at least 1,320 draws.
    found = rank_measured([system(f"s{step}", a=scores(step / 12, step)) for step in range(12)], draws=100)
    assert found.pair("s0", "s11").differs and found.pair("s3", "s9").differs


def prediction(*means: float, deviation: float) -> Prediction:
    """Independent systems, each with half of the variance of a difference."""
    own = np.eye(len(means)) * deviation**2 / 2
    return Prediction(np.array(means), own, np.eye(len(means)) * 800.0)


def test_a_predicted_difference_is_called_if_its_sign_is_sure() -> None:
    found = rank_predicted(["a", "b", "c"], prediction(3.0, 0.0, 20.0, deviation=5.0), confidence=0.8)
    assert found.names == ("c", "a", "b")
    assert found.places == {"c": 1, "a": 2, "b": 2}
    pair = found.pair("a", "b")
    assert (pair.better, pair.difference, pair.differs) == ("a", pytest.approx(3.0), False)
    assert pair.interval == pytest.approx((3 - 1.2816 * 5, 3 + 1.2816 * 5), abs=1e-3)
    quantile = NormalDist().inv_cdf
    assert pair.detectable == pytest.approx((quantile(CALLED) + quantile(0.8)) * 5)
    assert pair.missing is not None and found.pair("c", "b").missing is None
    # That many queries with qrels narrow the estimate until the present difference is called so often.
    precision = 1 / 25 + pair.missing / 1600
    assert (quantile(CALLED) + quantile(0.8)) / precision**0.5 == pytest.approx(3.0, rel=0.01)


def test_judged_queries_turn_a_prediction_around_and_narrow_it() -> None:
    generator = np.random.default_rng(0)
    judged = np.array([generator.normal(40, 20, 200), generator.normal(70, 20, 200)])
    before = rank_predicted(["a", "b"], prediction(3.0, 0.0, deviation=5.0), confidence=0.8)
    after = rank_predicted(["a", "b"], prediction(3.0, 0.0, deviation=5.0), judged, confidence=0.8)
    assert before.names[0] == "a" and after.names[0] == "b"
    assert after.pairs[0].differs
    assert np.ptp(after.pairs[0].interval) < 0.5 * np.ptp(before.pairs[0].interval)
