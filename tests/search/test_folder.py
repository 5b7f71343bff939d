from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sentemb.errors import InputError
from sentemb.search import SearchIndex
from sentemb.search.folder import check_output, read_manifest
from tests.search.bag_of_words import BagOfWords

FLIPS = 300


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "index"
    SearchIndex.build([f"w{n}" for n in range(50)], BagOfWords(), kind="hnsw").save(folder)
    return folder


def damage(path: Path, change: Callable[[bytes], bytes]) -> Callable[[], None]:
    content = path.read_bytes()
    path.write_bytes(change(content))
    return lambda: path.write_bytes(content) and None


def files(folder: Path) -> list[Path]:
    """The manifest, the database and the vector index, in this order."""
    return [folder / "manifest.json", *folder.glob("index-*.sqlite"), *folder.glob("vectors-*")]


def test_folder_holds_three_files(saved: Path) -> None:
    assert sorted(saved.iterdir()) == sorted(files(saved))
    assert all(path.stat().st_mode & 0o444 == 0o444 & ~_umask() for path in saved.iterdir())
    assert read_manifest(saved).cache == files(saved)[2].name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: b"", " has 0 bytes"),
        (lambda content: content + b"\0", " has"),
        (
            lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
            "does not match its checksum",
        ),
    ],
)
def test_a_damaged_vector_index_is_named_and_not_needed(
    saved: Path, change: Callable[[bytes], bytes], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = files(saved)[2]
    expected = SearchIndex.load(saved, BagOfWords()).search("w7", 50)
    restore = damage(path, change)
    try:
        for verify in (True,) if "checksum" in message else (True, False):
            caplog.clear()
            assert SearchIndex.load(saved, BagOfWords(), verify=verify).search("w7", 50) == expected
            assert path.name in caplog.text and message in caplog.text
            assert "every vector is compared; build it with `sentemb index compact" in caplog.text
    finally:
        restore()


def test_a_damaged_vector_index_stays_unused_after_a_change(saved: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(saved, tmp_path / "index")
    damage(files(folder)[2], lambda content: content[:-9] + bytes([content[-9] ^ 255]) + content[-8:])
    index = SearchIndex.load(folder, BagOfWords())
    index.add([("new", "w7 w7 w7 w8")])
    index.delete(["new"])
    assert index.search("w7", 50) == SearchIndex.load(saved, BagOfWords()).search("w7", 50)


def test_a_vector_index_that_is_gone_is_built_again(saved: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(saved, tmp_path / "index")
    expected = SearchIndex.load(folder, BagOfWords()).search("w7", 50)
    files(folder)[2].unlink()
    index = SearchIndex.load(folder, BagOfWords())
    index.add([("new", "w7 w7 w7 w8")])
    index.delete(["new"])
    assert index.search("w7", 50) == expected
    index.compact()
    assert SearchIndex.load(folder, BagOfWords()).search("w7", 50) == expected and len(files(folder)) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "is not the manifest of an index"),
        ("{}", "is not the manifest of an index"),
        ('{"format": 6}', "has the format 6, but this version of sentemb reads format 7; build the index"),
        ('{"format": 8}', "has the format 8, but .*; update sentemb, or build the index again"),
        ('{"format": 7}', "does not name the database"),
        ('{"format": 7, "database": "../index-0123456789abcdef.sqlite"}', "does not name the database"),
        ('{"format": 7, "database": "index-0123456789abcdef.sqlite"}', "index-.* is missing"),
        ("é", "is not the manifest of an index"),
    ],
)
def test_other_manifests_are_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "manifest.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words):
        SearchIndex.load(tmp_path, BagOfWords())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"$.effort": "many"}, "index-.*, effort: "),
        ({"$.kind": "tree"}, "index-.*, kind: "),
        ({"$.dimension": 7}, "index-.* is damaged"),
        ({"$.keyword_rules": 1}, "index-.* has keywords of another version"),
    ],
)
def test_impossible_facts_are_refused(
    saved: Path, tmp_path: Path, change: dict[str, object], words: str
) -> None:
    folder = shutil.copytree(saved, tmp_path / "index")
    (pair,) = change.items()
    with contextlib.closing(sqlite3.connect(files(folder)[1])) as database, database:
        database.execute("UPDATE settings SET facts = json_set(facts, ?, ?)", pair)
    with pytest.raises(InputError, match=words):
        SearchIndex.load(folder, BagOfWords())


def test_no_folder_and_a_file_instead(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r".*none is not an index"):
        SearchIndex.load(tmp_path / "none", BagOfWords())
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file, not an index folder"):
        SearchIndex.load(tmp_path / "file", BagOfWords())


def test_output_that_cannot_be_is_refused(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="already contains an index; pass --overwrite"):
        check_output(saved, overwrite=False)
    check_output(saved, overwrite=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file"):
        check_output(tmp_path / "file", overwrite=True)
    with pytest.raises(InputError, match="is not empty and not an index: it contains file"):
        check_output(tmp_path, overwrite=True)
    check_output(tmp_path / "new" / "deeper", overwrite=False)
    if os.geteuid() != 0:
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(InputError, match="is not writable"):
            check_output(tmp_path / "locked" / "index", overwrite=False)


@pytest.mark.parametrize("fails_at", range(5))
def test_a_full_disk_leaves_the_old_index(
    saved: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    """The disk is full from each of the steps on: the vectors, the documents, the manifest."""
    before = {path.name: path.read_bytes() for path in files(saved)}
    new = SearchIndex.build(["w1", "w2"], BagOfWords())
    calls = 0

    def fsync(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls > fails_at:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="No space left"):
        new.save(saved, overwrite=True)
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in files(saved)} == before
    assert not list(saved.glob(".*.partial"))


def test_an_overwrite_removes_what_a_death_left(saved: Path) -> None:
    for name in (f"vectors-{'0' * 16}.faiss", f"documents-{'0' * 16}.sqlite", ".vectors.partial"):
        (saved / name).write_bytes(b"left")
    (saved / "README").write_text("the user's own")
    SearchIndex.build([f"w{n}" for n in range(50)], BagOfWords(), kind="hnsw").save(saved, overwrite=True)
    assert len(list(saved.iterdir())) == 4
    assert (saved / "README").exists()
    (saved / "README").unlink()


def test_the_log_of_a_killed_save_is_not_added_to_the_next(saved: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(saved, tmp_path / "index")
    other = sqlite3.connect(folder / ".index.partial")
    other.executescript("PRAGMA journal_mode=WAL; CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(90000))")
    shutil.copy(folder / ".index.partial-wal", tmp_path / "log")
    other.close()
    shutil.copy(tmp_path / "log", folder / ".index.partial-wal")
    SearchIndex.build([f"w{n}" for n in range(9)], BagOfWords()).save(folder, overwrite=True)
    index = SearchIndex.load(folder, BagOfWords())
    assert len(index) == 9 and index.search("w7", 1)[0].id == 7 and len(files(folder)) == 3


def test_a_folder_that_cannot_be_written_to_is_read(saved: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(saved, tmp_path / "index")
    expected = SearchIndex.load(folder, BagOfWords()).search("w7", 5)
    for path in (*folder.iterdir(), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        index = SearchIndex.load(folder, BagOfWords())
        assert index.search("w7", 5) == expected
        if os.geteuid() != 0:
            with pytest.raises(InputError, match="is not writable"):
                index.add(["w1"])
    finally:
        folder.chmod(0o755)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.fixture
def living(tmp_path: Path, words: BagOfWords) -> tuple[SearchIndex, Path]:
    """An index with written vectors, metadata and deleted documents, and its database."""
    folder = tmp_path / "index"
    SearchIndex.build([f"w{n}" for n in range(8)], words, kind="hnsw").save(folder)
    index = SearchIndex.load(folder, words)
    index.add([(f"id{n}", f"w{n} w{n + 1}", {"year": 2000 + n}) for n in range(20, 40)])
    index.delete([1, "id25"])
    return index, next(folder.glob("index-*.sqlite"))


def answers(folder: Path) -> object:
    index = SearchIndex.load(folder, BagOfWords())
    return index.search(["w1 w2", "w30"], 40), index.search("w3", 9, where={"year": {">": 2030}})


def test_a_flipped_bit_of_any_file_is_noticed_or_changes_nothing(living: tuple[SearchIndex, Path]) -> None:
    _, database = living
    expected, noticed, rng = answers(database.parent), 0, random.Random(1)
    good = {path: path.read_bytes() for path in files(database.parent)}
    used = {path: [place for place, byte in enumerate(content) if byte] for path, content in good.items()}
    for number in range(FLIPS):
        path = [*good, database, database][number % 5]
        damaged = bytearray(good[path])
        damaged[place := rng.choice(used[path])] ^= 1 << rng.randrange(8)
        for log in database.parent.glob("index-*.sqlite-*"):
            log.unlink(missing_ok=True)
        path.write_bytes(damaged)
        try:
            assert answers(database.parent) == expected, place
        except InputError as error:
            assert str(database.parent) in str(error)
            noticed += 1
        path.write_bytes(good[path])
    assert noticed > FLIPS / 3


@pytest.mark.parametrize(
    "damage",
    [
        """UPDATE documents SET metadata = '{"year": 2039}' WHERE id = 'id30'""",
        "UPDATE documents SET metadata = NULL WHERE id = 'id30'",
        "UPDATE documents SET id = 'id60' WHERE id = 'id30'",
        "UPDATE documents SET id = '3' WHERE id = 3",
        "UPDATE documents SET text = x'00' WHERE id = 'id30'",
        "DELETE FROM documents WHERE id = 'id30'",
        "UPDATE documents SET number = number + 99 WHERE id = 'id30'",
        "UPDATE vectors SET vector = zeroblob(132) WHERE id = 12 << 20",
        "UPDATE vectors SET vector = x'00' WHERE id = 12 << 20",
        "UPDATE vectors SET vector = CAST(substr(vector, 1, 131) || x'00' AS BLOB) WHERE id = 12 << 20",
        "UPDATE vectors SET id = id + 1 WHERE id = 12 << 20",
        "UPDATE deleted SET number = 3 WHERE number = 2",
        "UPDATE state SET vectors = 9",
        "DELETE FROM vectors",
        "UPDATE state SET documents = 9",
    ],
)
def test_a_changed_row_is_noticed(living: tuple[SearchIndex, Path], damage: str) -> None:
    _, path = living
    change(path, damage)
    with pytest.raises(
        InputError,
        match=f"{path.name} (is damaged|does not have exactly one vector)|the vectors in .* are damaged",
    ):
        SearchIndex.load(path.parent, BagOfWords())


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


LOOP = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)"


@pytest.mark.parametrize("table", ["documents", "vectors"])
def test_a_view_without_end_is_refused(living: tuple[SearchIndex, Path], table: str) -> None:
    _, path = living
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"ALTER TABLE {table} RENAME TO hidden")
        connection.execute(f"CREATE VIEW {table} AS {LOOP} SELECT n AS number, '' AS vector FROM c")
    with pytest.raises(InputError, match=f"contains the view {table}, which does not belong to an index"):
        SearchIndex.load(path.parent, BagOfWords(), verify=False)


def test_metadata_nested_too_deeply_is_refused(living: tuple[SearchIndex, Path]) -> None:
    index, path = living
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InputError, match="the metadata are nested too deeply"):
        index.add([("deep", "w1", {"x": deep})])
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE documents SET metadata = ?", ('{"x":' + "[" * 100_000,))
    opened = SearchIndex.load(path.parent, BagOfWords(), verify=False)
    for where in (None, {"x": 1}):
        with pytest.raises(InputError, match=r"the metadata in .* are damaged|malformed JSON"):
            opened.search("w30", 3, where=where)
            opened.get(["id30"])
