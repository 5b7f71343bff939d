"""The verdict of an adaptation says what held-out queries show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.adaptation.held_out import hold_out
from sentemb.adaptation.outcome import Adapted, choose, doubtful
from sentemb.data.own_documents import OwnDocument
from sentemb.data.retrieval import RetrievalSet
from sentemb.encoding.nearest import Hits
from sentemb.evaluation.comparison import Comparison, Difference
from sentemb.evaluation.retrieval.evaluate import evaluate_retrieval
from sentemb.evaluation.schema import Record


def difference(name: str, size: float, interval: tuple[float, float], p: float) -> Difference:
    return Difference(name, (50.0, 50.0 + size), (None, None), interval, p, None, None, p, 100)


TITLE = difference("title", 0.8, (-1.3, 3.0), 0.5)
SENTENCE = difference("sentence", 6.1, (3.6, 8.7), 0.001)
AVERAGE = difference("average", 3.0, (1.6, 4.3), 0.001)


@pytest.mark.parametrize(
    ("helped", "sets", "verdict"),
    [
        (True, (SENTENCE,), "better by 3.0 NDCG@10"),
        (
            False,
            (TITLE, SENTENCE),
            "cannot be told to help here: +3.0 NDCG@10 on held-out passages (95 % interval +1.6 to +4.3), "
            "of which chance may be +0.8 on title; mine is returned",
        ),
    ],
)
def test_a_gain_that_one_kind_of_query_does_not_share_is_no_verdict(
    helped: bool, sets: tuple[Difference, ...], verdict: str
) -> None:
    comparison = Comparison("mine", "adapted", "ndcg@10", 0.95, (1, 1), sets, AVERAGE)
    assert (not doubtful(comparison)) == helped
    assert Adapted(Path("out"), "mine", helped, comparison, 10, 1.0).verdict().startswith(verdict)


def test_a_gain_that_may_be_chance_has_its_p_value() -> None:
    average = difference("average", 3.5, (0.1, 7.1), 0.063)
    comparison = Comparison("mine", "adapted", "ndcg@10", 0.95, (1, 1), (SENTENCE,), average)
    assert Adapted(Path("out"), "mine", False, comparison, 10, 1.0).verdict() == (
        "cannot be told to help here: +3.5 NDCG@10 on held-out passages (95 % interval +0.1 to +7.1), "
        "p 0.06; mine is returned"
    )


class Finder:
    """Finds the right document of so many queries of each set."""

    dimension = None

    def __init__(self, name: str, **right: int) -> None:
        self.name = self.fingerprint = name
        self._right = right

    def search(self, data: RetrievalSet, depth: int, *, progress: bool = False) -> list[Hits]:
        found = [number if number < self._right[data.name] else 99 for number in range(len(data.queries))]
        return [Hits(np.array([number]), np.ones(1, dtype=np.float32)) for number in found]

    def describe(self) -> dict[str, Any]:
        return {}


def queries(name: str) -> RetrievalSet:
    names = [str(number) for number in range(100)]
    judged = np.array([[number, number, 1] for number in range(90)])
    return RetrievalSet(name, "test", names, names, names[:90], names[:90], judged)


TASKS = [queries("title"), queries("sentence")]


def found_by(name: str, title: int, sentence: int) -> Record:
    finder = Finder(name, title=title, sentence=sentence)
    return evaluate_retrieval(finder, TASKS)


SHIPPED = found_by("shipped", 30, 30)


@pytest.mark.parametrize(
    ("whitened", "trained", "helped", "of_training"),
    [
        (None, None, False, False),
        (None, (50, 50), True, True),
        (None, (31, 60), False, True),  # one kind does not gain: training may have learned the other
        ((31, 60), None, True, False),  # whitening has not seen queries: the mean decides
        ((31, 31), None, False, False),
        ((50, 50), (49, 70), True, False),  # over the whitened base one kind loses
        ((50, 50), (52, 52), True, False),  # and here the mean gains by chance
        ((50, 50), (51, 70), True, True),
        ((50, 50), (70, 70), True, True),
        ((31, 31), (50, 50), True, True),
        ((31, 31), (31, 50), False, True),
        ((20, 20), (10, 10), False, True),
    ],
)
def test_training_must_gain_on_every_kind_and_whitening_on_the_mean(
    whitened: tuple[int, int] | None, trained: tuple[int, int] | None, helped: bool, of_training: bool
) -> None:
    found = choose(
        SHIPPED,
        None if whitened is None else found_by("whitened", *whitened),
        None if trained is None else found_by("trained", *trained),
        TASKS,
    )
    assert (found.helped, found.trained) == (helped, of_training)
    told = trained if of_training else whitened
    expected = 100 * sum(told or (30, 30)) / 180
    assert found.comparison.headline.scores == pytest.approx((100 / 3, expected))


@pytest.mark.parametrize(
    ("whitened", "trained", "of_training"),
    [
        ((50, 50), (52, 52), True),  # more than whitening alone, which may be chance
        ((50, 50), (45, 70), True),  # one kind has less than by whitening, the mean more
        ((50, 50), (45, 54), False),
        ((50, 50), (50, 50), False),
        ((50, 50), (31, 70), False),  # one kind does not gain over the base
    ],
)
def test_training_of_a_raw_transformer_needs_a_higher_mean_than_whitening(
    whitened: tuple[int, int], trained: tuple[int, int], of_training: bool
) -> None:
    found = choose(SHIPPED, found_by("whitened", *whitened), found_by("trained", *trained), TASKS, raw=True)
    assert (found.helped, found.trained) == (True, of_training)


def test_the_verdict_asks_quotes_too(documents: list[OwnDocument]) -> None:
    parts = hold_out(documents, language="en", seed=1)
    cut = ["title", "sentence", "crop"]
    assert [one.name for one in parts.dev] == cut
    assert [one.name for one in parts.test] == [*cut, "quote"]
    quotes = parts.test[-1]
    assert all(quotes.queries[query] in quotes.documents[row] for query, row, _ in quotes.judged)
