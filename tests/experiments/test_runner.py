"""Each trial is run once, whatever interrupts the experiment, and a record holds what decided it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.evaluation.record import load_predictions, load_records
from sentemb.evaluation.schema import Record
from sentemb.experiments.classification import Predicted, outcome_of
from sentemb.experiments.experiment import Trial
from sentemb.experiments.labelled_sets import Splits
from sentemb.experiments.runner import Outcome, run_trials
from sentemb.experiments.tables import score_of, summarize
from tests.experiments.toy import ToyTrials, run_toy, toy_experiment
from tests.waiting import wait_for

RUN = """
import sys
from pathlib import Path
from sentemb.experiments.runner import run_trials
from tests.experiments.toy import ToyTrials, run_or_stay, toy_experiment
if __name__ == "__main__":
    kind = ToyTrials(toy_experiment("ce", "smooth", seeds=6), run_or_stay)
    run_trials(kind, Path(sys.argv[1]), jobs=int(sys.argv[2]))
"""


class Counting:
    """Runs trials of this process, and counts them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int | None]] = []

    def __call__(self, trial: Trial, *data: Any) -> Outcome:
        self.calls.append((trial.method.name, trial.seed))
        return run_toy(trial, *data)


def run(folder: Path, *methods: str, by: Any = run_toy, say: Any = print, **fields: Any) -> list[Record]:
    return run_trials(ToyTrials(toy_experiment(*methods, **fields), by), folder, announce=say)


def predicted(record: Record) -> np.ndarray:
    return load_predictions(record).values["toy"]


def test_each_trial_has_a_record_with_everything_that_decided_it(tmp_path: Path) -> None:
    lines: list[str] = []
    records = run(tmp_path, "ce", "blind", say=lines.append)
    assert [(one.model, one.seed) for one in records] == [
        (name, seed) for seed in range(3) for name in ("ce", "blind")
    ]
    first = records[0]
    assert first.details["sizes"] == {"train": 60, "validation": 200, "test": 200}
    assert sum(first.details["class_counts"].values()) == 60
    assert first.trial is not None and first.trial.options["C"] == 1.0
    assert (first.trial.experiment, first.trial.setting) == ("few-shot", {"shots": 60})
    gold = load_predictions(first).gold["toy"]
    assert score_of(first, "toy") == np.mean(predicted(first) == gold) > 0.6
    assert score_of(records[1], "toy") == np.mean(gold == 0)
    assert {one.metric for one in first.scores} == {"accuracy", "f1", "macro_f1", "matthews"}
    assert {"torch", "sentemb"} <= {*first.environment.versions}
    assert first.environment.hardware["cores"] >= 1
    assert first.environment.seconds["total"] >= first.environment.seconds["train"]
    assert lines[0] == "6 trials, 0 already finished"
    assert lines[1].startswith("[1/6] ce toy shots-60 seed 0: accuracy ") and lines[1].endswith(" left")
    assert "left" not in lines[6]
    # Every method is trained on the same rows, every seed on others, and all are evaluated on the same.
    sums = [one.details["checksums"] for one in records]
    assert sums[::2] == sums[1::2]
    assert len({one["train"] for one in sums}) == 3 and len({one["test"] for one in sums}) == 1
    names = sorted(path.name.split(".")[:3] for path in tmp_path.glob("*seed-0.json"))
    assert names == [["blind", "toy", "shots-60"], ["ce", "toy", "shots-60"]]


def test_finished_trials_are_not_run_again_and_changed_ones_are(tmp_path: Path) -> None:
    counting = Counting()
    run(tmp_path, by=counting, seeds=2)
    run(tmp_path, by=counting, seeds=3)
    assert counting.calls == [("ce", seed) for seed in range(3)]
    # What the base is called does not count, what it holds does.
    run(tmp_path, by=counting, seeds=3, base="another-name")
    assert len(counting.calls) == 3
    run(tmp_path, by=counting, seeds=1, options={"start_fingerprint": "1" * 64})
    run(tmp_path, by=counting, seeds=1, options={"epochs": 7})
    assert len(counting.calls) == 5 and len(load_records(tmp_path)) == 5


def test_a_setting_that_records_do_not_know_yet_is_at_its_default(tmp_path: Path) -> None:
    counting = Counting()
    first = run(tmp_path, by=counting, seeds=1)
    for self_supervised, calls in ((False, 1), (True, 2), (False, 2)):
        records = run(tmp_path, by=counting, seeds=1, options={"self_supervised": self_supervised})
        assert len(counting.calls) == calls
    later = run(tmp_path, by=counting, seeds=2, options={"self_supervised": False})
    assert [one.label for one in summarize([*first, later[1]])] == ["ce"]
    assert [one.trial for one in records] == [one.trial for one in first]


def test_a_folder_of_other_rows_or_with_an_edited_score_is_refused(tmp_path: Path) -> None:
    counting = Counting()
    run(tmp_path, by=counting, seeds=1)
    other = ToyTrials(toy_experiment(seeds=1), counting, rule="sg-bert")
    with pytest.raises(InputError, match="other rows or another metric; choose another --output"):
        run_trials(other, tmp_path)
    assert len(counting.calls) == 1
    (path,) = tmp_path.glob("*.json")
    values = json.loads(path.read_text())
    values["scores"][0]["value"] += 0.01
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match=path.name):
        run(tmp_path, seeds=1)


def test_what_a_set_does_not_allow_is_announced_and_skipped(tmp_path: Path) -> None:
    lines: list[str] = []
    rare = {"setting": "rho", "datasets": ("rare",), "seeds": 1}
    records = run(tmp_path, say=lines.append, values=(3, 20), **rare)
    assert [one.trial and one.trial.setting for one in records] == [{"rho": 3}]
    assert lines[0].startswith("skipped: rare rho-20 seed 0: rare at rho-20: class 0 has ")
    with pytest.raises(InputError, match="does not have a trial that can run"):
        run(tmp_path, values=(20,), **rare)


def test_a_wrong_method_is_refused_before_the_first_trial_runs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"charcters: no recipe charcters; take characters"):
        run(tmp_path, "ce", "charcters")
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="--jobs is 0"):
        run_trials(ToyTrials(toy_experiment()), tmp_path, jobs=0)
    # A trial that fails is named, and the others are kept.
    with pytest.raises(InputError, match=r"hard toy shots-60 seed 0: the data is too hard; take easier data"):
        run(tmp_path, "ce", "hard")
    assert [one.model for one in load_records(tmp_path)] == ["ce"]


@pytest.mark.parametrize("broken", ["predictions", "probabilities", "validation score"])
def test_nonsense_from_a_method_is_no_result(tmp_path: Path, broken: str) -> None:
    def nonsense(trial: Trial, splits: Splits, fingerprint: str) -> Outcome:
        rows = len(splits.test)
        predictions = np.full(rows, np.nan if broken == "predictions" else 0)
        probabilities = np.full((rows, 2), np.nan if broken == "probabilities" else 0.5)
        score = float("nan") if broken == "validation score" else 0.5
        return outcome_of(trial, splits, fingerprint, Predicted(predictions, probabilities, score, {}))

    with pytest.raises(ValueError, match="NaN or infinite") as caught:
        run(tmp_path, by=nonsense, seeds=1)
    assert "in the trial ce toy shots-60 seed 0" in caught.value.__notes__
    assert not list(tmp_path.glob("*.json"))


def test_a_killed_experiment_keeps_whole_records_and_resumes(tmp_path: Path) -> None:
    """Two processes, of which each ends with the one that started it."""
    folder = tmp_path / "records"
    process = start(folder, jobs=2)
    wait_for(lambda: len(list(folder.glob("*.json"))) >= 3, alive=lambda: process.poll() is None)
    process.kill()
    process.wait()
    workers = workers_of(folder)
    assert len(workers) == 2
    wait_for(lambda: not any(map(runs, workers)))
    kept = {(one.model, one.seed): one for one in load_records(folder)}  # every one is whole
    assert len(kept) in (3, 4)
    counting = Counting()
    records = run(folder, "ce", "smooth", by=counting, seeds=6)
    assert len(counting.calls) == 12 - len(kept)
    there = {(one.model, one.seed): one for one in records}
    fresh = {(one.model, one.seed): one for one in run(tmp_path / "fresh", "ce", "smooth", seeds=6)}
    for key, one in kept.items():
        assert there[key].environment.date == one.environment.date
        np.testing.assert_array_equal(predicted(one), predicted(fresh[key]))
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.slow
def test_ctrl_c_ends_every_process_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    process = start(folder, jobs=2)
    wait_for(lambda: len(list(folder.glob("*.json"))) >= 2, alive=lambda: process.poll() is None)
    process.send_signal(signal.SIGINT)
    assert process.wait() != 0
    workers = workers_of(folder)
    assert len(workers) == 2 and not any(map(runs, workers))


def start(folder: Path, *, jobs: int) -> subprocess.Popen[bytes]:
    started = folder.with_suffix(".started")
    started.mkdir()
    script = folder.parent / f"{folder.name}.py"
    script.write_text(RUN)
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "STARTED": str(started)}
    command = [sys.executable, str(script), str(folder), str(jobs)]
    return subprocess.Popen(command, env=environment, cwd=root)


def workers_of(folder: Path) -> list[int]:
    """The processes that ran trials."""
    return [int(path.name) for path in folder.with_suffix(".started").iterdir()]


def runs(process: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().split()[2]
    except FileNotFoundError:
        return False
