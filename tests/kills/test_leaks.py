"""Published files do not name a folder, user or environment of the machine that made them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sentemb.search import SearchIndex
from tests.kills.jobs import JOBS
from tests.kills.test_kills import inputs, start

__all__ = ["inputs"]

# `run/config.toml` and the checkpoints are what the same machine resumes from.
PRIVATE = {"config.toml", "checkpoints"}


@pytest.mark.parametrize("name", JOBS)
def test_no_published_file_names_a_folder_of_this_machine(
    name: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENTEMB_SECRET", "a-secret-value")
    output = tmp_path / "output"
    code, said = start(JOBS[name], inputs, output)
    assert code == 0, said
    files = [path for path in output.rglob("*") if path.is_file() and not PRIVATE & {*path.parts}]
    assert files
    for path in files:
        content = path.read_bytes()
        for word in (str(inputs), str(tmp_path), str(Path.home()), "a-secret-value"):
            assert word.encode() not in content, (path, word)


def test_an_index_and_its_model_can_be_moved_together(inputs: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    shutil.copytree(inputs / "bert", old / "bert")
    SearchIndex.build(["a cat", "a dog"], old / "bert").save(old / "index")
    old.rename(new)
    assert SearchIndex.load(new / "index").search("a cat", 1)[0].text == "a cat"
