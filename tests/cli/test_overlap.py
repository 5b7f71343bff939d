from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import fsspec

from tests.cli.conftest import Command

WriteFile = Callable[[str, str], Path]


def test_table_examples_and_json(write_file: WriteFile, tmp_path: Path, sentemb: Command) -> None:
    test = write_file("test.tsv", "one\ttwo\nA man sat.\tTwo birds fly over the red house\n")
    train = write_file("train.txt", "nothing\na man  sat.\ntwo birds fly over the red house today\n")
    output = tmp_path / "overlap.json"
    code, out, err = sentemb("data", "overlap", train, "--sets", test, "--output", output)
    assert code == 0
    assert f"Texts of test sets in the 3 texts of {train}" in out
    (line,) = [line for line in out.splitlines() if line.endswith(" 1 |")]
    assert line.strip("| ").split(" | ")[-6:] == ["2", "1", "1", "100.0%", "1", "1"]
    assert f"{test}, exact, {train}:2: A man sat." in out
    assert f"{test}, inside, {train}:3: Two birds fly over the red house" in out
    assert "    training text: two birds fly over the red house today" in out
    assert "3 texts read" in err
    assert f"next: sentemb train sg-opt --data {train}" in err
    values = json.loads(output.read_text())
    assert values["train"] == str(train) and values["sets"][0]["exact"] == 1
    code, out, _ = sentemb("data", "overlap", train, "--sets", test, "--set-column", "one", "--examples", 0)
    assert code == 0 and "training text:" not in out
    assert "100.0%" in out


def test_both_sides_may_be_elsewhere(tmp_path: Path, sentemb: Command) -> None:
    memory, output = fsspec.filesystem("memory"), tmp_path / "overlap.json"
    names = [f"memory://me:secret@{name}.txt?token=secret" for name in ("train", "test")]
    for name in names:  # all of it is the name to this file system
        memory.pipe(name, b"A man sat down\n")
    code, out, _ = sentemb("data", "overlap", names[0], "--sets", names[1], "--output", output)
    memory.store.clear()
    assert code == 0
    assert "memory://test.txt, exact, memory://train.txt:1: A man sat down" in out
    assert "secret" not in out + output.read_text()


def test_the_training_text_may_be_encoded_or_indexed(
    write_file: WriteFile, tmp_path: Path, sentemb: Command
) -> None:
    test = write_file("test.tsv", "one\ttwo\nA man sat.\tTwo birds fly over the old red house\n")
    train = write_file("train.txt", "nothing\na man  sat.\ntwo birds fly over the red house\n")
    vectors, index = tmp_path / "vectors", tmp_path / "index"
    assert sentemb("encode", train, "-o", vectors)[0] == 0
    assert sentemb("index", "build", vectors, "-o", index)[0] == 0
    for folder, place in (
        (vectors, f"{vectors}: 1"),
        (vectors.as_uri(), f"{vectors}: 1"),
        (index, "document 1"),
        (index.as_uri(), "document 1"),
    ):
        code, out, _ = sentemb("data", "overlap", folder, "--sets", test)
        assert code == 0 and f"{test}, exact, {place}: A man sat." in out
        code, _, err = sentemb("data", "overlap", folder, "--sets", test, "--columns", "text")
        assert (code, err.count("\n")) == (2, 1) and "--columns applies to files" in err
    pairs = write_file("pairs.csv", "sent0,sent1\na man sat,the man sat down\n")
    for number, folder in enumerate((vectors, index)):
        mined = ("data", "mine-negatives", pairs, "--corpus", folder)
        assert sentemb(*mined, "-o", tmp_path / f"mined-{number}.jsonl")[0] == 0
    assert (tmp_path / "mined-0.jsonl").read_text() == (tmp_path / "mined-1.jsonl").read_text() != ""
    next(vectors.glob("*.arrow")).write_bytes(b"damaged")
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    (unfinished / "begun.json").write_text("{}")
    for folder, problem in (
        (unfinished, "does not contain finished vectors"),
        (vectors, "does not match its checksum"),
        (tmp_path / "none", "no such file"),
    ):
        mining = ("mine-negatives", pairs, "--corpus", folder, "-o", tmp_path / "new.csv")
        for command in (("overlap", folder, "--sets", test), mining):
            code, _, err = sentemb("data", *command)
            assert (code, err.count("\n")) == (2, 1) and problem in err
