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
from sentemb.training.contrastive import load_rows
from sentemb.training.folder import RunFolder
from sentemb.training.values import to_toml
from tests.programs import run_program as run_program_of
from tests.training.training_helpers import make_sentences

ROOT = Path(__file__).resolve().parents[2]
RunProgram = Callable[..., Path]
OWN = {"base", "data", "columns", "label", "dev", "output", "max_steps", "loss_options"}
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
    ("program", "data", "arguments", "recipe", "options"),
    [
        ("sg_opt.py", None, "", "sg-opt", {}),
        ("sg_opt.py", None, "--objective base --preset released", "sg", {}),
        ("simcse.py", None, "", "simcse", {}),
        ("simcse.py", triples(), "--objective supervised --columns a,b,c", "simcse-supervised", {}),
        (
            "simcse_nli.py",
            triples(),
            "--columns a,b,c --dev none --mini-batch-size 2",
            "simcse-nli",
            {"mini_batch_size": 2},
        ),
        ("quora.py", QUORA, "--columns question,other --label same", "quora", {}),
        ("back_translation.py", back_translations(), "", "bt", {}),
        ("back_translation.py", back_translations(), "--objective bt-sg-opt", "bt-sg-opt", {}),
        (
            "back_translation.py",
            back_translations(),
            "--view-encoder frozen --preset released",
            "bt",
            {"view_encoder": "frozen"},
        ),
    ],
)
def test_a_program_trains_its_recipe(
    run_program: RunProgram,
    write_file: Callable[[str, str], Path],
    program: str,
    data: str | None,
    arguments: str,
    recipe: str,
    options: dict[str, Any],
) -> None:
    chosen = ["--data", str(write_file("data.csv", data))] if data else []
    output = run_program(program, *chosen, *arguments.split())
    settings = tomllib.loads((output / "run" / "config.toml").read_text())
    preset = "released" if "released" in arguments else "paper"
    # The values that the program shows are those of the recipe.
    expected = resolve(recipe, overrides={"output": "o", "preset": preset, "data": "d"}).values()
    for name, value in expected.items():
        if name not in OWN and value is not None:
            assert settings[name] == value, name
    shown = {name: "none" if one is None else one for name, one in expected["loss_options"].items()}
    assert settings["loss_options"] == shown | options
    assert SentenceTransformer(str(output), device="cpu").encode(["a cat"]).shape == (1, 16)
    if recipe == "quora":
        assert "false_negatives" in (output / "run" / "metrics.jsonl").read_text()
    if recipe.startswith("bt"):
        record = json.loads((output / "run" / "record.json").read_text())
        assert record["negatives_per_anchor"] == (60 if recipe == "bt-sg-opt" else 30)


@pytest.mark.parametrize(
    ("program", "arguments", "words"),
    [
        ("sg_opt.py", "--seeds one", "seeds is 'one'"),
        ("sg_opt.py", "--data absent.txt", "absent.txt"),
        ("back_translation.py", "--view-encoder trained --objective bt-sg-opt", "opt3 needs several"),
        ("back_translation.py", "--columns text", "has 1 text column"),
        ("back_translation.py", "--columns text,translation", "'translation'"),
    ],
)
def test_a_user_error_is_one_line(
    run_program: RunProgram,
    write_file: Callable[[str, str], Path],
    program: str,
    arguments: str,
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = ["--data", str(write_file("data.csv", back_translations()))] if program != "sg_opt.py" else []
    with pytest.raises(SystemExit) as caught:
        run_program(program, *data, *arguments.split())
    assert caught.value.code == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("sentemb: error: ") and words in line


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


def test_a_run_from_before_a_setting_existed_resumes(tmp_path: Path) -> None:
    config = resolve("simcse", overrides={"output": str(tmp_path / "run")})
    lines = to_toml(config.values()).splitlines()
    folder = RunFolder(tmp_path / "run")
    folder.run.mkdir(parents=True)
    folder.config.write_text("\n".join(line for line in lines if not line.startswith("label = ")))
    assert folder.differing(config) == []
    assert folder.differing(config.replace(label="same")) == ["label"]


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
