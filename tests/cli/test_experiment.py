"""`sentemb experiment` and `sentemb tune` with the real classifiers on a small BERT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.cli.main import run
from sentemb.evaluation.record import load_predictions, load_records
from sentemb.experiments import load_experiment

SUBJECTS = {"animal": "cat dog birds", "human": "man woman children"}
FEW = ("--set", "epochs=8", "--set", "batch_size=8", "--set", "max_length=16", "--set", "learning_rate=0.01")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Training and dev rows whose class is in a word."""
    rng = np.random.default_rng(0)
    paths = {}
    for split in ("train", "dev"):
        lines = ["text,label"]
        for number in range(48):
            label = ("animal", "human")[number % 2]
            subject = rng.choice(SUBJECTS[label].split())
            lines.append(f"the {subject} {rng.choice(['sat', 'ran'])} in a park of {split}{number},{label}")
        paths[split] = tmp_path / f"{split}.csv"
        paths[split].write_text("\n".join(lines) + "\n")
    return paths


def command(*arguments: Any) -> int:
    with pytest.raises(SystemExit) as left:
        run([*map(str, arguments)])
    return int(left.value.code or 0)


def test_two_methods_on_ones_own_rows(
    small_bert: Path, files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "study"
    own = ("--data", f"train={files['train']}", "--data", f"dev={files['dev']}")
    place = (*own, "--base", small_bert, *FEW, "-o", output)
    assert command("experiment", "full", "ce", "lacon", *place, "--seeds", "1,2") == 0
    shown = capsys.readouterr()
    assert "[4/4] lacon train full seed 2: accuracy" in shown.err
    assert f"next: sentemb report {output}" in shown.err
    assert "| method | train accuracy |" in shown.out and "24 validation, 24 test rows" in shown.out
    records = load_records(output)
    assert len(records) == 4 and all(one.score("train", "accuracy") > 0.8 for one in records)
    lacon = next(one for one in records if one.model == "lacon")
    assert lacon.trial is not None
    assert lacon.trial.options["loss"] == "LaConLoss" and lacon.trial.options["epochs"] == 8
    predicted = load_predictions(lacon).values
    np.testing.assert_array_equal(predicted["train:probabilities"].argmax(1), predicted["train"])
    assert 0.8 < lacon.score("train", "accuracy", "validation") <= 1
    # A second call finds everything finished, and tables can be made again.
    dates = [one.environment.date for one in records]
    assert command("experiment", "full", "ce", "lacon", *place, "--seeds", "1,2") == 0
    again = capsys.readouterr()
    assert "4 trials, 4 already finished" in again.err and again.out == shown.out
    assert dates == [one.environment.date for one in load_records(output)]
    # A part of the experiment leaves the whole table, and the table needs no training.
    assert command("experiment", "full", "ce", *place, "--seeds", "1") == 0
    assert capsys.readouterr().out == shown.out
    assert command("experiment", "full", "--no-run", "-o", output) == 0
    assert capsys.readouterr().out == shown.out
    assert command("experiment", "full", "--no-run", "--baseline", "scl", "-o", output) == 0
    assert "no comparison, because scl was not run" in capsys.readouterr().out
    options = [one.trial.options for one in records if one.trial]
    assert not any(str(one["base"]).startswith("/") for one in options)


def test_settings_are_searched_and_used(
    small_bert: Path,
    files: dict[str, Path],
    tmp_path: Path,
    shared_data: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = ("--base", small_bert, *FEW, "--data-dir", shared_data, "-o", tmp_path / "tuning")
    wanted = ("--rows", 8, "--grid", "learning_rate=0.01,0", "--grid", "head_options.temperature=0.2")
    assert command("tune", "lacon", "rte", *place, *wanted) == 0
    assert "| 1 | 0.01 | 0.2 |" in capsys.readouterr().out
    best = tmp_path / "tuning" / "lacon.rte.toml"
    assert best.read_text().startswith("[lacon]\nlearning_rate = 0")
    for grid in ("learning_rate=quick", "speed=1", "learning_rate", "=1"):
        assert command("tune", "lacon", "rte", *place, "--grid", grid) == 2
    capsys.readouterr()
    assert command("tune", "lacon", "rte", *place, *wanted, "--base", tmp_path) == 2
    assert f"error: {tmp_path} is not a model folder" in capsys.readouterr().err
    own = ("--data", f"train={files['train']}", "--data", f"dev={files['dev']}", "--base", small_bert, *FEW)
    output = tmp_path / "study"
    methods = ("lacon", "--methods", best, "--seeds", "1", "--values", 16, "--figures")
    assert command("experiment", "full", *methods, *own, "-o", output) == 0
    trial = load_records(output)[0].trial
    assert trial is not None and trial.options["head_options"]["temperature"] == 0.2
    assert trial.setting == {"train": 16}
    assert (output / "full.train.png").read_bytes().startswith(b"\x89PNG")


def test_each_method_starts_from_its_model_of_the_source(
    small_bert: Path, tmp_path: Path, shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = ("--data", "source=sst2", "--data", "source_rows=8", "--sets", "rte", "--values", 4, "--best", 1)
    place = ("--data-dir", shared_data, "--data", "test_rows=20", "-o", tmp_path)
    short = ("--base", small_bert, "--set", "epochs=1", "--set", "max_length=16", "--seeds", "1")
    assert command("experiment", "transfer", "ce", *source, *short, *place) == 0
    assert "training ce on sst2, 8 rows" in capsys.readouterr().err
    (record,) = load_records(tmp_path)
    assert record.trial is not None and "sources" in record.trial.options["base"]
    assert command("experiment", "transfer", "ce", *source, *short, *place) == 0
    shown = capsys.readouterr().err
    assert "training ce" not in shown and "1 trials, 1 already finished" in shown


def test_experiments_are_listed_and_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("experiment", "--list") == 0
    assert "ablations           Ablations of SG-OPT" in capsys.readouterr().out
    assert command("experiment", "imbalance", "--values", "1,5", "--explain") == 0
    shown = capsys.readouterr().out
    assert "values = [1.0, 5.0]" in shown and "#   test_rows: " in shown
    # What is printed is a file for the same experiment.
    for name in ("imbalance", "ablations", "full", "domain-shift"):
        assert command("experiment", name, "--explain") == 0
        (tmp_path / "same.toml").write_text(capsys.readouterr().out)
        assert load_experiment(tmp_path / "same.toml") == load_experiment(name)
