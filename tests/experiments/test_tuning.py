"""A grid is searched on validation rows, resumes, and does not train a point twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sentemb.errors import InputError
from sentemb.experiments import classification
from sentemb.experiments.experiment import Method, Setting
from tests.experiments.toy import fit, labelled_sets

METHOD = Method("ce", "characters")
GRID = {"C": [0.0001, 0.01, 1.0, 100.0]}
SPLITS = labelled_sets().splits("toy", Setting("shots", 60), 1)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, int]]:
    """The trainings, of the toy methods; the third is interrupted."""
    calls: list[tuple[float, int]] = []

    def run(method: Method, splits: Any, seed: int, inputs: Any) -> Any:
        assert not inputs  # test rows are never seen
        calls.append((method.options["C"], seed))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return None, fit(method, splits, seed)[2], {}

    monkeypatch.setattr(classification, "_fit", run)
    monkeypatch.setattr(classification, "describe", lambda recipe, options: {"base": "x", **options})
    return calls


def search(folder: Path, grid: Any = GRID, **options: Any) -> Any:
    return classification.tune(METHOD, SPLITS, grid, journal=folder / "tuning.json", **options)


def test_an_interrupted_search_resumes_and_the_best_mean_is_first(
    calls: list[tuple[float, int]], tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path, seeds=(1, 2))
    found = search(tmp_path, seeds=(1, 2))
    assert calls[3:] == [(value, seed) for value in GRID["C"][1:] for seed in (1, 2)]
    means = {
        value: sum(fit(Method("ce", "characters", {"C": value}), SPLITS, seed)[2] for seed in (1, 2)) / 2
        for value in GRID["C"]
    }
    assert {point["C"]: score for point, score in found} == pytest.approx(means)
    assert found[0][1] == max(means.values())
    assert search(tmp_path, seeds=(1, 2)) == found and len(calls) == 9
    search(tmp_path, seeds=(7,))  # another search
    assert len(calls) == 13


def test_wrong_points_and_empty_grids_are_refused_before_a_training(
    calls: list[tuple[float, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for grid, seeds in (({}, (1,)), ({"C": []}, (1,)), (GRID, ())):
        with pytest.raises(InputError, match="the search grid is empty"):
            search(tmp_path, grid, seeds=seeds)

    def picky(recipe: str, options: Any) -> Any:
        raise InputError("too large")

    monkeypatch.setattr(classification, "describe", picky)
    with pytest.raises(InputError, match="too large"):
        search(tmp_path)
    assert not calls
