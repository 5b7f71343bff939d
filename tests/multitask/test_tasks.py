"""The CS 224N data sets, and data that is not suitable for a task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.data.labelled import LabelledTexts
from sentemb.errors import InputError
from sentemb.multitask import TaskSets, load_task_sets
from sentemb.multitask.tasks import TASKS, Step, StepPlan, Task
from tests.multitask.toy import toy_config, toy_sets

SST = "\tid\tsentence\tsentiment\n0\ta\tFine .\t3\n1\tb\tBad .\t0\n"
QUORA = "\tid\tsentence1\tsentence2\tis_duplicate\n" + "".join(
    f"{row}\t{row}\tWhat is {row}?\tWho is {row}?\t{row % 2}.0\n" for row in range(10)
)
STS = "\tid\tsentence1\tsentence2\tsimilarity\n3\ta\tA dog.\tThe dog.\t4.6\n4\tb\tA dog.\tA mat.\t0.2\n"


@pytest.fixture
def folder(write_file: Callable[[str, str], Path], tmp_path: Path) -> Path:
    for split in ("train", "dev"):
        write_file(f"cs224n/ids-sst-{split}.csv", SST)
        write_file(f"cs224n/sts-{split}.csv", STS)
    write_file("cs224n/quora-dev.csv", QUORA)
    return tmp_path


def test_a_part_of_the_dev_pairs_replaces_the_training_pairs(
    folder: Path, write_file: Callable[[str, str], Path]
) -> None:
    with pytest.raises(InputError, match=r"quora-train\.csv"):
        load_task_sets(data_dir=folder, check_rows=False)
    train, dev = load_task_sets(data_dir=folder, held_out=0.4, check_rows=False)
    assert (len(train.paraphrase), len(dev.paraphrase)) == (6, 4)
    assert not set(train.paraphrase.texts) & set(dev.paraphrase.texts)
    assert train.sentiment.labels.tolist() == [3, 0]
    assert dev.similarity.labels.tolist() == [4.6, 0.2]
    assert len(dev.sample(1).paraphrase) == 1
    with pytest.raises(InputError, match="held_out is 1; use a fraction"):
        load_task_sets(data_dir=folder, held_out=1.0, check_rows=False)
    write_file("cs224n/quora-train.csv", QUORA)
    train, dev = load_task_sets(data_dir=folder, check_rows=False)
    assert (len(train.paraphrase), len(dev.paraphrase)) == (10, 10)


@pytest.mark.parametrize(
    ("task", "data", "message"),
    [
        ("sentiment", toy_sets().paraphrase, "is not suitable for the task sentiment; use single texts of"),
        ("sentiment", LabelledTexts("one", "train", ["a"], None, np.array([0]), ("x",)), "one train is not"),
        (
            "paraphrase",
            LabelledTexts("three", "train", ["a"], ["b"], np.array([2]), ("x", "y", "z")),
            "three train is not suitable for the task paraphrase; use pairs of texts of two classes",
        ),
        (
            "similarity",
            LabelledTexts("high", "train", ["a"], ["b"], np.array([9.0]), ()),
            "use pairs of texts with scores from 0 to 5",
        ),
    ],
)
def test_sets_of_another_kind_are_refused(task: Task, data: LabelledTexts, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TaskSets(**{**dict(toy_sets()), task: data})


def test_the_real_sets(shared_data: Path) -> None:
    if not (shared_data / "cs224n").is_dir():
        pytest.skip(f"no cs224n in {shared_data}")
    train, dev = load_task_sets(data_dir=shared_data, held_out=0.5)
    assert (len(train.sentiment), len(dev.sentiment)) == (8544, 1101)
    assert len(train.paraphrase) == len(dev.paraphrase) == 10106  # two of 20,214 rows have no label
    assert (len(train.similarity), len(dev.similarity)) == (6040, 863)
    assert set(train.sentiment.labels.tolist()) == set(range(5))
    # The baseline's accuracy in Table 1, which calls nearly every pair a paraphrase.
    assert 0.36 < dev.paraphrase.labels.mean() < 0.40
    # A sample has the classes of a file that is in their order.
    some = train.sample(600)
    shares = [np.bincount(one.sentiment.labels.astype(int)) / len(one.sentiment) for one in (train, some)]
    np.testing.assert_allclose(shares[1], shares[0], atol=0.06)
    assert some.sentiment.texts == train.sample(600).sentiment.texts


SETS = toy_sets()  # 24 texts, 48 pairs, 16 scored pairs


def plan_of(row: str, **options: Any) -> StepPlan:
    return StepPlan(toy_config(row, "base", "output", **options), SETS, nli_rows=3)


def epoch(row: str, stage: str = "tasks", seed: int = 0, **options: Any) -> list[Step]:
    return plan_of(row, **options).layout(stage, np.random.default_rng(seed))


def rows_of(steps: list[Step], data: str) -> list[int]:
    return [int(row) for step in steps for part in step if part.data == data for row in part.rows]


def order_of(steps: list[Step]) -> list[tuple[str, ...]]:
    return [tuple(part.name for part in step) for step in steps]


def test_average_has_a_batch_of_each_task_and_balanced_sets() -> None:
    steps = epoch("table2-none", batch_size=5)
    assert order_of(steps) == [TASKS] * 4
    for task in TASKS:
        rows = rows_of(steps, task)
        assert len(rows) == len(set(rows)) == 16  # as many as the smallest set has, none twice
    again = epoch("table2-none", batch_size=5, seed=1)
    assert set(rows_of(again, "paraphrase")) != set(rows_of(steps, "paraphrase"))  # drawn again


def test_round_robin_takes_the_tasks_in_turn_and_a_single_task_its_whole_set() -> None:
    assert order_of(epoch("table6-batch-round-robin")) == [(task,) for task in TASKS] * 2
    steps = epoch("table6-epoch-round-robin")
    assert order_of(steps) == [
        (task,) for task, count in zip(TASKS, (3, 6, 2), strict=True) for _ in range(count)
    ]
    for whole in (steps, epoch("table2-single-paraphrase")):
        assert sorted(rows_of(whole, "paraphrase")) == list(range(48))


def test_contrast_draws_a_new_share_and_skips_single_rows() -> None:
    def contrast(seed: int) -> list[Step]:
        options = {"paraphrase_share": 0.25, "batch_size": 23}
        return epoch("table1-contrast-first", "contrast on given", seed, **options)

    steps = contrast(0)
    assert len(rows_of(steps, "sentiment")) == 23  # the 24th would contrast with nothing
    assert len(set(rows_of(steps, "paraphrase"))) == 12
    assert order_of(steps) == [("contrast_sentiment",), ("contrast_paraphrase",), ("contrast_similarity",)]
    assert set(rows_of(contrast(1), "paraphrase")) != set(rows_of(steps, "paraphrase"))


def test_fusion_uses_the_same_rows_twice() -> None:
    fused = epoch("table1-fusion", "fused")[:6]
    parts = [part for step in fused for part in step]
    for task, contrast in zip(parts[::2], parts[1::2], strict=True):
        assert (task.name, contrast.name) == ("sentiment", "contrast_sentiment")
        assert np.array_equal(task.rows, contrast.rows)
    assert len(parts) == 6


@pytest.mark.parametrize(
    ("row", "stages"),
    [
        ("table1-vanilla", ["tasks"]),
        ("table1-contrast-first", ["contrast on given", "tasks"]),
        ("table1-supervised-first", ["tasks", "contrast on given"]),
        ("table1-fusion", ["fused"]),
        ("table4-quora", ["contrast on quora", "tasks"]),
        ("table5-nli-given", ["contrast on nli", "contrast on given", "tasks"]),
        ("table5-given-nli", ["contrast on given", "contrast on nli", "tasks"]),
    ],
)
def test_stages_of_the_rows(row: str, stages: list[str]) -> None:
    plan = plan_of(row)
    assert plan.stages == stages
    assert "nli" not in row or rows_of(plan.layout("contrast on nli", np.random.default_rng()), "nli")


@pytest.mark.parametrize(
    ("row", "stage", "sets"),
    [
        ("table2-given", "contrast on given", ["paraphrase", "sentiment", "similarity"]),  # section 4.1
        ("table1-contrast-first", "contrast on given", ["sentiment", "paraphrase", "similarity"]),  # 5.3
        ("table1-fusion", "fused", ["sentiment", "paraphrase", "similarity"]),
    ],
)
def test_orders_of_the_given_sets(row: str, stage: str, sets: list[str]) -> None:
    assert list(dict.fromkeys(part.data for step in epoch(row, stage) for part in step)) == sets


def test_without_negative_pairs_batches_hold_only_paraphrases() -> None:
    rows = rows_of(epoch("table4-quora-no-negatives", "contrast on quora"), "paraphrase")
    assert len(rows) == 24
    assert SETS.paraphrase.labels[rows].all()


def test_a_plan_lays_out_every_stage_with_its_learning_rate() -> None:
    options: dict[str, Any] = {"epochs": 2, "max_steps": 10, "schedule": "linear", "warmup": 0.2}
    options |= {"learning_rate": 1.0, "contrast_learning_rate": 2.0}
    plan, again = plan_of("table2-given", **options), plan_of("table2-given", **options)
    assert len(plan) == 10 + 4  # contrast ends by max_steps, the tasks by their epochs
    assert [number for number in range(14) if plan.locate(number)[1] == 0] == [0, 10]
    assert [number for number in range(14) if plan.ends_epoch(number)] == [9, 11, 13]
    rates = [plan.learning_rate(number) for number in range(14)]
    assert rates[:10] == pytest.approx([0, 1, 2, 1.75, 1.5, 1.25, 1, 0.75, 0.5, 0.25])
    assert rates[10:] == pytest.approx([0, 1, 2 / 3, 1 / 3])
    for number in (13, 0, 12):  # in any order
        rows = zip(plan[number], again[number], strict=True)
        assert all(np.array_equal(one.rows, other.rows) for one, other in rows)
