from __future__ import annotations

import json
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


def test_an_index_lives_in_lancedb(sentemb: Any, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("lancedb", reason="lancedb is not installed")
    address = f"lancedb:{tmp_path / 'lance'}"
    code, out, err = sentemb("index", "move", folder, "--to", address)
    assert (code, out) == (0, f"{address}: 3 documents, 3 vectors\n")
    assert f"next: sentemb index search {address}" in err
    code, out, _ = sentemb("index", "search", address, "dog", "--mode", "keyword", "--json")
    assert [hit["id"] for hit in json.loads(out)["hits"]] == ["b"]
    assert sentemb("index", "delete", address, "b", "3", "9")[1] == (
        "deleted 2, 1 not in the index; 1 documents remain\n"
    )
    assert sentemb("index", "compact", address)[0] == 0
    assert json.loads(sentemb("index", "info", address, "--json")[1])["documents"] == 1
    assert sentemb("index", "move", address, "--to", tmp_path / "back")[0] == 0
    assert [one.id for one in SearchIndex.load(tmp_path / "back", BagOfWords()).documents()] == ["a"]
    for arguments, message in (
        (("move", folder, "--to", address), f"{address} already contains an index"),
        (("move", folder, "--to", tmp_path / "new"), "are both folders"),
        (("info", f"lancedb:{tmp_path / 'none'}"), "no index at lancedb:"),
        (("info", "lancedb:"), "lancedb: is not a LanceDB address"),
    ):
        code, _, err = sentemb("index", *arguments)
        assert code == 2 and message in err and err.count("\n") == 1


def test_lancedb_is_filled_from_vectors(sentemb: Any, tmp_path: Path) -> None:
    pytest.importorskip("lancedb", reason="lancedb is not installed")
    texts, vectors, address = tmp_path / "texts.txt", tmp_path / "vectors", f"lancedb:{tmp_path / 'lance'}"
    texts.write_text("a cat sat\ntwo dogs run\na bird\n")
    assert sentemb("encode", texts, "-o", vectors, "--shard-size", 2)[0] == 0
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    (unfinished / "begun.json").write_text("{}")
    for arguments, message in (
        ((texts,), f"{texts} is not an output folder of `sentemb encode`"),
        ((tmp_path / "none",), "none is not an output folder of `sentemb encode`"),
        ((unfinished,), "does not contain finished vectors"),
        ((vectors, "--model", "bert-mini"), "was encoded with static-mini"),
        ((vectors, "--kind", "flat"), "--kind does not apply to a LanceDB index"),
        ((vectors, "--memory-budget", "1GB"), "--memory-budget does not apply to a LanceDB index"),
        ((vectors, "--overwrite"), "--overwrite does not apply to a LanceDB index"),
        ((vectors, "--id-column", "x"), "--id-column applies to documents"),
    ):
        code, _, err = sentemb("index", "build", *arguments, "-o", address)
        assert code == 2 and message in err and err.count("\n") == 1
        assert not (tmp_path / "lance").exists()
    code, out, err = sentemb("index", "build", vectors, "--output", address)
    assert (code, out) == (0, f"{address}: 3 documents, 3 vectors\n")
    assert f"next: sentemb index search {address}" in err
    assert '"id": 1' in sentemb("index", "search", address, "dogs", "-k", 1, "--json")[1]
    code, _, err = sentemb("index", "build", vectors, "--output", address)
    assert (code, f"{address} already contains an index" in err) == (2, True)
    with (next(vectors.glob("*.arrow"))).open("r+b") as file:
        file.write(b"damaged")
    code, _, err = sentemb("index", "build", vectors, "--output", f"{address}-2")
    assert (code, "does not match its checksum" in err) == (2, True)


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
