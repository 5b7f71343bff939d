"""The verdict of an adaptation says what held-out queries show."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentemb.adaptation.outcome import Adapted, doubtful
from sentemb.evaluation.comparison import Comparison, Difference


def difference(name: str, size: float, interval: tuple[float, float], p: float) -> Difference:
    return Difference(name, (50.0, 50.0 + size), (None, None), interval, p, None, None, p, 100)


TITLE = difference("pseudo-title", 0.8, (-1.3, 3.0), 0.5)
SENTENCE = difference("pseudo-sentence", 6.1, (3.6, 8.7), 0.001)
AVERAGE = difference("average", 3.0, (1.6, 4.3), 0.001)


@pytest.mark.parametrize(
    ("helped", "sets", "verdict"),
    [
        (True, (SENTENCE,), "better by 3.0 NDCG@10"),
        (
            False,
            (TITLE, SENTENCE),
            "cannot be told to help here: +3.0 NDCG@10 on held-out passages (95 % interval +1.6 to +4.3), "
            "of which chance may be +0.8 on pseudo-title; mine is returned",
        ),
    ],
)
def test_a_gain_that_one_kind_of_query_does_not_share_is_no_verdict(
    helped: bool, sets: tuple[Difference, ...], verdict: str
) -> None:
    comparison = Comparison("mine", "adapted", "ndcg@10", 0.95, (1, 1), sets, AVERAGE)
    assert (not doubtful(comparison)) == helped
    assert Adapted(Path("out"), "mine", helped, comparison, 10, 1.0).verdict().startswith(verdict)
