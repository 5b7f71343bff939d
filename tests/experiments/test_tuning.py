"""A grid is searched on validation rows, resumes, and does not train a point twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sentemb.errors import InputError
from sentemb.experiments.experiment import Method, Setting
from sentemb.experiments.tuning import tune
from tests.experiments.toy import fit, labelled_sets

METHOD = Method("ce", "characters")
GRID = {"C": [0.0001, 0.01, 1.0, 100.0]}
SPLITS = labelled_sets().splits("toy", Setting("shots", 60), 1)


class Recording:
    """Trains, records its calls, and fails at one of them."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.calls: list[tuple[float, int]] = []
        self.fails_at = fails_at

    def __call__(self, method: Method, splits: Any, seed: int) -> float:
        if len(self.calls) == self.fails_at:
            self.fails_at = None
            raise KeyboardInterrupt
        self.calls.append((method.options["C"], seed))
        return fit(method, splits, seed)[2]


def search(run: Any, folder: Path, grid: Any = GRID, *, describe: Any = None, **options: Any) -> Any:
    described = describe or (lambda recipe, given: {"C": 1.0, **given})
    return tune(run, described, METHOD, SPLITS, grid, journal=folder / "tuning.json", **options)


def test_the_best_mean_on_validation_rows_is_taken(tmp_path: Path) -> None:
    run = Recording()
    found = search(run, tmp_path, seeds=(1, 2))
    assert sorted(run.calls) == [(value, seed) for value in GRID["C"] for seed in (1, 2)]
    means = {
        value: sum(fit(Method("ce", "characters", {"C": value}), SPLITS, seed)[2] for seed in (1, 2)) / 2
        for value in GRID["C"]
    }
    assert {point["C"]: score for point, score in found} == pytest.approx(means)
    assert found[0][1] == max(means.values())


def test_an_interrupted_search_resumes_and_another_one_does_not(tmp_path: Path) -> None:
    run = Recording(fails_at=2)
    with pytest.raises(KeyboardInterrupt):
        search(run, tmp_path)
    found = search(run, tmp_path)
    assert sorted(value for value, _ in run.calls) == GRID["C"]
    assert search(run, tmp_path) == found and len(run.calls) == 4
    for number, changes in enumerate(
        ({"seeds": (7,)}, {"describe": lambda _, given: {"epochs": 2, **given}}), 2
    ):
        search(run, tmp_path, **changes)
        assert len(run.calls) == 4 * number


@pytest.mark.parametrize("trials", [3, 7])
def test_fewer_trials_than_points(tmp_path: Path, trials: int) -> None:
    run = Recording()
    found = search(run, tmp_path, {**GRID, "unused.option": [1, 2]}, trials=trials)
    assert len(found) == trials == len(run.calls)


def test_wrong_points_and_empty_grids_are_refused_before_a_training(tmp_path: Path) -> None:
    def picky(recipe: str, options: Any) -> Any:
        if options["C"] > 1:
            raise InputError("too large")
        return options

    run = Recording()
    with pytest.raises(InputError, match="too large"):
        search(run, tmp_path, describe=picky)
    for grid, seeds in (({}, (1,)), ({"C": []}, (1,)), (GRID, ())):
        with pytest.raises(InputError, match="the search grid is empty"):
            search(run, tmp_path, grid, seeds=seeds)
    assert not run.calls
