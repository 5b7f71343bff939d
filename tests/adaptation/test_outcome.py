"""The verdict of an adaptation says what its prediction says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sentemb.adaptation.gain import Gain, calibration
from sentemb.adaptation.outcome import Adapted, Kind
from sentemb.evaluation.choosing.calibration import Estimate

GAIN = Gain(Estimate(4.0, 2.0), 1.5, 3.0)
KIND = Kind("neighbors", 150, (30.0, 34.0), (70.0, 72.0))
OUTCOME = Adapted(Path("out"), "mine", True, GAIN, (KIND,), 0.5, 120, calibration().reliability["static"])
EXPECTED = (
    "NDCG@10 on real queries is expected to change by +4.0 (80 % interval +1.4 to +6.6) "
    "and recall@100 by +1.5"
)


def test_a_model_that_is_returned_has_its_expected_gain() -> None:
    assert OUTCOME.verdict() == f"better: {EXPECTED}"


def test_an_unclear_gain_says_which_would_be_clear() -> None:
    assert replace(OUTCOME, helped=False, share=0.0).verdict() == (
        f"not clearly better: {EXPECTED}, where a gain of 3.0 or more would be clear; "
        "mine is returned unchanged"
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
    ],
)
def test_a_base_that_is_returned_has_the_reason(change: dict[str, object], verdict: str) -> None:
    outcome = replace(OUTCOME, helped=False, share=0.0, **change)  # type: ignore[arg-type]
    assert outcome.verdict() == f"{verdict}; mine is returned unchanged"


def test_general_tasks_follow_the_verdict() -> None:
    outcome = replace(OUTCOME, general={"general pairs": (70.0, 69.5)})
    assert outcome.verdict() == f"better: {EXPECTED}; general pairs 70.0 -> 69.5"
