"""Transfer records keep every prediction, and their table says what they say."""

from __future__ import annotations

import json
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.evaluation.transfer import TaskResult, TransferReport
from sentemb.evaluation.transfer.records import read_transfer, read_transfers, transfer_path, write_transfer
from sentemb.evaluation.transfer.table import transfer_seed_table, transfer_table

PROGRAM = str(Path(__file__).resolve().parents[3] / "eval" / "senteval.py")


def result(task: str, accuracy: float) -> TaskResult:
    return TaskResult(
        task=task,
        accuracy=accuracy,
        dev_accuracy=accuracy - 1,
        f1=None,
        penalties=(1e-4,),
        gold=np.array([0, 1, 1]),
        predictions=np.array([0, 1, 0]),
        seconds=0.5,
    )


def report(seed: int, *results: TaskResult) -> TransferReport:
    return TransferReport(
        model="org/model",
        fingerprint="abc",
        dimension=3,
        encoder={"backend": "torch"},
        preset="simcse",
        seed=seed,
        results=results,
        unique=9,
        seconds={"encode": 1.0, "classify": 0.5},
    )


def test_a_report_comes_back(tmp_path: Path) -> None:
    path = write_transfer(report(1, result("cr", 80.0)), tmp_path, command=["senteval.py"])
    assert path == transfer_path(tmp_path, "org/model", preset="simcse", seed=1)
    read = read_transfer(path)
    assert (read.model, read.seed, read.preset, read.unique) == ("org/model", 1, "simcse", 9)
    (one,) = read.results
    assert (one.task, one.accuracy, one.dev_accuracy, one.penalties) == ("cr", 80.0, 79.0, (1e-4,))
    assert np.array_equal(one.predictions, [0, 1, 0])


def test_tasks_of_an_earlier_run_stay(tmp_path: Path) -> None:
    write_transfer(report(1, result("cr", 80.0), result("mr", 70.0)), tmp_path)
    write_transfer(report(1, result("cr", 81.0), result("trec", 90.0)), tmp_path)
    (read,) = read_transfers(tmp_path)
    assert {one.task: one.accuracy for one in read.results} == {"cr": 81.0, "mr": 70.0, "trec": 90.0}
    assert len(list(tmp_path.glob("*.safetensors"))) == 1


def test_another_model_of_the_same_name_is_refused(tmp_path: Path) -> None:
    write_transfer(report(1, result("cr", 80.0)), tmp_path)
    with pytest.raises(InputError, match="record of another model called org/model"):
        write_transfer(replace(report(1, result("cr", 80.0)), fingerprint="other"), tmp_path)


def test_damage_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no transfer record"):
        read_transfers(tmp_path)
    path = write_transfer(report(1, result("cr", 80.0)), tmp_path)
    values = json.loads(path.read_text())
    values["tasks"][0]["task"] = "mr"
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match=r"tasks\[0\]\.task: the file of predictions has no answers to mr"):
        read_transfer(path)


def test_the_table_has_mean_and_deviation() -> None:
    seven = ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc")
    table = transfer_table(
        [
            report(1, *(result(task, 80.0) for task in seven)),
            report(2, *(result(task, 82.0) for task in seven)),
            replace(report(1, result("cr", 50.0)), preset="logreg"),
        ],
        "simcse",
    )
    assert table.header[2:] == ("MR", "CR", "SUBJ", "MPQA", "SST-2", "TREC", "MRPC", "average")
    assert table.rows == (("org/model", "2", *["81.00 ± 1.41"] * 8),)


def test_encoders_of_one_method_are_a_row() -> None:
    def encoder(name: str, *accuracies: float) -> list[TransferReport]:
        found = [report(seed, result("cr", value)) for seed, value in enumerate(accuracies)]
        return [replace(one, model=name) for one in found]

    reports = [
        *encoder("a-seed-1", 70.0, 72.0),
        *encoder("a-seed-23", 80.0, 82.0),
        *encoder("raw", 60.0, 62.0),
    ]
    assert [row[:3] for row in transfer_seed_table(reports, "simcse").rows] == [
        ("a", "2 x 2", "76.00 ± 7.07"),
        ("raw", "– x 2", "61.00 ± 1.41"),
    ]
    assert [row[0] for row in transfer_table(reports, "simcse").rows] == ["a-seed-1", "a-seed-23", "raw"]
    reports.append(replace(report(1, result("mr", 50.0)), model="a-seed-3"))
    row = transfer_seed_table(reports, "simcse").rows[0]
    assert row[:4] == ("a", "3 x 1-2", "–", "–")  # no task that all three have


def test_the_program_judges_and_prints(
    shared_data: Path, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    data = ["--data-dir", str(shared_data), "--tasks", "mrpc", "--preset", "logreg", "--pooling", "mean"]
    monkeypatch.setattr(
        sys, "argv", ["senteval.py", str(tiny_bert), *data, "--output", str(tmp_path / "out")]
    )
    monkeypatch.setattr("sentemb.evaluation.transfer.protocols.StratifiedKFold", _three_folds)
    runpy.run_path(PROGRAM, run_name="__main__")
    captured = capsys.readouterr()
    assert "| model | seeds | MRPC | average |" in captured.out
    assert "mrpc seed 1111" in captured.err
    (read,) = read_transfers(tmp_path / "out")
    assert read.results[0].f1 is not None


def _three_folds(n_splits: int, *, shuffle: bool, random_state: int):
    from sklearn.model_selection import StratifiedKFold

    return StratifiedKFold(n_splits=3, shuffle=shuffle, random_state=random_state)


def test_a_mistake_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["senteval.py", "--output", str(tmp_path)])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(PROGRAM, run_name="__main__")
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith(f"error: {tmp_path} holds no transfer record")
