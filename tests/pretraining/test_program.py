"""The program and the verb: options from the configuration, a model, and errors in one line."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

PROGRAM = Path(__file__).resolve().parents[2] / "training" / "pretrain_mlm.py"


def start(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", [PROGRAM.name, *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(PROGRAM), run_name="__main__")
    return int(left.value.code or 0)


def test_a_base_is_adapted_to_a_text(
    corpus_file: Path, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ("--corpus", corpus_file, "--corpus", corpus_file, "--output", tmp_path / "run")
    sizes = "--length 16 --validation-share 0.1 --precision float32 --max-steps 1 --set batch_size=4".split()
    assert start(monkeypatch, *files, *sizes, "--base", tiny_bert) == 0
    assert SentenceTransformer(str(tmp_path / "run"), device="cpu").encode("a cat").shape == (16,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--corpus", "absent.txt"), "no such file"),
        ((), "corpus is missing"),
        (("--corpus", "{corpus}", "--vocabulary", "10"), "vocabulary is '10'"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...],
    message: str,
    corpus_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    filled = [text.format(corpus=corpus_file) for text in arguments]
    assert start(monkeypatch, *filled, "--output", tmp_path / "run", "--max-steps", 1) == 2
    (last,) = capsys.readouterr().err.strip().splitlines()
    assert message in last
    assert not (tmp_path / "run").exists()
