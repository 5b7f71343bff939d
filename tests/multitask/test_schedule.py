"""The steps of an epoch: which rows, how many, in which order."""

from __future__ import annotations

import numpy as np
import pytest

from sentemb.multitask.plan import StepPlan
from sentemb.multitask.schedule import Step, contrast_epoch, fused_epoch, task_epoch
from sentemb.multitask.stages import stages_of
from sentemb.multitask.tasks import TASKS, Task
from tests.multitask.toy import toy_config, toy_sets

SETS = toy_sets()  # 24 texts, 48 pairs, 16 scored pairs


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def rows_of(steps: list[Step], task: str) -> list[int]:
    return [int(row) for step in steps for part in step.parts if part.data == task for row in part.rows]


def order_of(steps: list[Step]) -> list[tuple[str, ...]]:
    return [tuple(f"{part.objective} {part.data}" for part in step.parts) for step in steps]


def test_average_has_a_batch_of_each_task_and_balanced_sets() -> None:
    steps = task_epoch(SETS, batch_size=5, generator=generator())
    assert order_of(steps) == [tuple(f"task {task}" for task in TASKS)] * 4
    for task in TASKS:
        rows = rows_of(steps, task)
        assert len(rows) == len(set(rows)) == 16  # as many as the smallest set has, none twice
    again = task_epoch(SETS, batch_size=5, generator=generator(1))
    assert set(rows_of(again, "paraphrase")) != set(rows_of(steps, "paraphrase"))  # drawn again


def test_stratified_resampling_keeps_the_shares_of_classes() -> None:
    steps = task_epoch(SETS, resampling="stratified", batch_size=4, generator=generator())
    assert np.bincount(SETS.paraphrase.labels[rows_of(steps, "paraphrase")]).tolist() == [8, 8]
    assert len(rows_of(steps, "similarity")) == 16


def test_batch_round_robin_takes_the_tasks_in_turn() -> None:
    steps = task_epoch(SETS, schedule="batch-round-robin", batch_size=8, generator=generator())
    assert order_of(steps) == [(f"task {task}",) for task in TASKS] * 2


def test_epoch_round_robin_takes_whole_sets_one_after_the_other() -> None:
    steps = task_epoch(SETS, schedule="epoch-round-robin", batch_size=8, generator=generator())
    assert order_of(steps) == [
        (f"task {task}",) for task, count in zip(TASKS, (3, 6, 2), strict=True) for _ in range(count)
    ]
    assert sorted(rows_of(steps, "paraphrase")) == list(range(48))


def test_a_single_task_has_its_whole_set() -> None:
    tasks: tuple[Task, ...] = ("paraphrase",)
    steps = task_epoch(SETS, tasks=tasks, batch_size=8, generator=generator())
    assert sorted(rows_of(steps, "paraphrase")) == list(range(48))


def test_contrast_draws_a_new_share_and_leaves_single_rows_out() -> None:
    rows = {"sentiment": np.arange(9), "paraphrase": np.arange(48)}
    steps = contrast_epoch(rows, shares={"paraphrase": 0.25}, batch_size=4, generator=generator())
    assert len(rows_of(steps, "sentiment")) == 8  # the ninth would contrast with nothing
    assert len(set(rows_of(steps, "paraphrase"))) == 12
    assert order_of(steps)[0] == ("contrast sentiment",)
    again = contrast_epoch(rows, shares={"paraphrase": 0.25}, batch_size=4, generator=generator(1))
    assert set(rows_of(again, "paraphrase")) != set(rows_of(steps, "paraphrase"))


@pytest.mark.parametrize("fusion", ["alternating", "summed"])
def test_fusion_uses_the_same_rows_twice(fusion: str) -> None:
    steps = fused_epoch(SETS, "sentiment", fusion=fusion, batch_size=8, generator=generator())
    parts = [part for step in steps for part in step.parts]
    for task, contrast in zip(parts[::2], parts[1::2], strict=True):
        assert (task.objective, contrast.objective) == ("task", "contrast")
        assert np.array_equal(task.rows, contrast.rows)
    expected = {"alternating": (6, "mean"), "summed": (3, "sum")}
    assert (len(steps), steps[0].combine) == expected[fusion]


@pytest.mark.parametrize(
    ("row", "names"),
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
def test_stages_of_the_rows(row: str, names: list[str]) -> None:
    stages = stages_of(toy_config(row, "base", "output"), SETS, nli_rows=3)
    assert [stage.name for stage in stages] == names


def test_orders_of_the_given_sets() -> None:
    def sets_of(row: str, stage: int) -> list[str]:
        steps = stages_of(toy_config(row, "base", "output"), SETS)[stage].layout(generator())
        return list(dict.fromkeys(part.data for step in steps for part in step.parts))

    assert sets_of("table2-given", 0) == ["paraphrase", "sentiment", "similarity"]  # section 4.1
    assert sets_of("table1-contrast-first", 0) == ["sentiment", "paraphrase", "similarity"]  # section 5.3
    assert sets_of("table1-fusion", 0) == ["sentiment", "paraphrase", "similarity"]


def test_without_negative_pairs_batches_hold_paraphrases_alone() -> None:
    stage = stages_of(toy_config("table4-quora-no-negatives", "base", "output"), SETS)[0]
    rows = rows_of(stage.layout(generator()), "paraphrase")
    assert len(rows) == 24
    assert SETS.paraphrase.labels[rows].all()


def test_a_plan_lays_out_every_stage_with_its_learning_rate() -> None:
    config = toy_config(
        "table2-given", "base", "output", epochs=2, max_steps=10, schedule="linear", warmup=0.2,
        learning_rate=1.0, contrast_learning_rate=2.0,
    )  # fmt: skip
    plan = StepPlan(stages_of(config, SETS), config)
    assert len(plan) == 10 + 4  # contrast ends by max_steps, the tasks by their epochs
    assert [number for number in range(14) if plan.begins_stage(number)] == [0, 10]
    assert [number for number in range(14) if plan.ends_epoch(number)] == [9, 11, 13]
    rates = [plan.learning_rate(number) for number in range(14)]
    assert rates[:10] == pytest.approx([0, 1, 2, 1.75, 1.5, 1.25, 1, 0.75, 0.5, 0.25])
    assert rates[10:] == pytest.approx([0, 1, 2 / 3, 1 / 3])
    again = StepPlan(stages_of(config, SETS), config)
    for number in (13, 0, 12):  # in any order
        rows = zip(plan[number].parts, again[number].parts, strict=True)
        assert all(np.array_equal(one.rows, other.rows) for one, other in rows)
