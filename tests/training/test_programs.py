"""The programs in training/ and eval/ run as written, with the papers' values."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer

from sentemb.errors import InputError
from sentemb.evaluation.record import load_records
from sentemb.losses import ViewCache
from sentemb.training import resolve, train
from sentemb.training.run import load_rows
from tests.programs import run_program as run_program_of
from tests.training.training_helpers import make_sentences

ROOT = Path(__file__).resolve().parents[2]
RunProgram = Callable[..., Path]
QUORA = """question,other,same
a cat sat,the cat sat,1
the cat sat,a cat sat,1
a cat sat,a cat ran,1
a cat sat,two birds fly,0
a dog ran,the dog ran,1
the house,a red apple,0
"""


def triples() -> str:
    return "a,b,c\n" + "".join(f"a cat {word},the cat {word},no dog\n" for word in ("sat", "ran", "is red"))


def back_translations() -> str:
    rows = zip(make_sentences(24), make_sentences(24, seed=3), strict=True)
    return "".join(f"{a},{b}\n" for a, b in [("text", "back_translation"), *rows])


@pytest.fixture
def run_program(
    tiny_bert: Path, sentences_file: Path, dev_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> RunProgram:
    def run(name: str, *arguments: str) -> Path:
        common = ["--base", str(tiny_bert), "--data", str(sentences_file), "--dev", str(dev_file)]
        output = tmp_path / "output"
        steps = ("--output", str(output), "--max-steps", "1")
        run_program_of(monkeypatch, ROOT / "training" / name, *common, *steps, *arguments)
        return output

    return run


@pytest.mark.parametrize(
    ("program", "data", "arguments", "recipe"),
    [
        ("sg_opt.py", None, "--objective base --preset released", "sg"),
        ("simcse.py", triples(), "--objective supervised --columns a,b,c", "simcse-supervised"),
        (
            "simcse_nli.py",
            triples(),
            "--columns a,b,c --dev none --mini-batch-size 2",
            "simcse-nli",
        ),
        ("quora.py", QUORA, "--columns question,other --label same", "quora"),
        ("back_translation.py", back_translations(), "--objective bt-sg-opt", "bt-sg-opt"),
        ("back_translation.py", back_translations(), "--view-encoder frozen", "bt"),
    ],
)
def test_a_program_trains_its_recipe(
    run_program: RunProgram,
    write_file: Callable[[str, str], Path],
    program: str,
    data: str | None,
    arguments: str,
    recipe: str,
) -> None:
    chosen = ["--data", str(write_file("data.csv", data))] if data else []
    output = run_program(program, *chosen, *arguments.split())
    settings = tomllib.loads((output / "run" / "config.toml").read_text())
    preset = "released" if "released" in arguments else "paper"
    assert (settings["recipe"], settings["preset"]) == (recipe, preset)
    assert SentenceTransformer(str(output), device="cpu").encode(["a cat"]).shape == (1, 16)
    record = json.loads((output / "run" / "record.json").read_text())
    if program == "quora.py":
        assert "false_negatives" in (output / "run" / "metrics.jsonl").read_text()
    if program == "simcse_nli.py":
        assert settings["loss_options"]["mini_batch_size"] == 2
    if program == "back_translation.py":
        assert record["negatives_per_anchor"] == (60 if recipe == "bt-sg-opt" else 30)


def test_seeds_share_the_views_of_the_back_translations(
    configure: Callable[..., Any], write_file: Callable[[str, str], Path], tmp_path: Path
) -> None:
    cache, data = ViewCache(), str(write_file("back.csv", back_translations()))
    for seed in (1, 2):
        options = {"data": data, "dev": "none", "seeds": [seed], "loss_options": {"projection_width": 8}}
        train(configure("bt-sg-opt", output=str(tmp_path / f"seed-{seed}"), **options), view_cache=cache)
    assert len(cache) == len({line.split(",")[1] for line in back_translations().splitlines()[1:]})


def test_labelled_rows_have_labels_and_components(write_file: Callable[[str, str], Path]) -> None:
    pairs = write_file("pairs.csv", QUORA)
    named = {"data": str(pairs), "columns": ["question", "other"], "label": "same", "output": "o"}
    config = resolve("quora", overrides=named)
    rows = load_rows(config)
    assert rows.column_names == ["sentence1", "sentence2", "label"]
    assert [label[0] for label in rows["label"]] == [1, 1, 0, 1, 0]  # the second repeats the first
    cat, birds = rows["label"][0][1], rows["label"][2][2]
    assert [label[1:] for label in rows["label"]][:3] == [[cat, cat], [cat, cat], [cat, birds]]
    pairs.write_text(QUORA + "a dog ran,,0\n")
    with pytest.raises(InputError, match="column 'other' is empty"):
        load_rows(config)


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
    program: str, experiment: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *paper = program.split()
    run_program_of(monkeypatch, ROOT / "eval" / f"{name}.py", *paper, "--seeds", "1,2,3", "--explain")
    assert f'name = "{experiment}"' in capsys.readouterr().out


def test_efficiency_measures_every_round_of_every_method(
    tiny_bert: Path, shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    common = ["--base", tiny_bert, "--data-dir", shared_data, "--output", tmp_path / "out"]
    chosen = ["--methods", "mean,wk,flow,sg-opt", "--sentences", 32, "--rounds", 1]
    run_program_of(monkeypatch, ROOT / "eval" / "efficiency.py", *map(str, [*common, *chosen]))
    out = capsys.readouterr().out
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
    arguments = ["--pooling", "mean", "--sets", "sts17-en-en,stsb-de", "--data-dir", shared_data]
    words = [str(word) for word in (tiny_bert, *arguments, "--output", tmp_path)]
    run_program_of(monkeypatch, ROOT / "eval" / "multilingual_sts.py", *words)
    evaluated = capsys.readouterr().out
    assert f"| {tiny_bert.name}-mean | " in evaluated and "| sts17-en-en | stsb-de |" in evaluated
    (record,) = load_records(tmp_path, suite="multilingual")
    assert [one.name for one in record.datasets] == ["sts17-en-en", "stsb-de"]
