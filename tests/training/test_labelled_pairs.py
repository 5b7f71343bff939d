"""Runs on labelled pairs and on triples: the rows, the log, the programs and what they show."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb._files import write_text
from sentemb.errors import InputError
from sentemb.training import resolve
from sentemb.training.folder import RunFolder
from sentemb.training.rows import load_rows
from sentemb.training.values import to_toml
from tests.programs import run_program

PROGRAMS = Path(__file__).resolve().parents[2] / "training"
PAIRS = """question,other,same
a cat sat,the cat sat,1
the cat sat,a cat sat,1
a cat sat,a cat ran,1
a cat sat,two birds fly,0
a dog ran,the dog ran,1
the house,a red apple,0
a dog ran,,0
"""


@pytest.fixture
def pairs(write_file: Callable[[str, str], Path]) -> Path:
    return write_file("pairs.csv", PAIRS.replace("a dog ran,,0\n", ""))


def run(monkeypatch: pytest.MonkeyPatch, program: str, *arguments: str) -> None:
    run_program(monkeypatch, PROGRAMS / program, *arguments)


def test_rows_have_labels_and_components(pairs: Path) -> None:
    config = resolve(
        "quora",
        overrides={"data": str(pairs), "columns": ["question", "other"], "label": "same", "output": "o"},
    )
    rows = load_rows(config)
    assert rows.column_names == ["sentence1", "sentence2", "label"]
    assert [label[0] for label in rows["label"]] == [1, 1, 0, 1, 0]  # the second repeats the first
    cat, birds = rows["label"][0][1], rows["label"][2][2]
    assert [label[1:] for label in rows["label"]][:3] == [[cat, cat], [cat, cat], [cat, birds]]
    with pytest.raises(InputError, match="column 'other' is empty"):
        pairs.write_text(PAIRS)
        load_rows(config)


def test_a_run_from_before_labels_were_a_setting_goes_on(tmp_path: Path) -> None:
    config = resolve("simcse", overrides={"output": str(tmp_path / "run")})
    lines = to_toml(config.values()).splitlines()
    folder = RunFolder(tmp_path / "run")
    write_text(folder.config, "\n".join(line for line in lines if not line.startswith("label = ")))
    assert folder.differing(config) == []
    assert folder.differing(config.replace(label="same")) == ["label"]


def test_the_quora_program(
    pairs: Path, tiny_bert: Path, dev_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "output"
    arguments = ["--base", str(tiny_bert), "--data", str(pairs), "--columns", "question,other"]
    arguments += ["--label", "same", "--dev", str(dev_file), "--output", str(output), "--max-steps", "2"]
    run(monkeypatch, "quora.py", *arguments)
    settings = tomllib.loads((output / "run" / "config.toml").read_text())
    expected = resolve("quora", overrides={"output": "o"}).values()
    own = {"base", "data", "columns", "label", "dev", "output", "max_steps"}
    assert {k: v for k, v in settings.items() if k not in own} == {
        k: v for k, v in expected.items() if k not in own and v is not None
    } | {k: "none" for k, v in expected.items() if v is None and k not in own}
    lines = [json.loads(line) for line in (output / "run" / "metrics.jsonl").read_text().splitlines()]
    assert any("false_negatives" in str(line) for line in lines)


def test_the_nli_program_with_a_gradient_cache(
    write_file: Callable[[str, str], Path],
    tiny_bert: Path,
    dev_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = "".join(f"a cat {word},the cat {word},no dog\n" for word in ("sat", "ran", "is red"))
    data = write_file("triples.csv", f"a,b,c\n{rows}")
    arguments = ["--base", str(tiny_bert), "--data", str(data), "--columns", "a,b,c", "--dev", "none"]
    arguments += ["--output", str(tmp_path / "output"), "--max-steps", "1", "--mini-batch-size", "2"]
    run(monkeypatch, "simcse_nli.py", *arguments)
    settings = tomllib.loads((tmp_path / "output" / "run" / "config.toml").read_text())
    assert (settings["loss"], settings["batch_size"], settings["epochs"]) == ("SimCSELoss", 16, 3)
    assert settings["loss_options"] == {"temperature": 0.05, "head": "two-layer", "mini_batch_size": 2}
