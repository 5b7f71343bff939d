from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.evaluation.judging import Judgements, Standing, confidence_sequence, log_capital

COMPARED = {"index": "index", "systems": ["dense", "hybrid"], "k": 5}


def first_exclusion(answers: np.ndarray, mean: float) -> np.ndarray:
    """Return after how many answers (judges, looks) the capital against a mean first reaches 20."""
    values, looks = np.array([0.0, 0.5, 1.0]), answers.shape[1]
    counts = np.stack([(answers == one).cumsum(axis=1) for one in values], axis=-1)
    states, places = np.unique(counts.reshape(-1, 3), axis=0, return_inverse=True)
    capital = np.array([log_capital(values, state, [mean])[0] for state in states])
    out = (capital >= math.log(20))[places].reshape(answers.shape)
    return np.where(out.any(axis=1), out.argmax(axis=1) + 1, looks + 1)


@pytest.mark.parametrize("chances", [(0.5, 0.0, 0.5), (0.3, 0.1, 0.6)])
def test_looking_after_each_judgement_errs_in_5_percent_at_most(chances: tuple[float, ...]) -> None:
    answers = np.random.default_rng(0).choice([0.0, 0.5, 1.0], (2000, 80), p=chances)
    wrong = first_exclusion(answers, chances[1] / 2 + chances[2]) <= 80
    assert 0.005 < wrong.mean() <= 0.05


def test_a_large_difference_takes_less_than_half_of_a_fixed_design() -> None:
    fixed = ((1.96 + 0.84) * 0.5 / 0.1) ** 2  # that shows 60 to 40
    answers = np.random.default_rng(0).choice([0.0, 1.0], (300, 100), p=[0.25, 0.75])
    stopped = first_exclusion(answers, 0.5)
    assert np.median(stopped) < 0.25 * fixed and np.quantile(stopped, 0.95) < 0.5 * fixed


def test_the_interval_holds_the_means_that_are_not_bet_away() -> None:
    values = [1.0] * 14 + [0.5] * 4 + [0.0] * 6
    low, high = confidence_sequence(values)
    assert low < np.mean(values) < high and confidence_sequence(values[::-1]) == (low, high)
    # The capital in plain numbers.
    bets = np.linspace(0.05, 0.95, 10)
    for mean, inside in ((low - 0.01, False), (low + 0.01, True), (high - 0.01, True), (high + 0.01, False)):
        factors = [*(bets / mean), *(-bets / (1 - mean))]
        capital = np.mean([math.prod(1 + bet * (value - mean) for value in values) for bet in factors])
        assert (capital < 20) == inside
    low, high = confidence_sequence([0.5] * 5)
    assert 0 < low < 0.3 and low + high == pytest.approx(1)
    with pytest.raises(InputError, match="not a number from 0 to 1"):
        confidence_sequence([0.5, 2.0])


def test_standings_in_words() -> None:
    systems = ("dense", "hybrid")
    assert Standing.of([]).decided is None
    better = Standing.of([1.0] * 20 + [0.0] * 3)
    assert better.decided == "second"
    assert better.sentence(systems).startswith(
        "hybrid is better than dense: hybrid is preferred for 87 % of 23 "
    )
    worse = Standing.of([0.0] * 20 + [1.0] * 3).sentence(systems)
    assert worse == better.sentence(systems[::-1])
    equal = Standing.of([0.0, 1.0] * 300)
    assert equal.decided == "neither" and "more than 60 %" in equal.sentence(systems)
    assert "not enough to decide: dense is preferred for 62 %" in Standing.of([0.0] * 5 + [1] * 3).sentence(
        systems
    )


def test_judgements_are_appended_and_resumed(tmp_path: Path) -> None:
    path = tmp_path / "judgements.jsonl"
    kept = Judgements(path, COMPARED)
    kept.add("a", "left", second_is_left=True, found=[["1"], ["2"]])
    kept.add("b", "left", second_is_left=False, found=[["1"], ["2"]])
    kept.add("c", "tie", second_is_left=False, found=[["1"], ["2"]])
    kept.add("d", "skip", second_is_left=False, found=[["1"], ["2"]])
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"query": "e", "val')  # a process was killed here
    again = Judgements(path, COMPARED)
    assert path.read_bytes() == whole
    assert "d" in again and "e" not in again
    assert again.standing == kept.standing and (again.standing.judged, again.standing.share) == (3, 0.5)
    values = [json.loads(line)["value"] for line in path.read_text().splitlines()[1:]]
    assert values == [1.0, 0.0, 0.5, None]
    with pytest.raises(InputError, match="something else than judgements of these systems"):
        Judgements(path, COMPARED | {"k": 3})
    assert path.read_bytes() == whole
    path.write_bytes(whole.splitlines(keepends=True)[0][:9])  # or here
    assert Judgements(path, COMPARED).standing.judged == 0
    path.write_bytes(whole + b"[]\n")
    with pytest.raises(InputError, match=r"judgements.jsonl, line 6: not a judgement"):
        Judgements(path, COMPARED)
