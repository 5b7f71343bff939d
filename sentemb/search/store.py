"""The documents on disk: texts are never all in memory."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sentemb.errors import InputError
from sentemb.search.checks import checksum_of
from sentemb.search.documents import Document
from sentemb.search.keywords import VOCABULARY
from sentemb.search.where import Where

# A text is kept once and owns one vector, whose number is the text's; documents point to it. The ids' column
# has no type, so that SQLite keeps the integer 1 and the string "1" apart.
_SCHEMA = """
CREATE TABLE texts (number INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, text TEXT NOT NULL);
CREATE TABLE documents (
    number INTEGER PRIMARY KEY, id NOT NULL UNIQUE, text INTEGER NOT NULL, metadata TEXT, checksum INTEGER
);
CREATE INDEX documents_of_text ON documents (text, number);
CREATE TEMP TABLE places (id NOT NULL UNIQUE, location TEXT NOT NULL);
"""
_OWNERS = "SELECT number FROM documents WHERE text = ? {} ORDER BY number LIMIT ?"
_BY_NUMBER = """
SELECT documents.number, documents.id, texts.text, documents.metadata
FROM documents JOIN texts ON texts.number = documents.text
WHERE documents.number IN (SELECT value FROM json_each(?))
"""

_ALL = """
SELECT documents.id, texts.text, documents.metadata
FROM documents JOIN texts ON texts.number = documents.text {} ORDER BY documents.number
"""
_BY_ID = """
SELECT texts.text, documents.metadata
FROM documents JOIN texts ON texts.number = documents.text WHERE documents.id = ?
"""


class StoredDocument(NamedTuple):
    """A document as it was given."""

    id: str | int
    text: str
    metadata: dict[str, Any]


class StoreCounts(NamedTuple):
    """What a store was filled with."""

    documents: int
    texts: int
    left_out: int


def write_store(path: Path, documents: Iterator[Document]) -> StoreCounts:
    """Stream documents into a new store file."""
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection, disk_errors(path):
        # A scratch file until it is copied into an index folder: no journal, no waiting for the disk.
        connection.executescript(f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; {_SCHEMA}")
        connection.execute("BEGIN")
        counts = _fill(connection, documents)
        connection.execute("COMMIT")
    return counts


def _fill(connection: sqlite3.Connection, documents: Iterator[Document]) -> StoreCounts:
    kept = texts = left_out = 0
    for document in documents:
        if not document.text.strip():
            left_out += 1
            continue
        digest = digest_of(document.text)
        row = (texts, digest, document.text)
        metadata = metadata_json(document)
        texts += connection.execute("INSERT OR IGNORE INTO texts VALUES (?, ?, ?)", row).rowcount
        try:
            connection.execute(
                "INSERT INTO documents VALUES (?, ?, (SELECT number FROM texts WHERE digest = ?), ?, ?)",
                (kept, document.id, digest, metadata, checksum_of(document.id, metadata, digest)),
            )
        except sqlite3.IntegrityError:
            places = connection.execute("SELECT location FROM places WHERE id = ?", (document.id,))
            raise given_twice(document, places.fetchone()[0]) from None
        connection.execute("INSERT INTO places VALUES (?, ?)", (document.id, document.location))
        kept += 1
    return StoreCounts(kept, texts, left_out)


def given_twice(document: Document, before: str) -> InputError:
    """The error of an id that two documents have."""
    return InputError(
        f"the id {document.id!r} occurs twice: {before} and {document.location}",
        "ids must be unique; choose another id column or none",
    )


def digest_of(text: str) -> bytes:
    """What a text is found by."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def metadata_json(document: Document) -> str | None:
    """A document's metadata as the store keeps it."""
    if not document.metadata:
        return None
    try:
        return json.dumps(dict(document.metadata), ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"{document.location}: metadata that JSON cannot hold: {error}") from None


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's own words for a full disk into the `OSError` that every other file gives."""
    try:
        yield
    except sqlite3.OperationalError as error:
        full = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
        code = errno.ENOSPC if full else errno.EIO
        raise OSError(code, f"{os.strerror(code)} ({error})", str(path)) from error


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Name the file that SQLite cannot make sense of."""
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter where it cannot say why
        raise InputError(f"{path} cannot be read as documents: {error}", "build the index again") from None


class DocumentStore:
    """Read access to a finished store; safe to use from several threads.

    One connection is opened at once and shared under a lock: the open file stays readable when the index is
    replaced in the meantime.
    """

    # No lock files beside the index, which may lie on a read-only medium.
    mode = "ro&immutable=1"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        with readable(path):
            uri = f"{path.absolute().as_uri()}?mode={self.mode}"
            self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False, timeout=60)
            self._connection.execute("SELECT 1 FROM texts, documents LIMIT 1").fetchone()
            self._connection.execute(VOCABULARY)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """See one state, whatever others write meanwhile."""
        with readable(self.path), self._lock:
            nested = self._connection.in_transaction
            if not nested:
                self._connection.execute("BEGIN")
            try:
                yield self._connection
            finally:
                if not nested:
                    self._connection.execute("COMMIT")

    def version(self) -> int:
        """The number of changes; a finished store never has any."""
        return 0

    def texts(self, start: int, stop: int) -> list[str]:
        """The unique texts by number."""
        query = "SELECT text FROM texts WHERE number >= ? AND number < ? ORDER BY number"
        with self.reading() as connection:
            return [text for (text,) in connection.execute(query, (start, stop))]

    def numbers_of(self, texts: Sequence[str]) -> list[int]:
        """The numbers of texts that are here."""
        query = "SELECT number FROM texts WHERE digest = ?"
        with self.reading() as connection:
            return [connection.execute(query, (digest_of(text),)).fetchone()[0] for text in texts]

    def documents(self, where: Where | None = None) -> Iterator[Document]:
        """All documents, or those that meet conditions, in the order they were given."""
        query = _ALL.format("" if where is None else "WHERE meets(documents.metadata)")
        with self._asking(where) as connection:
            for key, text, extra in connection.execute(query):
                yield Document(text, key, self._metadata(extra), f"document {key!r}")

    def get(self, identifier: str | int) -> Document | None:
        """The document with an id."""
        with self.reading() as connection:
            row = connection.execute(_BY_ID, (identifier,)).fetchone()
        return None if row is None else Document(row[0], identifier, self._metadata(row[1]))

    def texts_by_id(self, identifiers: Iterable[str | int]) -> list[int]:
        """The numbers of the texts of some documents."""
        found = []
        with self.reading() as connection:
            for identifier in identifiers:
                row = connection.execute("SELECT text FROM documents WHERE id = ?", (identifier,)).fetchone()
                if row is None:
                    raise InputError(f"the index has no document with the id {identifier!r}")
                found.append(row[0])
        return found

    def owners(self, texts: Iterable[int], limit: int, where: Where | None = None) -> dict[int, list[int]]:
        """The numbers of the documents that have some texts, of each text the first `limit`."""
        query = _OWNERS.format("" if where is None else "AND meets(metadata)")
        with self._asking(where) as connection:
            # One statement for all texts would number the documents of each, and takes thrice the time.
            return {
                text: [number for (number,) in connection.execute(query, (text, limit))] for text in texts
            }

    def by_number(self, numbers: Iterable[int]) -> dict[int, StoredDocument]:
        """Some documents by their numbers."""
        with self.reading() as connection:
            rows = connection.execute(_BY_NUMBER, (json.dumps(list(numbers)),)).fetchall()
        return {number: StoredDocument(key, text, self._metadata(extra)) for number, key, text, extra in rows}

    def numbers_where(self, where: Where) -> tuple[list[int], list[int]]:
        """The numbers of the documents that meet conditions, and those of their texts, each once."""
        query = "SELECT number, text FROM documents WHERE meets(metadata)"
        with self._asking(where) as connection:
            rows = connection.execute(query).fetchall()
        return [number for number, _ in rows], sorted({text for _, text in rows})

    @contextlib.contextmanager
    def _asking(self, where: Where | None) -> Iterator[sqlite3.Connection]:
        with self.reading() as connection:
            if where is not None:
                connection.create_function("meets", 1, where.matches, deterministic=True)
            yield connection

    def _metadata(self, extra: str | None) -> dict[str, Any]:
        try:
            return dict(json.loads(extra)) if extra else {}
        except (ValueError, TypeError):
            raise InputError(f"{self.path} has damaged metadata", "build the index again") from None

    def copy_to(self, path: Path) -> None:
        """Copy the store to a new file, also when its own has been removed in the meantime."""
        with contextlib.closing(sqlite3.connect(path)) as copy, disk_errors(path), self._lock:
            # A journal beside the copy would be left there by a kill.
            copy.execute("PRAGMA journal_mode=OFF")
            self._connection.backup(copy)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
