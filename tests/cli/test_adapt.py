from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentemb.cli.main import run
from tests.adaptation.conftest import make_documents


def end(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        run(["adapt", *arguments])
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "docs.jsonl"
    rows = [json.dumps({"name": one.title, "body": one.text}) for one in make_documents(120)]
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def test_adapt_says_the_verdict_and_the_next_command(
    documents: Path, tiny_bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "mine"
    options = ["--text-column", "body", "--title-column", "name", "--steps", "10", "--batch-size", "8"]
    code, out, err = end([str(documents), "--base", str(tiny_bert), "-o", str(output), *options], capsys)
    assert code == 0
    assert "120 documents, 90 of them for training" in err
    told = out.splitlines()
    kinds = ["sentence", "crop", "quote", "neighbors"]
    assert [line.split(":")[0] for line in told] == [*kinds, "Reliability", "Verdict"]
    record = json.loads((output / "run" / "record.json").read_text(encoding="utf-8"))
    assert told[-1] == f"Verdict: {record['adaptation']['verdict']}."
    assert f"next: sentemb index build {documents} --text-column body --title-column name --model" in err
    code, _, err = end([str(documents), "--base", str(tiny_bert), "-o", str(output), *options], capsys)
    assert code == 2
    assert "contains a finished run" in err


def test_a_base_that_is_returned_is_proposed_as_it_was_read(
    documents: Path, tiny_bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reading = ["--text-column", "body", "--pooling", "cls", "--data-dir", str(tmp_path)]
    idle = ["--steps", "1", "--learning-rate", "0", "--teacher", "none", "--batch-size", "8"]
    output = str(tmp_path / "mine")
    code, out, err = end([str(documents), "--base", str(tiny_bert), "-o", output, *reading, *idle], capsys)
    assert code == 0 and "is returned unchanged" in out
    kept = f"--text-column body --data-dir {tmp_path} --pooling cls --model {tiny_bert} --output index"
    assert kept in " ".join(err.split())
