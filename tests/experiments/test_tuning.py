from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sentemb.errors import InputError
from sentemb.experiments import Method, Setting
from tests.experiments.toy import fit, labelled_sets

pytest.importorskip("optuna", reason="optuna is not installed; pip install 'sentemb[tune]'")

from sentemb.experiments.tuning import tune

METHOD = Method("ce", "characters")
GRID = {"C": [0.0001, 0.01, 1.0, 100.0]}
SPLITS = labelled_sets().splits("toy", Setting("shots", 60), 1)


def describe(recipe: str, options: Any) -> Any:
    return {"C": 1.0, **options}


class Recording:
    """Trains, keeps what it was called with, and fails at a moment."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.calls: list[tuple[float, int]] = []
        self.fails_at = fails_at

    def __call__(self, method: Method, splits: Any, seed: int) -> float:
        if len(self.calls) == self.fails_at:
            self.fails_at = None
            raise KeyboardInterrupt
        self.calls.append((method.options["C"], seed))
        return fit(method, splits, seed)[2]


def search(run: Any, folder: Path, grid: Any = GRID, **options: Any) -> Any:
    return tune(run, describe, METHOD, SPLITS, grid, journal=folder / "tuning.log", **options)


def test_the_best_mean_on_validation_rows_is_taken(tmp_path: Path) -> None:
    run = Recording()
    found = search(run, tmp_path, seeds=(1, 2))
    assert sorted(run.calls) == [(value, seed) for value in GRID["C"] for seed in (1, 2)]
    means = {
        value: sum(fit(Method("ce", "characters", {"C": value}), SPLITS, seed)[2] for seed in (1, 2)) / 2
        for value in GRID["C"]
    }
    assert {trial.settings["C"]: trial.score for trial in found.tried} == pytest.approx(means)
    assert found.tried[0].score == max(means.values())
    assert found.method == Method("ce", "characters", {"C": found.tried[0].settings["C"]})


def test_an_interrupted_search_resumes_and_a_finished_one_is_read(tmp_path: Path) -> None:
    run = Recording(fails_at=2)
    with pytest.raises(KeyboardInterrupt):
        search(run, tmp_path)
    found = search(run, tmp_path)
    assert sorted(value for value, _ in run.calls) == GRID["C"]
    assert search(run, tmp_path) == found and len(run.calls) == 4
    search(run, tmp_path, seeds=(7,))
    assert len(run.calls) == 8


def test_fewer_trials_than_points(tmp_path: Path) -> None:
    run = Recording()
    found = search(run, tmp_path, {**GRID, "unused.option": [1, 2]}, trials=3)
    assert len(found.tried) == 3 == len(run.calls)
    assert found.method.options["unused"]["option"] in (1, 2)


def test_a_sampler_that_repeats_itself_does_not_search_for_ever(tmp_path: Path) -> None:
    run = Recording()
    grid = {"C": [0.0001, 0.01, 1.0, 100.0], "unused.option": [1, 2]}
    found = search(run, tmp_path, grid, trials=7)
    assert len(found.tried) == 7 == len(run.calls)


def test_a_point_that_cannot_be_trained_is_refused_before_any_is(tmp_path: Path) -> None:
    def picky(recipe: str, options: Any) -> Any:
        if options["C"] > 1:
            raise InputError("too large")
        return describe(recipe, options)

    run = Recording()
    with pytest.raises(InputError, match="too large"):
        tune(run, picky, METHOD, SPLITS, GRID, journal=tmp_path / "tuning.log")
    assert not run.calls


def test_an_empty_grid_is_refused(tmp_path: Path) -> None:
    for grid, seeds in (({}, (1,)), ({"C": []}, (1,)), (GRID, ())):
        with pytest.raises(InputError, match="the search grid is empty"):
            search(Recording(), tmp_path, grid, seeds=seeds)
