from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sentemb.search import SearchIndex
from tests.search.bag_of_words import BagOfWords

WITHOUT = """
import sys
sys.modules["lancedb"] = None
from sentemb.cli.main import run
run(sys.argv[1:])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    SearchIndex.build([("a", "a cat"), ("b", "two dogs"), (3, "a bird")], BagOfWords(), language="en").save(
        tmp_path / "index"
    )
    return tmp_path / "index"


def test_without_lancedb_one_line_names_the_extra(folder: Path, tmp_path: Path) -> None:
    for arguments in (("index", "info", f"lancedb:{tmp_path}"), ("index", "info", str(folder))):
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT, *arguments], capture_output=True, text=True, check=False
        )
        if arguments[-1] == str(folder):
            assert done.returncode == 0, done.stderr
        else:
            expected = (
                "sentemb: error: this command needs the package lancedb; pip install 'sentemb[lancedb]'\n"
            )
            assert (done.returncode, done.stderr) == (2, expected)


def test_a_full_disk_leaves_nothing_in_lancedb(sentemb: Any, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("lancedb", reason="lancedb is not installed")
    target = tmp_path / "lance"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
    try:
        code, _, err = sentemb("index", "move", folder, "--to", f"lancedb:{target}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert code == 2 and err.splitlines()[-1] == f"sentemb: error: {target}: File too large"
    assert not target.exists()
