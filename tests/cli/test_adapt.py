from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.adaptation.conftest import make_documents
from tests.cli.conftest import Command


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "docs.jsonl"
    rows = [json.dumps({"name": one.title, "body": one.text}) for one in make_documents(120)]
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def test_adapt_says_the_verdict_and_the_next_command(
    documents: Path, tiny_bert: Path, tmp_path: Path, sentemb: Command
) -> None:
    output = tmp_path / "mine"
    common = ("adapt", documents, "--base", tiny_bert, "-o", output)
    options = ["--text-column", "body", "--title-column", "name", "--steps", "10", "--batch-size", "8"]
    code, out, err = sentemb(*common, *options)
    assert code == 0
    assert "120 documents, 90 of them for training" in err
    told = out.splitlines()
    kinds = ["sentence", "crop", "quote", "neighbors"]
    assert [line.split(":")[0] for line in told] == [*kinds, "Reliability", "Verdict"]
    record = json.loads((output / "run" / "record.json").read_text(encoding="utf-8"))
    assert told[-1] == f"Verdict: {record['adaptation']['verdict']}."
    assert f"next: sentemb index build {documents} --text-column body --title-column name --model" in err
    code, _, err = sentemb(*common, *options)
    assert code == 2
    assert "contains a finished run" in err


def test_a_base_that_is_returned_is_proposed_as_it_was_read(
    documents: Path, tiny_bert: Path, tmp_path: Path, sentemb: Command
) -> None:
    reading = ["--text-column", "body", "--pooling", "cls", "--data-dir", str(tmp_path)]
    idle = ["--steps", "1", "--learning-rate", "0", "--teacher", "none", "--batch-size", "8"]
    given = (*reading, *idle, "-o", tmp_path / "mine")
    code, out, err = sentemb("adapt", documents, "--base", tiny_bert, *given)
    assert code == 0 and "is returned unchanged" in out
    kept = f"--text-column body --data-dir {tmp_path} --pooling cls --model {tiny_bert} --output index"
    assert kept in " ".join(err.split())
