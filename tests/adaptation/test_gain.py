"""The prediction of a change on real queries, and the verdict that states it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sentemb.adaptation.config import FINISHED, RAW, STATIC
from sentemb.adaptation.gain import CALLED, Calibration, Gain, calibration, change_of, select
from sentemb.adaptation.held_out import NDCG, RECALL, Scores
from sentemb.adaptation.outcome import Adapted, Kind
from sentemb.evaluation.choosing.calibration import FITTED_QUERIES, Estimate

PLAIN = Calibration(
    np.array([0.5, 1.0, -1.0, 2.0, 0.0, -3.0]),
    np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
    np.array([3.0, 4.0, 5.0, 0.5]),
    {},
)


def scores(level: float, kinds: tuple[str, ...], queries: int = FITTED_QUERIES) -> Scores:
    values = np.linspace(-1, 1, queries) + level
    return {
        (kind, measure): values * (2 if measure == RECALL else 1)
        for kind in kinds
        for measure in (NDCG, RECALL)
    }


ALL = ("sentence", "crop", "neighbors", "topic")


@pytest.mark.parametrize(
    ("kind", "kinds", "mean"),
    [
        (FINISHED, ALL, 0.5 * 6 + 3 - 0.5),
        (STATIC, ALL, 0.5 * 6 + 3 + 1.0),
        (RAW, ALL, 0.5 * 6 + 3),
        (STATIC, ALL[1:], 0.5 * 6 + 3 + 1.0 - 1.5),
        (RAW, ALL[1:], 0.5 * 6 + 3),
        (FINISHED, ("crop", "topic"), 0.5 * 6 + 3 - 0.5 - 1.5),
    ],
)
def test_the_mean_is_the_linear_model_of_the_changes(kind: str, kinds: tuple[str, ...], mean: float) -> None:
    change = change_of(scores(50, kinds), scores(53, kinds), share=0.5, kind=kind)
    assert change is not None
    gain = PLAIN.predict(change)
    assert gain.ndcg.mean == pytest.approx(mean)
    assert gain.recall == pytest.approx(6.0)
    fixed = {FINISHED: 3.0, STATIC: 4.0, RAW: 5.0}[kind]
    assert gain.ndcg.deviation == pytest.approx(((fixed * 0.5) ** 2 + (0.5 * mean) ** 2) ** 0.5)


def test_fewer_queries_widen_the_interval() -> None:
    kinds = ("sentence", "crop", "quote")  # these alone predict nothing
    assert change_of(scores(50, kinds), scores(60, kinds), share=0.5, kind=STATIC) is None
    noise = np.random.default_rng(0).normal(size=40) * 20
    before = scores(50, ALL, 40)
    after = {key: own + noise for key, own in before.items()}
    few = change_of(before, after, share=0.5, kind=RAW)
    whole = change_of(
        {key: np.tile(own, 10) for key, own in before.items()},
        {key: np.tile(own, 10) for key, own in after.items()},
        share=0.5,
        kind=RAW,
    )
    assert few is not None and whole is not None
    narrow, wide = (PLAIN.predict(one).ndcg for one in (whole, few))
    assert narrow.mean == pytest.approx(wide.mean)
    own = np.var((0.5 + 1.0) * noise / 2) * (1 / 40 - 1 / FITTED_QUERIES)
    assert wide.deviation**2 - narrow.deviation**2 == pytest.approx(2 * own)


def test_the_smallest_clear_gain_is_just_called() -> None:
    change = change_of(scores(50, ALL), scores(51, ALL), share=0.5, kind=RAW)
    assert change is not None
    smallest = PLAIN.predict(change).smallest
    deviation = ((5.0 * 0.5) ** 2 + (0.5 * smallest) ** 2) ** 0.5
    assert Estimate(smallest, deviation).chance == pytest.approx(CALLED)


def gain(mean: float, deviation: float, recall: float = 0.0) -> Gain:
    return Gain(Estimate(mean, deviation), recall, 0.0)


@pytest.mark.parametrize(
    ("gains", "place"),
    [
        ([gain(2, 1), gain(3, 3.2)], 1),  # one is sure enough, so that the larger needs a lower chance
        ([gain(2, 1), gain(3, 4)], 0),
        ([gain(2, 1.9), gain(3, 3)], None),
        ([gain(9, 1, recall=-1.0), gain(2, 1)], 1),
        ([gain(9, 1, recall=-1.0)], None),
        ([], None),
    ],
)
def test_a_share_is_taken_if_one_is_sure_and_recall_does_not_fall(
    gains: list[Gain], place: int | None
) -> None:
    assert select(gains, STATIC) == place


def test_a_finished_encoder_takes_no_share_that_is_less_sure_than_the_first() -> None:
    gains = [gain(2, 1), gain(3, 3.2)]
    assert (select(gains, RAW), select(gains, FINISHED)) == (1, 0)


def test_the_package_has_a_calibration_of_many_corpora() -> None:
    found = calibration()
    assert len(found.ndcg) == len(found.recall) == 6
    assert {*found.reliability} == {STATIC, FINISHED, RAW}
    for one in found.reliability.values():
        assert one.corpora >= 20
        assert one.positive >= 0.8
        assert str(one.returned) in one.sentence() and one.bases[0] in one.sentence()


GAIN = Gain(Estimate(4.0, 2.0), 1.5, 3.0)
KIND = Kind("neighbors", 150, (30.0, 34.0), (70.0, 72.0))
OUTCOME = Adapted(Path("out"), "mine", True, GAIN, (KIND,), 0.5, 120, calibration().reliability["static"])
EXPECTED = (
    "NDCG@10 on real queries is expected to change by +4.0 (80 % interval +1.4 to +6.6) "
    "and recall@100 by +1.5"
)


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"gain": None}, "cannot tell: too few documents are related to each other to predict real queries"),
        (
            {"forgot": True, "forgetting": 1.5},
            "does not help: every candidate loses more on general tasks than --max-forgetting 1.5 allows",
        ),
        ({"gain": GAIN._replace(recall=-3.0)}, "does not help: recall@100 is expected to change by -3.0"),
        ({}, f"not clearly better: {EXPECTED}, where a gain of 3.0 or more would be clear"),
    ],
)
def test_a_base_that_is_returned_has_the_reason(change: dict[str, object], verdict: str) -> None:
    outcome = replace(OUTCOME, helped=False, share=0.0, **change)  # type: ignore[arg-type]
    assert outcome.verdict() == f"{verdict}; mine is returned unchanged"


def test_a_model_that_is_returned_has_its_expected_gain_and_general_tasks() -> None:
    assert OUTCOME.verdict() == f"better: {EXPECTED}"
    outcome = replace(OUTCOME, general={"general pairs": (70.0, 69.5)})
    assert outcome.verdict() == f"better: {EXPECTED}; general pairs 70.0 -> 69.5"
