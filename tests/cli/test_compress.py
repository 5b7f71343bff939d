from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from tests.cli.conftest import Command
from tests.conftest import WORDS

WriteFile = Callable[[str, str], Path]


@pytest.fixture
def model(tiny_encoder: SentenceTransformer, tmp_path: Path) -> Path:
    tiny_encoder.save_pretrained(str(tmp_path / "tiny"))
    return tmp_path / "tiny"


@pytest.fixture
def texts(write_file: WriteFile) -> Path:
    plain = [word for word in WORDS if not word.startswith("#")]
    lines = [" ".join(plain[(3 * row + place) % len(plain)] for place in range(9)) for row in range(30)]
    return write_file("texts.txt", "".join(f"{line} {row}\n" for row, line in enumerate(lines)))


def test_table_record_and_folder(
    model: Path, texts: Path, write_file: WriteFile, tmp_path: Path, sentemb: Command
) -> None:
    rows = [f"the cat sat\ta {word} ran\t{number % 6}\n" for number, word in enumerate(WORDS[:20])]
    scored = write_file("scored.tsv", "sentence1\tsentence2\tscore\n" + "".join(rows))
    output, record = tmp_path / "small", tmp_path / "prices.json"
    code, out, err = sentemb(
        *("compress", model, "--texts", texts, "--sets", scored, "--only", "float16"),
        *("--write", "float16", "-o", output, "--record", record),
    )
    assert code == 0, err
    assert "| float16 |" in out and "ΔNDCG@10" in out and "pseudo-crop" in out
    assert f"next: sentemb eval sts {output}" in err
    values = json.loads(record.read_text())
    assert [one["name"] for one in values["variants"]] == ["float32", "float16"]
    whole, half = values["variants"]
    assert half["bytes"] < whole["bytes"] and half["sts"]["items"] == 20
    assert (output / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--write", "float16"], "--write and --output belong together"),
        (["--only", "int4", "--sets", "{texts}"], "texts.txt"),
    ],
)
def test_bad_input_is_one_line(
    model: Path, texts: Path, sentemb: Command, arguments: list[str], problem: str
) -> None:
    given = [one.format(texts=texts) for one in arguments]
    code, _, err = sentemb("compress", model, "--texts", texts, *given)
    assert code == 2 and problem in err
