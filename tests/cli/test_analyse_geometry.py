"""`sentemb analyse geometry` and `map`: from a run's folder and a base model to figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from tests.cli.conftest import Command
from tests.training.test_learning_curves import entry, make_run

NOUNS = "cat dog man woman birds children".split()


@pytest.fixture
def dev_file(tmp_path: Path) -> Path:
    rows = [f"the {a} sat\tthe {b} sat\t{5 if a == b else len(b) % 5}" for a in NOUNS for b in NOUNS]
    path = tmp_path / "dev.tsv"
    path.write_text("\n".join(["sentence1\tsentence2\tscore", *rows]) + "\n")
    return path


@pytest.fixture
def trained(tmp_path: Path, dev_file: Path, tiny_encoder: SentenceTransformer) -> Path:
    """What a run leaves: a model and the metrics of its dev set."""
    entries = [entry(0, 0.5, -0.2), entry(10, 0.4, -1.0), entry(20, 0.45, -1.5)]
    folder = make_run(tmp_path / "sg-tiny", entries, dev=str(dev_file))
    tiny_encoder.save_pretrained(str(folder), create_model_card=False)
    return folder


def test_a_run_and_its_base_in_one_command(
    sentemb: Command, trained: Path, tiny_bert: Path, dev_file: Path, tmp_path: Path
) -> None:
    output = tmp_path / "figures"
    code, out, err = sentemb("analyse", "geometry", tiny_bert, trained, "--pooling", "mean", "-o", output)
    assert code == 0, err
    assert "**Geometry on dev dev**" in out
    found = json.loads((output / "geometry.json").read_text())
    assert list(found["encoders"]) == [f"{tiny_bert.name}-mean", "sg-tiny"]
    assert found["runs"]["sg-tiny"]["steps"] == [0, 10, 20]
    assert len(found["encoders"]["sg-tiny"]["spectrum"]) == 16
    for name in ("alignment-uniformity.png", "spectrum.png"):
        assert (output / name).read_bytes().startswith(b"\x89PNG")
    code, _, err = sentemb("analyse", "geometry", trained, "--data", tiny_bert / "other.tsv", "-o", output)
    assert code == 2
    assert "was measured on" in err
    picture = tmp_path / "map.png"
    arguments = ("--data", dev_file, "--pairs", "5", "--pooling", "cls", "-o", picture)
    code, out, err = sentemb("analyse", "map", tiny_bert, trained, *arguments)
    assert code == 0, err
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--data", "{dev}", "-o", "map.pdf"), "no .png"),
        (("--data", "{dev}", "--pairs", "19", "-o", "map.png"), "19 positive"),
    ],
)
def test_user_errors_are_one_line(
    sentemb: Command, dev_file: Path, arguments: tuple[str, ...], message: str
) -> None:
    code, _, err = sentemb("analyse", "map", "bert-mini", *(one.format(dev=dev_file) for one in arguments))
    assert code == 2
    assert message in err and len(err.splitlines()) == 1
