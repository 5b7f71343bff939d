from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.evaluation.ranks import Board, rank_board, rank_intervals, rank_systems, read_board, share_places
from sentemb.evaluation.systems import SetRuns, System


def board(means: list[float], items: int, spread: float = 0.05, seed: int = 0) -> Board:
    generator = np.random.default_rng(seed)
    shared = generator.normal(0, 0.2, items)  # hard and easy tasks, which all models share
    scores = np.array([mean + shared + generator.normal(0, spread, items) for mean in means])
    return Board(tuple(f"model-{number}" for number in range(len(means))), "tasks", scores, 0)


def test_models_that_differ_have_places_and_ranks_of_their_own() -> None:
    found = rank_board(board([0.3, 0.6, 0.61, 0.9], 60))
    assert [one.name for one in found.ranked][::3] == ["model-3", "model-0"]
    assert [one.place for one in found.ranked] == [1, 2, 2, 4]
    assert [one.ranks for one in found.ranked][::3] == [(1, 1), (4, 4)]
    assert {one.ranks for one in found.ranked[1:3]} == {(2, 3)}
    assert found.sentence() == "model-3 is first (rank 1); it differs significantly from the 3 others"
    near = rank_board(board([0.6, 0.605], 60))
    assert [one.place for one in near.ranked] == [
        1,
        1,
    ] and "does not differ significantly from it" in near.sentence()
    assert "more tasks would decide" in near.power_sentence()


def test_an_interval_covers_the_true_rank() -> None:
    covered = 0
    for seed in range(40):
        found = rank_board(board([0.5, 0.52, 0.54, 0.56, 0.58], 30, 0.1, seed), draws=200)
        ranks = {one.name: one.ranks for one in found.ranked}
        covered += sum(
            ranks[f"model-{4 - rank}"][0] <= rank + 1 <= ranks[f"model-{4 - rank}"][1] for rank in range(5)
        )
    assert covered >= 0.92 * 200


def test_equal_models_are_all_first() -> None:
    equal = board([0.5], 30)._replace(models=("a", "b", "c"), scores=np.ones((3, 1)) * np.arange(30))
    assert [(one.ranks, one.place) for one in rank_board(equal).ranked] == [((1, 3), 1)] * 3


def test_equal_models_rarely_differ() -> None:
    wrong = sum(
        any(one.place > 1 for one in rank_board(board([0.5] * 4, 20, seed=seed), draws=500).ranked)
        for seed in range(60)
    )
    assert wrong <= 8  # 5 % of 60, and three standard deviations


def test_many_models_differ_by_a_bound_that_draws_cannot_reach() -> None:
    # 780 pairs: 2,000 draws give no p-value below 0.0005, and the correction needs 0.00006.
    found = rank_board(board([0.01 * number for number in range(40)], 80, 0.02), draws=100)
    assert max(one.place for one in found.ranked) > 30


def test_few_tasks_are_said_to_be_too_few() -> None:
    found = rank_board(board([0.1, 0.5, 0.9], 5))
    assert {one.place for one in found.ranked} == {1}
    assert found.power_sentence() == "5 tasks are too few for any two models to differ significantly"


def test_places_are_shared_with_the_first() -> None:
    # The second differs from neither neighbor, and shares the place of the first.
    assert share_places(["a", "b", "c"], {("a", "c")}) == {"a": 1, "b": 1, "c": 3}
    assert rank_intervals(np.array([[3.0] * 40, [2.0] * 39 + [4.0]])) == [(1, 1), (2, 2)]


def test_a_table_is_read_in_any_format(tmp_path: Path) -> None:
    rows = [("a", "x", 1.0), ("a", "y", 2.0), ("b", "y", 4.0), ("b", "x", 3.0), ("b", "z", 9.0)]
    (tmp_path / "s.tsv").write_text(
        "Query\tSystem\tScore\n" + "".join(f"{q}\t{m}\t{s}\n" for m, q, s in rows)
    )
    lines = (json.dumps({"model": m, "task": ord(t), "score": s}) for m, t, s in rows)
    (tmp_path / "s.jsonl").write_text("\n".join(lines))
    for name, kind in (("s.tsv", "queries"), ("s.jsonl", "tasks")):
        found = read_board(tmp_path / name)
        assert found.models == ("a", "b") and found.kind == kind and found.skipped == 1
        assert found.scores.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,x,1\na,x,2\n", r"s.csv:3: a second score of a on x"),
        ("a,x,high\n", r"s.csv:2: expected a number in column 'score'"),
        ("a,x,1\na,y,1\n", "has one model, a"),
        ("a,x,1\nb,x,1\nb,y,1\n", r"all 2 models have 1 of 2 tasks in common"),
        (",x,1\n", r"s.csv:2: column 'model' is empty"),
    ],
)
def test_unusable_tables_are_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(f"model,task,score\n{text}")
    with pytest.raises(InputError, match=message):
        read_board(tmp_path / "s.csv")


def test_systems_are_ranked_by_the_sets_that_all_have() -> None:
    generator = np.random.default_rng(0)
    base = generator.uniform(0, 1, (2, 100))
    near = base + generator.normal(0.004, 0.05, (2, 100))

    def system(name: str, *rows: np.ndarray) -> System:
        runs = {
            f"set {number}": SetRuns(np.zeros(100), row[None], str(number)) for number, row in enumerate(rows)
        }
        return System(name, "ndcg@10", (None,), runs)

    found = rank_systems(
        [system("low", *(base - 0.3)), system("base", *base, base[0]), system("near", *near)]
    )
    assert [one.place for one in found] == [1, 1, 3] and found[2].ranks == (3, 3)
    assert found[2].score == pytest.approx(100 * (base - 0.3).mean())
