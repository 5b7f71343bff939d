from __future__ import annotations

import contextlib
import random
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.search import SearchIndex
from sentemb.search.folder import are_sealed, seal, unseal
from tests.search.bag_of_words import BagOfWords

FLIPS = 300


@pytest.fixture
def living(tmp_path: Path, words: BagOfWords) -> tuple[SearchIndex, Path]:
    """An index with written vectors, metadata and deleted documents, and its database."""
    folder = tmp_path / "index"
    SearchIndex.build([f"w{n}" for n in range(8)], words).save(folder)
    index = SearchIndex.load(folder, words)
    index.add([(f"id{n}", f"w{n} w{n + 1}", {"year": 2000 + n}) for n in range(20, 40)])
    index.delete([1, "id25"])
    return index, next(folder.glob("index-*.sqlite"))


def answers(folder: Path) -> object:
    index = SearchIndex.load(folder, BagOfWords())
    return index.search(["w1 w2", "w30"], 40), index.search("w3", 9, where={"year": {">": 2030}})


def test_a_flipped_bit_is_noticed_or_changes_nothing(living: tuple[SearchIndex, Path]) -> None:
    _, path = living
    expected, good = answers(path.parent), path.read_bytes()
    rng = random.Random(1)
    used = [place for place, byte in enumerate(good) if byte]  # most of the file is free space
    noticed = 0
    for _ in range(FLIPS):
        place = rng.choice(used)
        damaged = bytearray(good)
        damaged[place] ^= 1 << rng.randrange(8)
        for log in path.parent.glob("index-*.sqlite-*"):
            if log != path:
                log.unlink(missing_ok=True)
        path.write_bytes(damaged)
        try:
            assert answers(path.parent) == expected, place
        except InputError as error:
            assert str(path.parent) in str(error)
            noticed += 1
    assert noticed > FLIPS / 2


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


def test_a_vector_is_read_as_it_was_stored() -> None:
    vector = np.random.default_rng(1).standard_normal(6).astype(np.float32)
    stored = seal(vector)
    found = unseal([stored, stored], 6)
    assert found is not None and np.array_equal(found, np.stack([vector, vector]))
    assert unseal([stored], 5) is None and unseal([b""], 6) is None
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE vectors (id INTEGER PRIMARY KEY, vector BLOB)")
        database.execute("INSERT INTO vectors VALUES (7, ?)", (stored,))
        assert are_sealed(database, 6, None) and are_sealed(database, 6, np.array([7]))
        assert not are_sealed(database, 6, np.array([8])) and not are_sealed(database, 5, None)
        for place in range(8 * len(stored)):
            damaged = bytearray(stored)
            damaged[place // 8] ^= 1 << place % 8
            database.execute("UPDATE vectors SET vector = ?", (bytes(damaged),))
            assert not are_sealed(database, 6, None)


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


def test_metadata_keys_must_be_strings(living: tuple[SearchIndex, Path]) -> None:
    with pytest.raises(InputError, match=r"metadata key 1 is not a string"):
        living[0].add([("a", "w1", {1: "x"})])
