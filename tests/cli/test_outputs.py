"""A file is replaced on request, and own files are taken wherever a data set has a name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Command

NOUNS = "cat dog man woman birds children".split()
PAIRS = "sentence1,sentence2,score\n" + "".join(
    f"the {NOUNS[n % 6]} {NOUNS[n // 6]} sat,a {NOUNS[n % 5]} {NOUNS[n % 4]} ran,{n % 6}\n" for n in range(30)
)
LABELLED = "text,label\n" + "".join(
    f"the {NOUNS[n % 6]} {NOUNS[n // 6]} {('sat', 'ran')[n % 2]},{('good', 'bad')[n % 2]}\n"
    for n in range(36)
)


def test_a_file_is_replaced_where_that_is_wanted(tmp_path: Path, sentemb: Command) -> None:
    (tmp_path / "mine.csv").write_text(PAIRS)
    (tmp_path / "found.json").write_text("of another day\n")
    words = ("data", "overlap", tmp_path / "mine.csv", "--sets", tmp_path / "mine.csv")
    code, _, _ = sentemb(*words, "-o", tmp_path / "found.json", "--overwrite")
    assert code == 0 and (tmp_path / "found.json").read_text().startswith("{")


def test_own_files_are_taken_where_sets_have_names(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sentemb: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_bert, "tiny")
    Path("pairs.csv").write_text(PAIRS)
    Path("mine.csv").write_text(LABELLED)
    Path("texts.txt").write_text("the cat sat\na bird flies over the house\n")
    for words in (
        "eval sts tiny --sets pairs.csv",
        "eval geometry tiny --data pairs.csv",
        "analyse map tiny --data pairs.csv --pairs 4 -o map.png",
        "analyse layers tiny --sets pairs.csv",
        "train lacon --base tiny --train mine.csv --validation mine.csv --max-steps 1 -o classifier",
        "classify classifier mine.csv -o classes.csv",
        "analyse classes classifier --data mine.csv --rows 10 -o classes.png",
        "experiment full lacon --sets mine.csv --base tiny --seeds 1 --set max_steps=1 -o experiment",
        "tune lacon mine.csv --base tiny --grid learning_rate=1e-4 --set max_steps=1 -o tuned",
        "data overlap texts.txt --sets pairs.csv,mine.csv -o overlap.json",
    ):
        code, _, err = sentemb(*words.split())
        assert code in (0, None), f"{words}: {err}"
        assert "Traceback" not in err
    assert Path("classes.csv").read_text().count("\n") == 37
    assert "mine accuracy" in Path("experiment/full.md").read_text()
    assert "[lacon]" in Path("tuned/lacon.mine.toml").read_text()
