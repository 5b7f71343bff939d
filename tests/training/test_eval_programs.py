"""The programs under eval/."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sentemb.evaluation.record import load_records

PROGRAMS = Path(__file__).resolve().parents[2] / "eval"
RunProgram = Callable[..., str]


@pytest.fixture
def run_program(
    tiny_bert: Path,
    shared_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> RunProgram:
    def run(name: str, *arguments: Any) -> str:
        common = ["--base", tiny_bert, "--data-dir", shared_data, "--output", tmp_path / "out"]
        monkeypatch.setattr(sys, "argv", [name, *map(str, [*common, *arguments])])
        runpy.run_path(str(PROGRAMS / name), run_name="__main__")
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize(
    ("program", "experiment"),
    [
        ("ablations", "ablations"),
        ("classification", "full"),
        ("domain_shift", "domain-shift"),
        ("few_shot lacon", "few-shot-per-class"),
        ("few_shot scl", "few-shot"),
        ("few_shot transfer", "transfer"),
        ("frozen", "frozen"),
        ("imbalance", "imbalance"),
        ("multitask", "multitask"),
        ("noise", "noise"),
        ("zero_shot", "zero-shot"),
    ],
)
def test_a_program_is_its_experiment(
    program: str,
    experiment: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name, *paper = program.split()
    monkeypatch.setattr(sys, "argv", [name, *paper, "--seeds", "1,2,3", "--explain"])
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(PROGRAMS / f"{name}.py"), run_name="__main__")
    assert caught.value.code == 0
    assert f'name = "{experiment}"' in capsys.readouterr().out


def test_efficiency_measures_every_round_of_every_method(run_program: RunProgram, tmp_path: Path) -> None:
    out = run_program("efficiency.py", "--methods", "mean,wk,flow,sg-opt", "--sentences", 32, "--rounds", 1)
    record = json.loads((tmp_path / "out" / "efficiency.json").read_text())
    assert (record["sentences"], record["pairs"]) == (32, 1379)
    assert record["hardware"]["threads"] >= 1
    counts = {name: (len(one["training"]), len(one["inference"])) for name, one in record["seconds"].items()}
    assert counts == {"mean": (0, 1), "wk": (0, 1), "flow": (1, 1), "sg-opt": (1, 1)}
    assert (tmp_path / "out" / "efficiency.md").read_text() in out


def test_models_are_evaluated_in_other_languages(
    tiny_bert: Path, shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def run(*arguments: Any) -> str:
        monkeypatch.setattr(sys, "argv", ["multilingual_sts.py", *map(str, arguments)])
        try:
            runpy.run_path(str(PROGRAMS / "multilingual_sts.py"), run_name="__main__")
        except SystemExit as left:
            assert left.code == 0
        return capsys.readouterr().out

    place = ("--data-dir", shared_data, "--output", tmp_path)
    evaluated = run(tiny_bert, "--pooling", "mean", "--sets", "sts17-en-en,stsb-de", *place)
    assert f"| {tiny_bert.name}-mean | " in evaluated and "| sts17-en-en | stsb-de |" in evaluated
    shown = run("--output", tmp_path)  # from the record
    assert evaluated.splitlines()[-1].split("|")[2:] == shown.splitlines()[4].split("|")[3:]
    (record,) = load_records(tmp_path, suite="multilingual")
    assert [one.name for one in record.datasets] == ["sts17-en-en", "stsb-de"]
