"""`sentemb encode`: a folder of vectors, its verdict and what refuses it."""

from __future__ import annotations

import sys
from pathlib import Path

import fsspec
import pytest

from sentemb.encoding.shards import ShardFolder
from tests.cli.conftest import Command


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "documents.csv"
    rows = [f"n{number},words of {number}" for number in range(30)]
    path.write_text("\n".join(["name,text", *rows, "x,  \n"]))
    return path


@pytest.mark.parametrize(
    "arguments", [["encode", "documents.csv", "-o", "out", "--text-column", "text"], ["serve", "static-mini"]]
)
def test_without_ray_one_line_names_the_extra(
    arguments: list[str], documents: Path, monkeypatch: pytest.MonkeyPatch, sentemb: Command
) -> None:
    monkeypatch.chdir(documents.parent)
    for name in [name for name in sys.modules if name.split(".")[0] == "ray"]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("sentemb.encoding.cluster", "sentemb.serving.replicas"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, err = sentemb(*arguments, "--ray", "local")
    assert (code, err) == (
        2,
        "sentemb: error: this command needs the package ray; pip install 'sentemb[scale]'\n",
    )
    if arguments[0] == "encode":
        assert sentemb(*arguments)[0] == 0


def test_a_corpus_that_a_uri_names(tmp_path: Path, sentemb: Command) -> None:
    memory = fsspec.filesystem("memory")
    uri = "memory://me:pass@corpus/docs.jsonl?token=1"  # all of it is the name to this file system
    memory.pipe(uri, b'{"text": "one"}\n{"text": "two"}\n{"text": " "}\n')
    output = tmp_path / "vectors"
    code, out, _ = sentemb("encode", uri, "-o", output)
    memory.store.clear()
    assert code == 0
    assert "2 vectors of 256 dimensions" in out
    assert ShardFolder(output).source == "memory://corpus/docs.jsonl"
    assert '"memory://corpus/docs.jsonl:3"' in (output / "set-aside.jsonl").read_text()
    code, out, _ = sentemb("index", "build", output.as_uri(), "-o", tmp_path / "index")
    assert "2 of 256 dimensions" in out
    code, _, err = sentemb("encode", uri, "-o", tmp_path / "more")
    assert (code, err.splitlines()[-1]) == (2, "sentemb: error: no such file: memory://corpus/docs.jsonl")


def test_both_sides_of_an_overlap_may_be_elsewhere(tmp_path: Path, sentemb: Command) -> None:
    memory, output = fsspec.filesystem("memory"), tmp_path / "overlap.json"
    names = [f"memory://me:secret@{name}.txt?token=secret" for name in ("train", "test")]
    for name in names:  # all of it is the name to this file system
        memory.pipe(name, b"A man sat down\n")
    code, out, _ = sentemb("data", "overlap", names[0], "--sets", names[1], "--output", output)
    memory.store.clear()
    assert code == 0
    assert "memory://test.txt, exact, memory://train.txt:1: A man sat down" in out
    assert "secret" not in out + output.read_text()
