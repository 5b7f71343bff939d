"""`sentemb eval classify` with the real classifiers on a small BERT."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.classification import fit_classifier, resolve_classifier
from sentemb.cli.main import run
from sentemb.data.labelled import load_labelled
from sentemb.evaluation.classification import read_cells
from tests.conftest import build_tiny_bert

SUBJECTS = {"animal": "cat dog birds", "human": "man woman children"}
FEW = ("--set", "epochs=8", "--set", "batch_size=8", "--set", "max_length=16", "--set", "learning_rate=0.01")


@pytest.fixture(scope="module")
def small_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_bert(tmp_path_factory.mktemp("bert"), layers=1)


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
        run(["eval", *map(str, arguments)])
    return int(left.value.code or 0)


def classify(*arguments: Any) -> int:
    return command("classify", *arguments)


def test_two_methods_on_ones_own_rows(
    small_bert: Path, files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "study"
    arguments = ("--train", files["train"], "--dev", files["dev"], "--base", small_bert, *FEW, "-o", output)
    assert classify("full", "ce", "lacon", *arguments, "--seeds", "1,2") == 0
    shown = capsys.readouterr()
    assert "[4/4] lacon train full seed 2: accuracy" in shown.err
    assert "| method | train accuracy |" in shown.out and "24 validation, 24 test rows" in shown.out
    records = read_cells([output])
    assert len(records) == 4 and all(run.score > 0.8 for run in records)
    lacon = next(run for run in records if run.cell.method.name == "lacon")
    assert lacon.settings["loss"] == "LaConLoss" and lacon.settings["epochs"] == 8
    assert lacon.probabilities is not None
    np.testing.assert_array_equal(lacon.probabilities.argmax(1), lacon.predictions)
    assert 0.8 < lacon.validation_score <= 1
    # A second call finds everything finished, and tables can be made anew.
    dates = {path.name: json.loads(path.read_text())["date"] for path in output.glob("*.json")}
    assert classify("full", "ce", "lacon", *arguments, "--seeds", "1,2") == 0
    again = capsys.readouterr()
    assert "4 cells, 4 of them finished before" in again.err
    assert dates == {path.name: json.loads(path.read_text())["date"] for path in output.glob("*.json")}
    # A part of the study leaves the whole table, and the table needs no training.
    assert classify("full", "ce", *arguments, "--seeds", "1") == 0
    assert capsys.readouterr().out == again.out == shown.out
    assert command("tables", output) == 0
    assert capsys.readouterr().out.strip() == again.out.strip()
    assert command("tables", output, "--baseline", "scl") == 0
    assert "nothing is compared, since scl was not run" in capsys.readouterr().out
    written = "".join(path.read_text() for path in output.glob("*.json"))
    assert str(tmp_path) not in written and str(small_bert.parent.parent) not in written.replace("../", "")


def test_settings_are_searched_and_used(
    small_bert: Path,
    files: dict[str, Path],
    tmp_path: Path,
    shared_data: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("optuna", reason="optuna is not installed; pip install 'sentemb[tune]'")
    place = ("--base", small_bert, *FEW, "--data-dir", shared_data, "-o", tmp_path / "tuning")
    wanted = ("--rows", 8, "--grid", "learning_rate=0.01,0", "--grid", "head_options.temperature=0.2")
    assert command("tune", "lacon", "rte", *place, *wanted) == 0
    assert "| 1 | 0.01 | 0.2 |" in capsys.readouterr().out
    best = tmp_path / "tuning" / "lacon.rte.toml"
    assert best.read_text().startswith("[lacon]\nlearning_rate = 0")
    for grid in ("learning_rate=quick", "speed=1", "learning_rate"):
        assert command("tune", "lacon", "rte", *place, "--grid", grid) == 2
    own = ("--train", files["train"], "--dev", files["dev"], "--base", small_bert, *FEW)
    output = tmp_path / "study"
    assert classify("full", "lacon", *own, "--methods", best, "--seeds", "1", "-o", output) == 0
    assert read_cells([output])[0].settings["head_options"]["temperature"] == 0.2


def test_a_map_of_a_classifier(
    small_bert: Path, tmp_path: Path, shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rte = load_labelled("rte", split="dev", data_dir=shared_data).select(range(12))
    folders = []
    for recipe in ("ce", "lacon"):
        folder = tmp_path / recipe
        overrides = {"base": str(small_bert), "epochs": 1, "max_length": 16, "output": str(folder)}
        fit_classifier(resolve_classifier(recipe, overrides=overrides), rte)
        folders.append(folder)
    picture = tmp_path / "map.png"
    options = ("--rows", 20, "--data-dir", shared_data, "-o", picture)
    assert command("map", *folders, "--data", "rte", *options) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert command("map", *folders, "--data", "cola", *options) == 2
    assert "names the classes entailment" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("full", "cee"), "cee: "),
        (("full", "ce", "--set", "epochz=3"), "epochz"),
        (("full", "ce", "--set", "epochs"), "write --set KEY=VALUE"),
        (("full", "ce", "--sets", "colla"), "colla"),
        (("full", "ce", "--seeds", "1,x"), "--seeds 1,x"),
        (("full", "ce", "--seeds", "-1"), "--seeds -1 is no list"),
        (("full", "ce", "--seeds", "1.5"), "--seeds 1.5 is no list"),
        (("full", "ce", "--set", "metric=f1"), "the study decides metric"),
        (("full", "ce", "--set", "seeds=3"), "the study decides seeds"),
        (("full", "ce", "--set", "loss_options.warmth=3"), "warmth"),
        (("full", "ce", "--base-for", "cola=bert"), "a base for cola, which is no set of the study"),
        (("full", "ce", "--base-for", "cola"), "--base-for cola says nothing"),
        (("few-shot", "ce", "--rows", "20"), "--rows is for the experiment full"),
        (("few-shot", "ce", "--seeds", "1,2"), "2 seeds have no best 3"),
        (("noise", "ce", "--copies", "back.tsv"), "--copies back.tsv says nothing"),
        (("full", "ce", "--dev", "absent.csv"), "--train and --test"),
    ],
)
def test_mistakes_are_one_line(
    small_bert: Path,
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    shared_data: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sets = () if "--sets" in arguments or "--dev" in arguments else ("--sets", "rte")
    base = () if "--base" in arguments else ("--base", small_bert)
    assert classify(*arguments, *sets, *base, "--data-dir", shared_data, "-o", tmp_path / "study") == 2
    error = capsys.readouterr().err.splitlines()
    assert message in error[-1] and error[-1].startswith("sentemb: error: ")
