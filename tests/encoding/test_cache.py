"""The cache on disk: hits, misses, crashes, damage, two processes."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.encoding.cache import CachedEncoder, VectorStore
from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError


class Counting:
    """An encoder of 3 numbers a text that remembers what it was asked for."""

    name = "counting"
    dimension = 3

    def __init__(self, fingerprint: str = "one") -> None:
        self.fingerprint = fingerprint
        self.precision = "float32"
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        self.asked += texts
        return np.array([[len(text), text.count("a"), 0.1] for text in texts], dtype=np.float32).reshape(
            -1, 3
        )

    def describe(self) -> dict[str, Any]:
        return {"precision": self.precision}


def only_file(folder: Path) -> Path:
    (path,) = folder.glob("*.sqlite")
    return path


def test_what_was_encoded_is_not_encoded_again(tmp_path: Path) -> None:
    encoder = Counting()
    cached = CachedEncoder(encoder, tmp_path)
    first = cached.encode(["a", "bb", "a", ""])
    assert encoder.asked == ["a", "bb", ""]
    again = CachedEncoder(encoder, tmp_path).encode(["", "ccc", "bb", "a"])
    assert encoder.asked == ["a", "bb", "", "ccc"]
    np.testing.assert_array_equal(again[[3, 2, 0]], first[[0, 1, 3]])
    assert again.dtype == np.float32
    assert cached.encode([]).shape == (0, 3)
    assert cached.describe()["cached"] is True
    encoder.fingerprint = "two"  # as after a training step
    cached.encode(["a"])
    encoder.precision = "bfloat16"
    cached.encode(["a", "\ud800", "\x00"])
    cached.encode(["a", "\ud800", "\x00"])
    assert encoder.asked == ["a", "bb", "", "ccc", "a", "a", "\ud800", "\x00"]


def test_a_damaged_vector_is_encoded_again(tmp_path: Path) -> None:
    encoder = Counting()
    cached = CachedEncoder(encoder, tmp_path)
    texts = ["a", "bb", "ccc", "dddd", "eeeee"]
    first = cached.encode(texts)
    with closing(sqlite3.connect(only_file(tmp_path))) as connection, connection:
        rows = connection.execute("SELECT text FROM vectors").fetchall()
        for (key,), value in zip(rows, [None, "twelve chars", 7, b"\0" * 12, b"\0"], strict=True):
            connection.execute("UPDATE vectors SET vector = ? WHERE text = ?", (value, key))
    np.testing.assert_array_equal(cached.encode(texts), first)
    assert sorted(encoder.asked) == sorted(texts * 2)


def test_a_file_that_is_not_a_database_starts_empty(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    encoder = Counting()
    CachedEncoder(encoder, tmp_path).encode(["a"])
    path = only_file(tmp_path)
    unquotable = path.read_bytes().replace(b"WITHOUT ROWID", b"WITHOUT R\xe9WID")  # by SQLite
    for damaged in (b"not a database" * 100, unquotable):
        path.write_bytes(damaged)
        encoder.asked.clear()
        CachedEncoder(encoder, tmp_path).encode(["a"])
        CachedEncoder(encoder, tmp_path).encode(["a"])
        assert encoder.asked == ["a"]
    assert "is damaged" in caplog.text
    assert list(tmp_path.glob("*.damaged"))


def test_damage_inside_the_file_is_not_fatal(tmp_path: Path) -> None:
    encoder = Counting()
    texts = [f"text {i}" for i in range(2000)]
    CachedEncoder(encoder, tmp_path).encode(texts[::2])
    expected = CachedEncoder(encoder, tmp_path).encode(texts)
    assert encoder.asked == texts[::2] + texts[1::2]
    np.testing.assert_array_equal(expected, encoder.encode(texts))
    path = only_file(tmp_path)
    content = bytearray(path.read_bytes())
    for page in range(2, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(content)
    np.testing.assert_array_equal(CachedEncoder(encoder, tmp_path).encode(texts), expected)


def test_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot use the cache folder .*file"):
        CachedEncoder(Counting(), tmp_path / "file").encode(["a"])


def test_full_disk_costs_the_cache_and_not_the_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = Counting()
    CachedEncoder(encoder, tmp_path).encode(["a"])
    connect = sqlite3.connect

    def small(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.execute("PRAGMA max_page_count = 3")  # SQLite answers as on a full disk
        return connection

    monkeypatch.setattr(sqlite3, "connect", small)
    with caplog.at_level(logging.WARNING):
        vectors = CachedEncoder(encoder, tmp_path).encode([f"text {i}" for i in range(2000)])
    assert vectors.shape == (2000, 3)
    assert "vectors could not be cached" in caplog.text and "full" in caplog.text


WRITER = """
import sys
from pathlib import Path
import numpy as np
from sentemb.encoding.cache import VectorStore
store = VectorStore(Path(sys.argv[1]), "key", dimension=64)
first, last = int(sys.argv[2]), int(sys.argv[3])
for i in range(first, last, 50):
    texts = [f"text {j}" for j in range(i, i + 50)]
    store.put(texts, np.stack([np.full(64, float(j), dtype=np.float32) for j in range(i, i + 50)]))
    print(i + 50, flush=True)
"""


def start_writer(folder: Path, first: int, last: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(folder), str(first), str(last)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_write_one_file(tmp_path: Path) -> None:
    writers = [start_writer(tmp_path, 0, 2000), start_writer(tmp_path, 1000, 3000)]
    assert [writer.communicate()[0].split()[-1] for writer in writers] == ["2000", "3000"]
    found = VectorStore(tmp_path, "key", dimension=64).get([f"text {i}" for i in range(3000)])
    assert len(found) == 3000
    assert all((vector == index).all() for index, vector in found.items())


def test_killed_writer_leaves_whole_vectors(tmp_path: Path) -> None:
    writer = start_writer(tmp_path, 0, 10_000_000)
    assert writer.stdout is not None
    put = [int(writer.stdout.readline()) for _ in range(20)][-1]
    os.kill(writer.pid, signal.SIGKILL)
    writer.communicate()
    store = VectorStore(tmp_path, "key", dimension=64)
    found = store.get([f"text {i}" for i in range(100_000)])
    assert len(found) >= put == 1000 and len(found) % 50 == 0
    assert all((vector == index).all() for index, vector in found.items())
    store.put(["new"], np.zeros((1, 64), dtype=np.float32))
    assert store.get(["new"])
