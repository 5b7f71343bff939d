"""The documents of an index that changes, with the vectors that are not in its faiss file yet."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.search.checks import FLOAT, checksum_of, unsealed
from sentemb.search.documents import LARGE_ID, next_free_id
from sentemb.search.keyword_checks import keywords_fit
from sentemb.search.manifest import Manifest
from sentemb.search.rows import STORED_PASSAGES, digest_of
from sentemb.search.store import DocumentStore, disk_errors
from sentemb.search.vectors import Numbers

# A text that no document has any more is gone from `texts`, and its number is in `dead`: a tombstone, where
# the faiss file has it. Numbers are never used again and places among the dead only rise, so that a reader
# fetches what is new.
_SCHEMA = """
CREATE TABLE vectors (number INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE dead (place INTEGER PRIMARY KEY, number INTEGER NOT NULL);
CREATE TABLE state (version INTEGER, next_text INTEGER, next_id INTEGER, left_out INTEGER);
"""
# Of documents that were stored before there were checksums, only their texts are known.
_CHECKSUMS = """
SELECT documents.id, documents.metadata, texts.digest, bodies.text, documents.checksum
FROM documents LEFT JOIN texts ON texts.number = documents.text
LEFT JOIN bodies ON bodies.document = documents.number WHERE documents.checksum IS NOT NULL
"""
_PASSAGES = """
SELECT passages.start, passages.stop, texts.text, bodies.text
FROM passages LEFT JOIN texts ON texts.number = passages.text
LEFT JOIN bodies ON bodies.document = passages.document
"""
# Rows of tables that contradict each other.
_ASTRAY = """
SELECT 1 FROM dead JOIN texts USING (number)
UNION ALL SELECT 1 FROM vectors WHERE number NOT IN (SELECT number FROM texts)
UNION ALL SELECT 1 FROM documents WHERE text NOT IN (SELECT number FROM texts)
UNION ALL SELECT 1 FROM texts
    WHERE number NOT IN (SELECT text FROM documents UNION SELECT text FROM passages)
UNION ALL SELECT 1 FROM passages WHERE document NOT IN (SELECT number FROM documents)
UNION ALL SELECT 1 FROM bodies WHERE document NOT IN (SELECT document FROM passages)
UNION ALL SELECT 1 FROM state, texts WHERE texts.number >= state.next_text
UNION ALL SELECT 1 FROM dead WHERE typeof(number) != 'integer'
UNION ALL SELECT 1 FROM state WHERE typeof(version) || typeof(next_text) || typeof(next_id)
    || typeof(left_out) != 'integerintegerintegerinteger'
UNION ALL SELECT 1 FROM state, dead WHERE dead.number >= state.next_text
LIMIT 1
"""
_INTEGER_IDS = f"""
SELECT MAX(id) AS id FROM documents WHERE typeof(id) = 'integer' AND id < {LARGE_ID}
UNION ALL SELECT id FROM documents WHERE typeof(id) = 'integer' AND id >= {LARGE_ID} ORDER BY id
"""


class Changes(NamedTuple):
    """What a living store has come to, and what is new in it."""

    version: int
    documents: int
    texts: int
    left_out: int
    split: int
    cut: int
    place: int
    dead: Numbers
    numbers: Numbers
    vectors: Vectors


def write_living(path: Path, manifest: Manifest, copy_to: Callable[[Path], None]) -> None:
    """Make a living store of a finished one."""
    copy_to(path)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection, disk_errors(path):
        connection.execute("PRAGMA synchronous=OFF")  # it is written out before it gets its name
        connection.executescript(_SCHEMA)
        make_room(connection)
        state = (1, manifest.vectors, free_id(connection, manifest.next_id), manifest.left_out)
        connection.execute("INSERT INTO state VALUES (?, ?, ?, ?)", state)


def free_id(connection: sqlite3.Connection, stored: int) -> int:
    """Return the next automatic id, as `next_free_id` does."""
    rows = connection.execute(_INTEGER_IDS)
    return next_free_id((row[0] for row in rows if row[0] is not None), stored)


def make_room(connection: sqlite3.Connection) -> None:
    """Make room for checksums and passages of documents in a database from before there were any."""
    if not _has_checksums(connection):
        connection.execute("ALTER TABLE documents ADD COLUMN checksum INTEGER")
    for statement in STORED_PASSAGES.split(";"):
        connection.execute(statement)


def _has_checksums(connection: sqlite3.Connection) -> bool:
    return ("checksum",) in connection.execute("SELECT name FROM pragma_table_info('documents')")


class LivingStore(DocumentStore):
    """Read access to documents while another connection changes them."""

    def __init__(self, path: Path) -> None:
        # SQLite keeps a log beside what changes, and wants to write there to read it.
        if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
            self.mode = "rw"
        elif path.with_name(f"{path.name}-wal").exists():
            self.mode = "ro"
        super().__init__(path)
        with self.reading() as connection:
            connection.execute("PRAGMA query_only=1")
            if connection.execute("SELECT COUNT(*) FROM state").fetchone() != (1,):
                raise InputError(f"{path} is not the database of an index", "build the index again")

    def version(self) -> int:
        """The number of changes so far."""
        with self.reading() as connection:
            return int(connection.execute("SELECT version FROM state").fetchone()[0])

    def next_id(self) -> int:
        """The id of the next document that is given without one."""
        with self.reading() as connection:
            return int(connection.execute("SELECT next_id FROM state").fetchone()[0])

    def changes(self, *, number: int, place: int, dimension: int) -> Changes:
        """What was changed after a place among the dead, and the vectors from a number on."""
        with self.reading() as connection:
            version, left_out = connection.execute("SELECT version, left_out FROM state").fetchone()
            documents, texts, split = (
                connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]
                for table in ("documents", "texts", "bodies")
            )
            (long,) = connection.execute("SELECT COUNT(DISTINCT document) FROM passages").fetchone()
            dead = connection.execute("SELECT place, number FROM dead WHERE place > ?", (place,)).fetchall()
            query = "SELECT number, vector FROM vectors WHERE number >= ? ORDER BY number"
            rows = connection.execute(query, (number,)).fetchall()
        stored = [unsealed(vector, dimension) for _, vector in rows]
        if None in stored:
            raise InputError(f"the vectors in {self.path} are damaged", "build the index again")
        return Changes(
            version,
            documents,
            texts,
            left_out,
            split,
            long - split,
            dead[-1][0] if dead else place,
            np.array([row[1] for row in dead], dtype=np.int64),
            np.array([row[0] for row in rows], dtype=np.int64),
            np.frombuffer(b"".join(filter(None, stored)), dtype=FLOAT).reshape(-1, dimension),
        )

    def verify(self) -> None:
        """Compare texts with their digests, documents with their checksums and the tables with each other."""
        with self.reading() as connection:
            sound = connection.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",)
            texts = connection.execute("SELECT digest, text FROM texts")
            sound = sound and all(type(text) is str and digest_of(text) == digest for digest, text in texts)
            sound = sound and connection.execute(_ASTRAY).fetchone() is None
            if sound and _has_checksums(connection):
                sound = all(_fits(*row) for row in connection.execute(_CHECKSUMS))
            sound = sound and all(_lies(*row) for row in connection.execute(_PASSAGES))
            sound = sound and keywords_fit(connection)
            if not sound:
                raise InputError(f"{self.path} is damaged", "build the index again")


def _fits(
    identifier: str | int, metadata: str | None, digest: bytes | None, body: str | None, checksum: int
) -> bool:
    if digest is None or not isinstance(body, str | None):
        return False
    return checksum_of(identifier, metadata, digest if body is None else digest_of(body)) == checksum


def _lies(start: int, stop: int, text: str | None, body: str | None) -> bool:
    """Whether a passage is where it is said to be; of a text that the model cuts it is the beginning."""
    if not (isinstance(start, int) and isinstance(stop, int) and isinstance(text, str)):
        return False
    return text == body[start:stop] if body is not None else start == 0 < stop <= len(text)
