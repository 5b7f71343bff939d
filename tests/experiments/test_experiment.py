"""Experiments are read from TOML, checked, and make the grid of their trials."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.experiments import Experiment, experiment_names, load_experiment
from sentemb.experiments.classification import ClassificationData, ClassificationTrials
from sentemb.experiments.experiment import Method, published
from sentemb.experiments.runner import Place, data_fields
from sentemb.training import recipes_of

OWN = """
title = "Mine"
kind = "sts"
base = "bert-mini"
seeds = [1, 2]
options = { max_steps = 5 }

[methods.simcse]

[methods.mine]
recipe = "simcse"
loss = "my_losses.py:MyLoss"
loss_options.temperature = 0.1
published = "1.0"

[groups]
both = ["simcse", "mine"]
"""


def trials(experiment: Experiment, **data: Any) -> ClassificationTrials:
    given = ClassificationData(**{**experiment.data, **data})
    return ClassificationTrials(experiment, given, Place(Path("unused"), announce=print))


def test_a_file_of_ones_own(write_file: Callable[[str, str], Path]) -> None:
    mine = load_experiment(write_file("mine.toml", OWN))
    loss = {"loss": "my_losses.py:MyLoss", "loss_options": {"temperature": 0.1}}
    assert mine.name == "mine" and mine.seeds == (1, 2)
    assert mine.chosen == (Method("simcse", "simcse"), Method("mine", "simcse", loss, "1.0"))
    assert mine.chosen[1].options == loss
    assert mine.replace(rows=["both"]).chosen == mine.chosen
    # A name that is not a method of the file is a recipe.
    assert mine.replace(rows=["sg-opt"]).chosen == (Method("sg-opt", "sg-opt"),)
    assert mine.replace(base=None).base == "bert-mini"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("titel = 'x'", "did you mean title"),
        ("seeds = []", "seeds must be a list of at least one number"),
        ("seeds = [1, 1]", "without repeats"),
        ("seeds = [-1]", "seeds is -1; it must be greater than"),
        ("best = 3", "best is 3, but there are only 2 seeds"),
        ("kind = 'stss'", "kind is 'stss'; did you mean sts"),
        ("rows = ['a', 'a']", "the method a is listed twice"),
        ("options = { seeds = 3 }", "seeds cannot be set here because the experiment sets it; use --seeds"),
        (
            "methods.x.metric = 'f1'",
            "x: metric cannot be set here because the experiment sets it; choose the paper",
        ),
        ("methods.x.recipe = ['ce']", r"the recipe of x is \['ce'\]"),
        ("bases = { rte = 'bert' }", "bases lists rte, which is not a data set"),
        ("seeds = [", "not valid TOML"),
    ],
)
def test_errors_name_file_and_field(write_file: Callable[[str, str], Path], line: str, message: str) -> None:
    head = {"title": "'x'", "kind": "'sts'", "seeds": "[1, 2]"}
    kept = [f"{key} = {value}" for key, value in head.items() if key != line.partition(" ")[0]]
    with pytest.raises(InputError, match=message):
        load_experiment(write_file("bad.toml", "\n".join([*kept, line]) + "\n"))


def test_names_that_are_unknown_have_a_hint() -> None:
    with pytest.raises(InputError, match="did you mean ablations"):
        load_experiment("ablation")
    with pytest.raises(InputError, match=r"no such file: absent\.toml"):
        load_experiment("absent.toml")


@pytest.mark.parametrize("name", experiment_names())
def test_every_bundled_experiment_is_sound(name: str) -> None:
    bundled = load_experiment(name)
    assert bundled.source and bundled.chosen
    assert set(bundled.data) <= set(data_fields(bundled))


def test_the_multi_task_tables_name_rows_that_there_are() -> None:
    tables = published("multitask")["tables"]
    named = {run for table in tables for row in table["rows"] for run in row["runs"]}
    assert named <= set(recipes_of("multitask"))
    bundled = load_experiment("multitask")
    assert {run for runs in bundled.groups.values() for run in runs} == named
    for table in tables:
        group = bundled.groups[f"table-{table['number']}"]
        assert {run for row in table["rows"] for run in row["runs"]} == set(group)
        for row in table["rows"]:
            overall, *tasks = row["figures"]
            if not isnan(overall):
                assert overall == pytest.approx(np.nansum(tasks) / 3, abs=0.0021), row["label"]


def test_a_whole_seed_comes_before_the_next_and_sets_have_their_metrics() -> None:
    full = load_experiment("full").replace(rows=["ce", "scl"], datasets=["mrpc", "rte"], seeds=(1, 2))
    made = trials(full).trials()
    names = ["ce mrpc full seed 1", "scl mrpc full seed 1", "ce rte full seed 1"]
    assert [str(one) for one in made[:3]] == names
    assert len(made) == 8 and {one.seed for one in made[:4]} == {1}
    assert [str(one) for one in load_experiment("few-shot").settings] == [
        "shots-20",
        "shots-100",
        "shots-1000",
    ]
    assert made[0].method.options["metric"] == "f1"
    assert trials(full, rule="scl").trials()[0].method.options["metric"] == "accuracy"
    with pytest.raises(InputError, match="labelled data is missing"):
        trials(load_experiment("full")).trials()


def test_all_methods_share_base_and_optimization_unless_one_says_otherwise() -> None:
    full = load_experiment("full").replace(
        rows=["ce", "own"],
        methods={"own": {"recipe": "scl", "epochs": 3}},
        options={"learning_rate": 1e-4},
        datasets=["rte", "eprstmt"],
        bases={"eprstmt": "chinese"},
        seeds=(1,),
    )
    made = {(one.method.name, one.datasets[0]): one.method.options for one in trials(full).trials()}
    assert {one["learning_rate"] for one in made.values()} == {1e-4}
    assert {one["batch_size"] for one in made.values()} == {32}
    assert [made[name, "rte"]["epochs"] for name in ("ce", "own")] == [10, 3]
    assert {data: one["base"] for (_, data), one in made.items()} == {
        "rte": "bert-base-uncased",
        "eprstmt": "chinese",
    }
    scl = trials(full.replace(datasets=["cola"], bases={}), rule="scl").trials()[0]
    assert scl.method.options["base"] == "roberta-large"
    few = load_experiment("few-shot-per-class").replace(datasets=["rte"])
    assert trials(few).trials()[0].method.options["epochs"] == 20
