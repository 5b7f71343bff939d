"""`sentemb distill`, from documents to a folder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sentemb import load
from sentemb.data.bundled_text import bundled_sentences, bundled_sentences_file
from tests.cli.conftest import Command
from tests.training.training_helpers import make_sentences


def test_distill_writes_a_student_that_is_near_its_teacher(tmp_path: Path, sentemb: Command) -> None:
    output, teacher = tmp_path / "student", "sg-bert-mini"
    options = ["--steps", "200", "--vocabulary", "4000", "--dimension", "48", "--dtype", "float16"]
    texts = str(bundled_sentences_file())
    code, out, err = sentemb("distill", teacher, "--texts", texts, "-o", output, *options)
    assert code == 0, err
    assert "times the teacher's" in out
    assert f"next: sentemb eval sts {output} {teacher}" in err
    record = json.loads((output / "distillation.json").read_text())
    assert record["agreement"]["similarities"] > 0.4
    assert record["dimension"] == 48
    assert record["tokens"] <= 4000
    card = (output / "README.md").read_text()
    assert f"sentemb distill {teacher}" in card
    assert str(tmp_path) not in card + json.dumps(record)
    pair = bundled_sentences()[:2]
    vectors = load(output).encode([*pair, pair[0].upper()])
    np.testing.assert_allclose(vectors[0], vectors[2], atol=1e-6)


def test_what_decides_the_texts_and_the_vectors_is_recorded(
    tmp_path: Path, tiny_bert: Path, sentemb: Command
) -> None:
    rows = [{"my text": text, "other": "the same"} for text in make_sentences(900, seed=3)]
    texts = tmp_path / "texts.jsonl"
    texts.write_text("\n".join(map(json.dumps, rows)))
    reading = ["--text-column", "my text", "--pooling", "cls", "--max-length", "12"]
    sizes = ["--steps", "2", "--dimension", "8", "--vocabulary", "1000"]
    output = tmp_path / "student"
    code, _, err = sentemb("distill", tiny_bert, "--texts", texts, "-o", output, *reading, *sizes)
    assert code == 0, err
    record = json.loads((output / "distillation.json").read_text())
    assert [record[name] for name in ("text_column", "pooling", "max_length")] == ["my text", "cls", 12]
    assert "precision" not in record
    for text in (record["command"], (output / "README.md").read_text()):
        assert "'--text-column=my text' --pooling=cls --max-length=12" in text


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        (["--dimension", 8, "--vocabulary", 1000], "distillation.json"),
        (["--layers", 1, "--pooling", "mean"], "run/record.json"),
    ],
)
def test_titles_are_of_the_column_that_is_named(
    kind: list[object], file: str, tmp_path: Path, tiny_bert: Path, sentemb: Command
) -> None:
    sentences = make_sentences(600, seed=3) * 2
    rows = [{"text": text, "head": f"number {number}"} for number, text in enumerate(sentences)]
    texts = tmp_path / "texts.jsonl"
    texts.write_text("\n".join(map(json.dumps, rows)))
    given = ["--texts", texts, "-o", tmp_path / "student", "--steps", 2, *kind]
    code, _, err = sentemb("distill", tiny_bert, *given, "--title-column", "head")
    assert code == 0, err
    # Without their titles half of the documents would repeat others.
    record = json.loads((tmp_path / "student" / file).read_text())
    assert record["data"]["documents"] == len(rows)
    if file == "distillation.json":
        assert record["title_column"] == "head" and "--title-column=head" in record["command"]


def test_layers_are_distilled_by_the_same_verb(tmp_path: Path, tiny_bert: Path, sentemb: Command) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(make_sentences(900, seed=3)))
    arguments = [tiny_bert, "--texts", texts, "-o", tmp_path / "out", "--layers", 1, "--pooling", "mean"]
    code, out, err = sentemb("distill", *arguments, "--steps", 4)
    assert code == 0, err
    assert "1 layers" not in out and "1 layer, " in out
    assert "held-out texts: cosine with the teacher" in out
    assert f"next: sentemb eval sts {tmp_path / 'out'} {tiny_bert}" in err
    code, _, err = sentemb("distill", *arguments, "--steps", 4)
    assert (code, "finished run" in err) == (2, True)
