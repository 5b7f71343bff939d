from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from sentemb.cli.compress import _Options, propose
from sentemb.compression.write import VariantReport, VariantReports
from sentemb.encoding import load_encoder
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


@pytest.mark.parametrize(("speed", "taken"), [(200.0, "quick"), (90.0, "small")])
def test_nothing_slower_than_the_model_is_called_fastest(
    speed: float, taken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = (
        VariantReport("model", 400, 64, 100.0, None, None),
        VariantReport("quick", 300, 64, speed, None, None),
        VariantReport("small", 100, 64, 50.0, None, None),
    )
    propose(VariantReports(rows, (), (), 9), _Options(model="mine", texts="docs"))
    said = " ".join(capsys.readouterr().err.split())
    assert ("fastest variant that loses" in said) == (taken == "quick")
    assert ("is faster than the model" in said) == (taken == "small")
    assert f"next: sentemb compress mine --texts docs --only {taken} --write {taken} -o FOLDER" in said


def test_what_loses_too_much_leaves_table_and_record(
    model: Path, texts: Path, write_file: WriteFile, tmp_path: Path, sentemb: Command
) -> None:
    output, record = tmp_path / "small", tmp_path / "prices.json"
    first, second = texts.read_text().splitlines()[::2], texts.read_text().splitlines()[1::2]
    vectors = [load_encoder(model).encode(some) for some in (first, second)]
    golds = (vectors[0] * vectors[1]).sum(axis=1)  # by the model itself: every change is a loss
    rows = (f"{one}\t{other}\t{gold}\n" for one, other, gold in zip(first, second, golds, strict=True))
    scored = write_file("scored.tsv", "sentence1\tsentence2\tscore\n" + "".join(rows))
    given = ["--only", "binary-vectors", "--write", "binary-vectors", "-o", output, "--tolerance", 0]
    files = ("--texts", texts, "--sets", scored, "--record", record)
    code, out, err = sentemb("compress", model, *files, *given)
    assert code == 2 and "binary-vectors loses more than 0 points" in err
    assert "| binary-vectors |" in out and json.loads(record.read_text())["variants"]
    assert not output.exists()
