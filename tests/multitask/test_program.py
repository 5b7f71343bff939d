"""The program runs as written: a row, then the ensemble over what it left."""

from __future__ import annotations

import runpy
import sys
import tomllib
from pathlib import Path

import pytest

from sentemb.multitask import MultiTaskModel, TaskEnsemble

PROGRAM = str(Path(__file__).resolve().parents[2] / "training" / "multitask.py")


def start(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["multitask.py", *arguments])
    try:
        runpy.run_path(PROGRAM, run_name="__main__")
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def test_a_row_and_the_ensemble_on_real_rows(
    small_bert: Path,
    shared_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if not (shared_data / "cs224n").is_dir():
        pytest.skip(f"no cs224n in {shared_data}")
    data = ["--data-dir", str(shared_data), "--held-out", "0.2", "--rows", "16"]
    row = ["--row", "table7-gradient-surgery", "--preset", "released", "--nli", "nli-triples"]
    short = ["--set", "max_steps=1", "--set", "max_length=32", "--seeds", "3"]
    run = tmp_path / "surgery"
    assert not start(monkeypatch, *row, *data, *short, "--base", str(small_bert), "--output", str(run))
    settings = tomllib.loads((run / "run" / "config.toml").read_text())
    assert settings.items() >= {"preset": "released", "gradient_surgery": True, "seeds": [3]}.items()
    assert MultiTaskModel.load(run, device="cpu").predict_sentiment(["A film."])[0] in (
        "very negative",
        "negative",
        "neutral",
        "positive",
        "very positive",
    )
    assert len(TaskEnsemble.of_runs([run, run], device="cpu").predict_paraphrase([("a", "b")])) == 1
    printed = capsys.readouterr().out.splitlines()
    names = ["sentiment_accuracy", "paraphrase_accuracy", "similarity_pearson", "overall"]
    assert [line.split()[0] for line in printed] == [*names, row[1]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--row", "table2-nil"], "unknown row: table2-nil"),
        (["--row", "table2-given", "--data-dir", "nowhere"], "no such data folder: nowhere"),
    ],
)
def test_user_errors_are_one_line(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert start(monkeypatch, *arguments, "--output", "out") == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
