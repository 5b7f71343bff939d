"""Training on several tasks: every row runs, tasks are learnt, an interrupted run resumes exactly."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer

from sentemb.errors import InputError
from sentemb.multitask import (
    MultiTaskModel,
    TaskEnsemble,
    TaskSets,
    evaluate_tasks,
    fit_multitask,
)
from sentemb.multitask.model import best_checkpoints
from sentemb.multitask.tasks import uses_nli
from sentemb.training import Interrupted, Run, resolve
from sentemb.training.trainer import check_finite
from tests.multitask.toy import NLI, toy_config, toy_sets
from tests.programs import run_program
from tests.training.training_helpers import stop_at

TRAIN, DEV = toy_sets(), toy_sets(12, seed=1, split="dev")


@pytest.fixture(scope="module")
def trained(small_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    output = tmp_path_factory.mktemp("runs") / "trained"
    config = toy_config("table2-none", small_bert, output, epochs=8, learning_rate=2e-2, head_dropout=0.1)
    return fit_multitask(config, toy_sets(48), DEV)


def test_three_tasks_are_learnt_and_one_folder_answers_them(trained: Run) -> None:
    folder = trained.output
    scores = evaluate_tasks(MultiTaskModel.load(folder, device="cpu"), DEV)
    assert scores["sentiment_accuracy"] > 0.8  # chance is 0.33
    assert scores["paraphrase_accuracy"] > 0.75  # 0.5
    assert scores["similarity_pearson"] > 0.8
    assert scores["overall"] == pytest.approx(trained.dev_score)
    assert SentenceTransformer(str(folder), device="cpu").encode("cat").shape == (16,)
    record = json.loads((folder / "run" / "record.json").read_text())
    assert record["status"] == "finished"
    assert record["data"]["train"]["paraphrase"]["classes"] == {"no": 48, "yes": 48}
    assert (record["dev"]["evaluations"], record["heads"]["sharing"]) == (8, "first-layer")
    entries = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    evaluated = [entry["eval_overall"] for entry in entries if "eval_overall" in entry]
    assert max(evaluated) == trained.dev_score
    assert any(entry.keys() >= {"loss_sentiment", "loss_paraphrase", "loss_similarity"} for entry in entries)
    assert "MultiTaskModel.load" in (folder / "README.md").read_text()


def test_the_best_model_of_each_task_is_kept(trained: Run) -> None:
    folder = trained.output
    best = json.loads((folder / "run" / "record.json").read_text())["best"]
    assert best["overall"]["path"] == "."
    ensemble = evaluate_tasks(TaskEnsemble.of_runs([folder, folder], device="cpu"), DEV)
    for metric, place in best.items():
        scores = evaluate_tasks(MultiTaskModel.load(folder / place["path"], device="cpu"), DEV)
        assert scores[metric] == pytest.approx(place["score"])
        assert metric == "overall" or ensemble[metric] == scores[metric]
    kept = {path.name for path in (folder / "run" / "checkpoints").iterdir()}
    assert kept == {Path(place["path"]).name for place in best.values()} - {""}
    assert not list((folder / "run" / "checkpoints").rglob("optimizer*"))


KINDS: dict[str, dict[str, Any]] = {
    "table1-vanilla": {},
    "table1-contrast-first": {},
    "table1-supervised-first": {},
    "table1-fusion": {},
    "table2-given": {"precision": "bfloat16", "clip": 1.0},
    "table4-quora-no-negatives": {},
    "table5-given-nli": {},
    "table6-epoch-round-robin": {"preset": "released"},
    "table7-gradient-surgery": {"preset": "released"},
}
"""The rows that differ in more than numbers and heads, with options that no row has."""


def test_an_ensemble_takes_finished_runs_on_the_same_dev_sets(trained: Run, tmp_path: Path) -> None:
    record = json.loads((trained.output / "run" / "record.json").read_text())
    other = tmp_path / "other" / "run" / "record.json"
    other.parent.mkdir(parents=True)
    record["data"]["dev"]["sentiment"]["source"] = "elsewhere"
    record["best"]["similarity_pearson"] |= {"score": 2.0, "path": "."}
    other.write_text(json.dumps(record))
    folders = [trained.output, tmp_path / "other"]
    places = best_checkpoints(folders)
    assert places["similarity"] == tmp_path / "other"
    assert places["sentiment"].is_relative_to(trained.output)  # of equal scores the first run
    record["data"]["dev"]["sentiment"]["sha256"] = "0"
    other.write_text(json.dumps(record))
    with pytest.raises(InputError, match="different dev sets"):
        best_checkpoints(folders)
    other.write_text(json.dumps(record | {"status": "running"}))
    with pytest.raises(InputError, match="not a finished multi-task run"):
        best_checkpoints(folders)
    with pytest.raises(InputError, match="an ensemble needs at least one run"):
        TaskEnsemble.of_runs([])


@pytest.mark.parametrize("row", KINDS)
def test_every_kind_of_row_trains(row: str, small_bert: Path, tmp_path: Path) -> None:
    config = toy_config(row, small_bert, tmp_path / "run", epochs=1, max_steps=2, **KINDS[row])
    nli = NLI if uses_nli(config) else []
    run = fit_multitask(config, TRAIN.sample(16), DEV.sample(8), nli=nli)
    settings = tomllib.loads((run.output / "run" / "config.toml").read_text())
    record = json.loads((run.output / "run" / "record.json").read_text())
    assert settings["recipe"] == row
    # Three triples, and eight paraphrases among 16 pairs, are one step.
    short = [name for name in record["stages"] if name.endswith(" nli") or "no-negatives" in row]
    assert record["steps"] == 2 * len(record["stages"]) - min(1, len(short))
    assert run.dev_score is not None


@pytest.mark.parametrize(("row", "steps"), [("table7-gradient-surgery", 14), ("table1-fusion", 9)])
def test_an_interrupted_run_resumes_to_the_same_weights(
    row: str, steps: int, small_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(name: str, train: TaskSets = TRAIN, **options: Any) -> Run:
        config = toy_config(row, small_bert, tmp_path / name, use_last=True, schedule="linear", warmup=0.1)
        return fit_multitask(config, train, DEV, nli=NLI if uses_nli(config) else [], **options)

    whole = fit("whole")
    with monkeypatch.context() as patch:
        stop_at(patch, steps)
        with pytest.raises(Interrupted, match=f"stopped at step {steps}"):
            fit("parts")
    with pytest.raises(InputError, match="add --resume"):
        fit("parts")
    with pytest.raises(InputError, match="the data has changed since the run started"):
        fit("parts", train=toy_sets(seed=5), resume=True)
    parts = fit("parts", resume=True)
    models = [MultiTaskModel.load(one.output, device="cpu") for one in (whole, parts)]
    for name in ("encoder", "heads"):
        first, second = (getattr(one, name).state_dict() for one in models)
        assert all(torch.equal(first[key], second[key]) for key in first), name
    assert (whole.dev_score, whole.steps) == (parts.dev_score, parts.steps)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": ["sentiment", "sentiment"]}, "tasks is sentiment, sentiment"),
        ({"gradient_surgery": True, "tasks": ["sentiment"]}, "two or more tasks"),
        ({"contrast": "fused"}, "needs exactly one task"),
        ({"loss": "SimCSELoss"}, "loss is 'SimCSELoss'"),
        ({"contrast_data": []}, "contrast_data is empty"),
    ],
)
def test_settings_that_do_not_go_together(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        toy_config("table2-given", Path("base"), Path("output"), **changes)


def test_triples_come_with_their_stage_and_only_then(small_bert: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs NLI triples"):
        fit_multitask(toy_config("table2-nli", small_bert, tmp_path / "run"), TRAIN, DEV)
    with pytest.raises(InputError, match="contrast_data does not include it"):
        fit_multitask(toy_config("table2-none", small_bert, tmp_path / "run"), TRAIN, DEV, nli=NLI)
    with pytest.raises(InputError, match="unknown recipe: table2-nil"):
        resolve("table2-nil", overrides={"output": "x"})


def test_a_loss_that_is_not_finite_is_named() -> None:
    with pytest.raises(InputError, match="the loss of sentiment is not finite at step 3"):
        check_finite({"loss": float("nan"), "loss_sentiment": float("nan")}, step=3)


PROGRAM = Path(__file__).resolve().parents[2] / "training" / "multitask.py"


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
    places = ["--base", str(small_bert), "--output", str(run)]
    run_program(monkeypatch, PROGRAM, *row, *data, *short, *places)
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
