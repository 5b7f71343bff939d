from __future__ import annotations

import contextlib
import json
import random
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb._files import sha256_of
from sentemb.errors import InputError
from sentemb.search import SearchIndex, manifest
from sentemb.search.checks import sealed, unsealed
from sentemb.search.vectors import faiss
from tests.search.bag_of_words import BagOfWords

FLIPS = 300


@pytest.fixture
def living(tmp_path: Path, words: BagOfWords) -> tuple[SearchIndex, Path]:
    """An index with written vectors, metadata and tombstones, and its database."""
    folder = tmp_path / "index"
    SearchIndex.build([f"w{n}" for n in range(8)], words).save(folder)
    index = SearchIndex.load(folder, words)
    index.add([(f"id{n}", f"w{n} w{n + 1}", {"year": 2000 + n}) for n in range(20, 40)])
    index.delete([1, "id25"])
    return index, folder / str(index.manifest.living)


def answers(folder: Path) -> object:
    index = SearchIndex.load(folder, BagOfWords())
    by_words = [index.search(f"w{n}", 40, mode="keyword") for n in range(41)]
    return index.search(["w1 w2", "w30"], 40), index.search("w3", 9, where={"year": {">": 2030}}), by_words


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
        for log in path.parent.glob("living*-*"):
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
        "UPDATE documents SET text = 0 WHERE id = 'id30'",
        "UPDATE vectors SET vector = zeroblob(132) WHERE number = 12",
        "UPDATE vectors SET vector = CAST(substr(vector, 1, 131) || x'00' AS BLOB) WHERE number = 12",
        "UPDATE dead SET number = 2 WHERE number = 1",
        "UPDATE keywords_data SET block = x'1A2E' WHERE id = 1",
        "DELETE FROM keywords_docsize WHERE id = 12",
        "UPDATE keywords_idx SET pgno = pgno + 2",
        "UPDATE state SET next_text = 9",
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


def test_a_database_from_before_checksums_gets_them(living: tuple[SearchIndex, Path]) -> None:
    index, path = living
    change(
        path,
        "ALTER TABLE documents DROP COLUMN checksum",
        "UPDATE vectors SET vector = substr(vector, 1, 128)",
    )
    expected = answers(path.parent)
    index.add([("new", "w50 w51", {"year": 1990})])
    assert index.search("w50 w51", 1)[0].id == "new"
    change(path, "UPDATE documents SET metadata = NULL WHERE id = 'new'")
    with pytest.raises(InputError, match="is damaged"):
        answers(path.parent)
    change(path, """UPDATE documents SET metadata = '{"year": 1990}' WHERE id = 'new'""")
    index.delete(["new"])
    assert answers(path.parent) == expected
    index.compact()
    (documents,) = path.parent.glob("documents-*")
    connection = sqlite3.connect(documents)
    assert connection.execute("SELECT COUNT(checksum), COUNT(*) FROM documents").fetchone() == (26, 26)
    connection.close()


def test_a_vector_is_read_as_it_was_stored() -> None:
    vector = np.random.default_rng(1).standard_normal(6).astype(np.float32)
    stored = sealed(vector)
    assert unsealed(stored, 6) == vector.tobytes() == unsealed(vector.tobytes(), 6)
    for place in range(8 * len(stored)):
        damaged = bytearray(stored)
        damaged[place // 8] ^= 1 << place % 8
        assert unsealed(bytes(damaged), 6) is None
    assert unsealed(stored, 5) is None and unsealed(b"", 6) is None


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


LOOP = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)"


@pytest.mark.parametrize("table", ["texts", "vectors"])
def test_a_view_without_end_is_refused(living: tuple[SearchIndex, Path], table: str) -> None:
    _, path = living
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"ALTER TABLE {table} RENAME TO hidden")
        connection.execute(f"CREATE VIEW {table} AS {LOOP} SELECT n AS number, '' AS vector FROM c")
    with pytest.raises(InputError, match=f"contains the view {table}, which does not belong to an index"):
        SearchIndex.load(path.parent, BagOfWords(), verify=False)


def reseal(folder: Path, **changes: Any) -> None:
    """Write a manifest that fits the files of a folder, as an attacker would."""
    value = json.loads((folder / "manifest.json").read_text())
    number = value.pop("format")
    del value["checksum"]
    value |= changes
    vectors = value["files"]["vectors"]
    file = folder / vectors["name"]
    vectors |= {"bytes": file.stat().st_size, "sha256": sha256_of(file)}
    (folder / "manifest.json").write_text(manifest._sealed(value, number))


def test_another_kind_than_the_file_is_refused(tmp_path: Path, words: BagOfWords) -> None:
    folder = tmp_path / "index"
    SearchIndex.build([f"w{n}" for n in range(8)], words).save(folder)
    reseal(folder, kind="ivfpq")
    with pytest.raises(InputError, match="is not the ivfpq index that the manifest describes"):
        SearchIndex.load(folder, words)


def test_numbers_of_no_text_are_refused(tmp_path: Path, words: BagOfWords) -> None:
    folder = tmp_path / "index"
    SearchIndex.build([f"w{n}" for n in range(8)], words).save(folder)
    (file,) = folder.glob("vectors-*")
    index = faiss.read_index(str(file))
    numbers = faiss.vector_to_array(index.id_map)
    numbers[3] = 2**40
    faiss.copy_array_to_vector(numbers, index.id_map)
    faiss.write_index(index, str(file))
    reseal(folder)
    with pytest.raises(InputError, match="rows that do not belong to a text"):
        SearchIndex.load(folder, words).search("w3", 8)


def test_metadata_nested_too_deeply_is_refused(living: tuple[SearchIndex, Path]) -> None:
    index, path = living
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InputError, match="the metadata are nested too deeply"):
        index.add([("deep", "w1", {"x": deep})])
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE documents SET metadata = ?, checksum = NULL", ('{"x":' + "[" * 100_000,))
    opened = SearchIndex.load(path.parent, BagOfWords())
    for where in (None, {"x": 1}):
        with pytest.raises(InputError, match=r"the metadata in .* are damaged"):
            opened.search("w30", 3, where=where)
            opened.get(["id30"])


def test_metadata_keys_must_be_strings(living: tuple[SearchIndex, Path]) -> None:
    with pytest.raises(InputError, match=r"metadata key 1 is not a string"):
        living[0].add([("a", "w1", {1: "x"})])
