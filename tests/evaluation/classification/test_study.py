from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.evaluation.classification import Cell, Method, Outcome, Point, Study, read_cell, read_cells
from tests.evaluation.classification.toy import (
    BLIND,
    CE,
    SMOOTH,
    cells,
    describe,
    fit_predict,
    protocol_data,
)

RUN = """
import sys
from pathlib import Path
from sentemb.evaluation.classification import Study
from tests.evaluation.classification.toy import CE, SMOOTH, cells, describe, protocol_data, slow_fit_predict
if __name__ == "__main__":
    study = Study(Path(sys.argv[1]), slow_fit_predict, describe, protocol_data(), jobs=int(sys.argv[2]))
    study.run(cells(CE, SMOOTH, seeds=10))
"""


class Counting:
    """`fit_predict`, and what it was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, Mapping[str, Any]]] = []

    def __call__(self, recipe: str, *arguments: Any) -> Outcome:
        self.calls.append((recipe, arguments[3], arguments[4]))
        return fit_predict(recipe, *arguments)


def study(folder: Path, run: Any = fit_predict, **options: Any) -> Study:
    return Study(folder, run, describe, protocol_data(), **options)


def test_each_cell_has_a_record_with_everything_that_decided_it(tmp_path: Path) -> None:
    lines: list[str] = []
    records = study(tmp_path, say=lines.append).run(cells(CE, BLIND))
    assert [(run.cell.method.name, run.cell.seed) for run in records] == [
        (name, seed) for seed in range(3) for name in ("ce", "blind")
    ]
    first = records[0]
    assert first.sizes == {"train": 60, "validation": 200, "test": 200}
    assert sum(first.class_counts.values()) == 60
    assert first.settings == {"C": 1.0, "metric": "accuracy"}
    assert first.score == np.mean(first.predictions == first.gold) > 0.6
    assert first.probabilities is not None and first.probabilities.shape == (200, 2)
    assert records[1].probabilities is None and records[1].score == np.mean(first.gold == 0)
    assert {"accuracy", "f1", "macro_f1", "matthews"} == set(first.scores)
    assert {"torch", "sentemb"} <= set(first.versions) and first.hardware["cores"] >= 1
    assert first.seconds["total"] >= first.seconds["train"]
    assert lines[0] == "6 cells, 0 of them finished before"
    assert lines[1].startswith("[1/6] ce toy shots-60 seed 0: accuracy ") and lines[1].endswith(" left")
    assert "left" not in lines[6]


def test_records_read_back(tmp_path: Path) -> None:
    records = study(tmp_path).run(cells(CE, BLIND, seeds=1))
    back = {run.cell.method.name: run for run in read_cells([tmp_path])}
    for record in records:
        other = back[record.cell.method.name]
        assert other.cell == record.cell
        for field in dataclasses.fields(record):
            np.testing.assert_equal(getattr(other, field.name), getattr(record, field.name), field.name)
    assert sorted(path.name.split(".")[:3] for path in tmp_path.glob("*.json")) == [
        ["blind", "toy", "shots-60"],
        ["ce", "toy", "shots-60"],
    ]


def test_finished_cells_are_not_run_again_and_changed_ones_are(tmp_path: Path) -> None:
    counting = Counting()
    study(tmp_path, counting).run(cells(CE, seeds=2))
    study(tmp_path, counting).run(cells(CE, seeds=3))
    assert [seed for _, seed, _ in counting.calls] == [0, 1, 2]
    other = Method("ce", "characters", {"C": 2.0})
    study(tmp_path, counting).run(cells(other, seeds=1))
    assert counting.calls[-1] == ("characters", 0, {"metric": "accuracy", "C": 2.0})
    assert len(counting.calls) == 4 and len(read_cells([tmp_path])) == 4


def test_the_base_counts_by_its_content_and_not_by_its_name(tmp_path: Path) -> None:
    counting = Counting()

    def run(name: str, fingerprint: str) -> None:
        def based(recipe: str, options: Mapping[str, Any]) -> dict[str, Any]:
            return {**describe(recipe, options), "base": name, "start_fingerprint": fingerprint}

        Study(tmp_path, counting, based, protocol_data()).run(cells(CE, seeds=1))

    run("here/bert", "a")
    run("there/bert", "a")
    assert len(counting.calls) == 1
    run("here/bert", "b")
    assert len(counting.calls) == 2 and len(read_cells([tmp_path])) == 2


def test_a_folder_of_other_rows_or_another_metric_is_refused_before_training(tmp_path: Path) -> None:
    counting = Counting()
    study(tmp_path, counting).run(cells(CE, seeds=1))
    by_f1 = [dataclasses.replace(cell, metric="f1") for cell in cells(CE, seeds=1)]
    with pytest.raises(InputError, match="other rows or another metric; take another --output"):
        study(tmp_path, counting).run(by_f1)
    with pytest.raises(InputError, match="other rows or another metric"):
        Study(tmp_path, counting, describe, protocol_data(rule="sg-bert")).run(cells(CE, seeds=1))
    assert len(counting.calls) == 1


def test_what_a_set_does_not_allow_is_said_and_left_out(tmp_path: Path) -> None:
    lines: list[str] = []
    plan = [cell for value in (3, 20) for cell in cells(CE, data="rare", point=Point("rho", value), seeds=1)]
    records = study(tmp_path, say=lines.append).run(plan)
    assert [run.cell.point.value for run in records] == [3]
    assert lines[0].startswith("left out: rare rho-20 seed 0: rare at rho-20: class 0 has ")
    with pytest.raises(InputError, match="no cell of the study is possible"):
        study(tmp_path).run(plan[1:])


def test_a_method_sees_no_test_label_in_its_options_and_every_method_the_same_rows(tmp_path: Path) -> None:
    records = study(tmp_path).run(cells(CE, BLIND))
    for one, other in zip(records[::2], records[1::2], strict=True):
        assert one.checksums == other.checksums
    assert len({run.checksums["train"] for run in records}) == 3
    assert len({run.checksums["test"] for run in records}) == 1


def test_a_wrong_method_is_refused_before_the_first_cell_runs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"typo: no recipe charcters; take characters"):
        study(tmp_path).run(cells(CE, Method("typo", "charcters")))
    assert not list(tmp_path.iterdir())


def test_a_failure_names_its_cell_and_keeps_the_others(tmp_path: Path) -> None:
    def run(recipe: str, *arguments: Any) -> Outcome:
        if recipe == "constant":
            raise InputError("the data is too hard", "take easier data")
        return fit_predict(recipe, *arguments)

    with pytest.raises(
        InputError, match=r"blind toy shots-60 seed 0: the data is too hard; take easier data"
    ):
        study(tmp_path, run).run(cells(CE, BLIND))
    assert [run.cell.method.name for run in read_cells([tmp_path])] == ["ce"]


@pytest.mark.parametrize(
    "broken",
    [
        {"predictions": np.zeros(3, np.int64)},
        {"predictions": np.full(200, 2)},
        {"predictions": np.full(200, 0.5)},
        {"probabilities": np.full((200, 2), np.nan)},
        {"probabilities": np.zeros((200, 3))},
        {"validation_score": float("nan")},
    ],
)
def test_nonsense_from_a_method_is_no_result(tmp_path: Path, broken: dict[str, Any]) -> None:
    def run(*arguments: Any) -> Outcome:
        return dataclasses.replace(fit_predict(*arguments), **broken)

    with pytest.raises(ValueError) as caught:
        study(tmp_path, run).run(cells(CE, seeds=1))
    assert "in the cell ce toy shots-60 seed 0" in caught.value.__notes__
    assert not list(tmp_path.glob("*.json"))


def test_mistakes_in_the_study_itself(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="two cells of the study are the same"):
        study(tmp_path).run([*cells(CE, seeds=1), *cells(CE, seeds=1)])
    with pytest.raises(InputError, match="options cannot be recorded"):
        study(tmp_path).run(cells(Method("ce", "characters", {"C": object()}), seeds=1))
    with pytest.raises(InputError, match="0 processes"):
        study(tmp_path, jobs=0)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("metric", "acuracy", "field metric"),
        ("scores", {"f1": 0.5}, "field scores"),
        ("sizes", {}, "train"),
        ("seconds", {}, "field seconds"),
    ],
)
def test_a_damaged_record_names_file_and_field(tmp_path: Path, field: str, value: Any, problem: str) -> None:
    import json

    study(tmp_path).run(cells(CE, seeds=1))
    (path,) = tmp_path.glob("*.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    with pytest.raises(InputError, match=problem) as caught:
        read_cell(path)
    assert path.name in str(caught.value)


def test_a_killed_study_keeps_whole_records_and_goes_on(tmp_path: Path) -> None:
    process = start(tmp_path, jobs=1)
    wait_for(lambda: len(list(tmp_path.glob("*.json"))) >= 3)
    process.kill()
    process.communicate()
    kept = {run.cell: run for run in read_cells([tmp_path])}  # every one is whole
    assert 3 <= len(kept) < 20
    counting = Counting()
    records = study(tmp_path, counting).run(cells(CE, SMOOTH, seeds=10))
    assert len(counting.calls) == 20 - len(kept)
    assert {run.cell: run.date for run in records if run.cell in kept} == {
        cell: run.date for cell, run in kept.items()
    }
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert len(list(tmp_path.iterdir())) == 40


def test_processes_give_the_same_records_and_end_with_the_first_one(tmp_path: Path) -> None:
    process = start(tmp_path, jobs=2)
    wait_for(lambda: len(list(tmp_path.glob("*.json"))) >= 4)
    process.send_signal(signal.SIGKILL)
    workers = {int(line.split()[1]) for line in process.communicate()[0].splitlines()}
    assert len(workers) == 2
    wait_for(lambda: not any(runs(worker) for worker in workers))
    here = {cell: run_here(cell) for cell in cells(CE, SMOOTH, seeds=10)}
    for record in read_cells([tmp_path]):
        np.testing.assert_array_equal(record.predictions, here[record.cell].predictions)


@pytest.mark.slow
def test_ctrl_c_ends_every_process_at_once(tmp_path: Path) -> None:
    process = start(tmp_path, jobs=2)
    wait_for(lambda: len(list(tmp_path.glob("*.json"))) >= 2)
    process.send_signal(signal.SIGINT)
    workers = {int(line.split()[1]) for line in process.communicate(timeout=30)[0].splitlines()}
    assert process.returncode != 0
    assert len(workers) == 2 and not any(runs(worker) for worker in workers)


def run_here(cell: Cell) -> Outcome:
    splits = protocol_data()(cell)
    return fit_predict(
        cell.method.recipe, splits.train, splits.validation, splits.test, cell.seed, cell.options
    )


def start(folder: Path, *, jobs: int) -> subprocess.Popen[str]:
    script = folder.parent / f"{folder.name}.py"
    script.write_text(RUN)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, script, folder, str(jobs)], stdout=subprocess.PIPE, text=True, env=environment
    )


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, "waited five minutes"
        time.sleep(0.02)


def runs(process: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
