"""`sentemb distill`, from documents to a folder."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Command
from tests.training.training_helpers import make_sentences


def test_what_decides_the_texts_and_the_vectors_is_recorded(
    tmp_path: Path, tiny_bert: Path, sentemb: Command
) -> None:
    # Without their titles, a third of the documents would repeat others.
    sentences = make_sentences(600, seed=3) + make_sentences(300, seed=3)
    rows = [{"my text": text, "head": f"number {number}"} for number, text in enumerate(sentences)]
    texts = tmp_path / "texts.jsonl"
    texts.write_text("\n".join(map(json.dumps, rows)))
    reading = ["--text-column", "my text", "--title-column", "head", "--pooling", "cls", "--max-length", "12"]
    sizes = ["--steps", "2", "--dimension", "8", "--vocabulary", "1000"]
    output = tmp_path / "student"
    code, _, err = sentemb("distill", tiny_bert, "--texts", texts, "-o", output, *reading, *sizes)
    assert code == 0, err
    record = json.loads((output / "distillation.json").read_text())
    recorded = [record[name] for name in ("text_column", "title_column", "pooling", "max_length")]
    assert recorded == ["my text", "head", "cls", 12] and record["data"]["documents"] == 900
    assert "precision" not in record
    for text in (record["command"], (output / "README.md").read_text()):
        for option in ("'--text-column=my text'", "--title-column=head", "--pooling=cls", "--max-length=12"):
            assert option in text
