"""`sentemb eval classify` with the real classifiers on a small BERT."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.cli.main import run
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
            lines.append(
                f"the {subject} {rng.choice(['sat', 'ran'])} in a {rng.choice(['park', 'house'])},{label}"
            )
        paths[split] = tmp_path / f"{split}.csv"
        paths[split].write_text("\n".join(lines) + "\n")
    return paths


@pytest.fixture(autouse=True)
def _own_arguments(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "argv", ["sentemb", "eval", "classify"])
    yield


def classify(*arguments: Any) -> int:
    with pytest.raises(SystemExit) as left:
        run(["eval", "classify", *map(str, arguments)])
    return int(left.value.code or 0)


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
    assert "4 cells, 4 of them finished before" in capsys.readouterr().err
    assert dates == {path.name: json.loads(path.read_text())["date"] for path in output.glob("*.json")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("full", "cee"), "cee: "),
        (("full", "ce", "--set", "epochz=3"), "epochz"),
        (("full", "ce", "--set", "epochs"), "write KEY=VALUE"),
        (("full", "ce", "--sets", "colla"), "colla"),
        (("full", "ce", "--seeds", "1,x"), "--seeds 1,x"),
        (("few-shot", "ce", "--train-size", "20"), "--train-size is for the experiment full"),
        (("few-shot", "ce", "--seeds", "1,2"), "2 seeds have no best 3"),
        (("noise", "ce", "--copies", "back.tsv"), "write SET=FILE"),
        (("full", "ce", "--dev", "absent.csv"), "--train and --test"),
    ],
)
def test_mistakes_are_one_line(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    shared_data: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sets = () if "--sets" in arguments or "--dev" in arguments else ("--sets", "rte")
    assert classify(*arguments, *sets, "--data-dir", shared_data, "-o", tmp_path / "study") == 2
    error = capsys.readouterr().err.splitlines()
    assert message in error[-1] and error[-1].startswith("sentemb: error: ")
