"""Changing the documents of an index: one transaction, which alone decides what is alive."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sentemb.data.documents import IDS_HINT
from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.search.chunks import ChunkedDocument
from sentemb.search.documents import LARGE_ID, Document, as_documents, next_free_id, next_id_after
from sentemb.search.folder import disk_errors, readable
from sentemb.search.keywords import add_keywords, delete_keywords
from sentemb.search.manifest import Manifest
from sentemb.search.store import MOST_CHUNKS, Changed, chunk_number
from sentemb.search.vectors import Numbers, normalize_for

# The ids' column has no type, so that SQLite keeps the integer 1 and the string "1" apart. Numbers are never
# used again and rise with the order of the documents, so that a reader fetches what is new. Those of deleted
# documents are listed until the vector index is built again, which has their vectors until then; places in
# that list are not used again either.
SCHEMA = """
CREATE TABLE documents (
    number INTEGER PRIMARY KEY, id NOT NULL UNIQUE, text TEXT NOT NULL, metadata TEXT,
    form INTEGER NOT NULL, checksum INTEGER NOT NULL
);
CREATE TABLE chunks (id INTEGER PRIMARY KEY, start INTEGER NOT NULL, stop INTEGER NOT NULL);
CREATE TABLE vectors (id INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE deleted (place INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL);
CREATE TABLE settings (facts TEXT NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE state (
    version INTEGER NOT NULL, next_number INTEGER NOT NULL, next_id INTEGER NOT NULL,
    documents INTEGER NOT NULL, vectors INTEGER NOT NULL, chunked INTEGER NOT NULL,
    truncated INTEGER NOT NULL, skipped INTEGER NOT NULL
);
INSERT INTO settings VALUES ('{}', 0);
INSERT INTO state VALUES (1, 1, 0, 0, 0, 0, 0, 0);
"""
WHOLE, CHUNKED, TRUNCATED = range(3)
"""Forms of a document: indexed as it is, in chunks, or as far as the model reads."""
_COUNTS = ("version", "next_number", "next_id", "documents", "vectors", "chunked", "truncated", "skipped")
# Ids of this call, with their places.
_SCRATCH = "CREATE TEMP TABLE places (id NOT NULL UNIQUE, location TEXT NOT NULL)"
_INTEGER_IDS = f"""
SELECT MAX(id) AS id FROM documents WHERE typeof(id) = 'integer' AND id < {LARGE_ID}
UNION ALL SELECT id FROM documents WHERE typeof(id) = 'integer' AND id >= {LARGE_ID} ORDER BY id
"""
FLOAT = np.dtype("<f4")
_CHECKSUM = 4  # bytes

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def transaction(database: Path) -> Iterator[sqlite3.Connection]:
    """Change a database in one transaction, which is on the disk when this ends."""
    connection = sqlite3.connect(database, isolation_level=None, timeout=60)
    with contextlib.closing(connection), readable(database), disk_errors(database):
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")
        merge_log(connection, database)


def write_facts(connection: sqlite3.Connection, facts: str) -> None:
    """Write what `Manifest.dump` returned, with its checksum."""
    connection.execute("UPDATE settings SET facts = ?, checksum = ?", (facts, zlib.crc32(facts.encode())))


def merge_log(connection: sqlite3.Connection, database: Path) -> None:
    """Move the write-ahead log into the database, where no reader needs it."""
    try:
        # Do not wait for readers. What they keep in the log is moved by a later change.
        connection.executescript("PRAGMA busy_timeout=0; PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.OperationalError as error:
        # The change is on the disk. Reporting it as failed would make the caller repeat it.
        logger.warning(
            "%s: the change is saved, but its write-ahead log could not be merged (%s); the next change "
            "retries this",
            database,
            error,
        )


class Writer:
    """The changes of one transaction.

    Args:
        connection: The database, in the transaction.
        facts: Of the index.
        complete: Whether documents come with their vectors and are found by words at once; a build adds both
            later.
    """

    def __init__(self, connection: sqlite3.Connection, facts: Manifest, *, complete: bool = True) -> None:
        self._run = connection.execute
        self._connection = connection
        self._metric = facts.metric
        self._complete = complete
        self._has_keywords = complete and facts.has_keywords
        self._run(_SCRATCH)
        row = self._run(f"SELECT {', '.join(_COUNTS)} FROM state").fetchone()
        self._counts = dict(zip(_COUNTS, row, strict=True))
        if self._counts["next_id"] > LARGE_ID:
            ids = self._run(_INTEGER_IDS)
            used = (row[0] for row in ids if row[0] is not None)
            self._counts["next_id"] = next_free_id(used, self._counts["next_id"])
        self._done = dict.fromkeys(("added", "replaced", "skipped", "chunked", "truncated"), 0)

    @property
    def changed(self) -> Changed:
        """What was done so far."""
        return Changed(**self._done)

    def documents(self, items: Iterable[Any], *, replacing: bool) -> Iterator[Document]:
        """Yield what a call is given as documents with ids.

        Args:
            items: As for `SearchIndex.add`.
            replacing: Whether ids may be in the index, and must be given.

        Yields:
            The documents.

        Raises:
            InputError: An id occurs twice, or is in the index and must not be.
        """
        for document in as_documents(items, first=None if replacing else self._counts["next_id"]):
            self._claim(document)
            if not replacing and document.text.strip() and self._number_of(document.id) is not None:
                raise InputError(
                    f"{document.location}: the id {document.id!r} is already in the index",
                    "use update to replace the document",
                )
            yield document

    def put(self, documents: Sequence[ChunkedDocument], vectors: Vectors) -> None:
        """Insert documents in the place of those with their ids.

        Args:
            documents: The documents; a blank one removes the one with its id.
            vectors: A vector for each of their texts, (n, dim).
        """
        chunks: list[int] = []
        for one in documents:
            chunks += self.insert(one)
        self.put_vectors(np.array(chunks, dtype=np.int64), vectors)

    def insert(self, chunked: ChunkedDocument) -> list[int]:
        """Insert a document without its vectors; return the numbers of its chunks, none of a blank one."""
        document, spans = chunked.document, chunked.spans
        known = self._complete and self._remove(document.id)
        if not document.text.strip():
            self._done["skipped"] += 1
            self._counts["skipped"] += 1
            return []
        if len(spans) > MOST_CHUNKS:
            raise InputError(
                f"{document.location}: the text has {len(spans):,} chunks, but at most {MOST_CHUNKS:,} fit",
                "split it into several documents",
            )
        number = self._counts["next_number"]
        self._counts["next_number"] += 1
        metadata = metadata_json(document)
        form = CHUNKED if chunked.chunked else TRUNCATED if chunked.truncated else WHOLE
        checksum = checksum_of(document.id, document.text, metadata, spans)
        row = (number, document.id, document.text, metadata, form, checksum)
        self._run("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?)", row)
        for part, (start, stop) in enumerate(spans):
            self._run("INSERT INTO chunks VALUES (?, ?, ?)", (chunk_number(number, part), start, stop))
        if self._has_keywords:
            add_keywords(self._connection, number, document.text)
        self._done["replaced" if known else "added"] += 1
        self._done["chunked"] += form == CHUNKED
        self._done["truncated"] += form == TRUNCATED
        parts = len(spans) if form == CHUNKED else 1
        self._count(1, parts, form)
        return [chunk_number(number, part) for part in range(parts)]

    def put_vectors(self, chunks: Numbers, vectors: Vectors) -> None:
        """Insert the vectors of chunks, (n, dim)."""
        if len(chunks) != len(vectors):
            raise InputError(f"there are {len(vectors):,} vectors for {len(chunks):,} texts")
        if len(chunks):
            rows = normalize_for(self._metric, vectors)
            sealed = zip(chunks.tolist(), map(seal, rows), strict=True)
            self._connection.executemany("INSERT INTO vectors VALUES (?, ?)", sealed)

    def delete(self, ids: Iterable[str | int]) -> int:
        """Delete documents; return how many of the ids existed."""
        return sum(self._remove(identifier) for identifier in ids)

    def finish(self) -> None:
        """Let readers know."""
        self._counts["version"] += 1
        names = ", ".join(f"{name} = :{name}" for name in _COUNTS)
        self._run(f"UPDATE state SET {names}", self._counts)
        self._run("DROP TABLE places")

    def _claim(self, document: Document) -> None:
        try:
            self._run("INSERT INTO places VALUES (?, ?)", (document.id, document.location))
        except sqlite3.IntegrityError:
            before = self._run("SELECT location FROM places WHERE id = ?", (document.id,)).fetchone()[0]
            raise repeated_id(document, before) from None
        if isinstance(document.id, int):
            self._counts["next_id"] = next_id_after(document.id, self._counts["next_id"])

    def _number_of(self, identifier: str | int | None) -> int | None:
        row = self._run("SELECT number FROM documents WHERE id = ?", (identifier,)).fetchone()
        return None if row is None else int(row[0])

    def _remove(self, identifier: str | int | None) -> bool:
        query = "SELECT number, text, form FROM documents WHERE id = ?"
        found = self._run(query, (identifier,)).fetchone()
        if found is None:
            return False
        number, text, form = found
        if self._has_keywords:
            delete_keywords(self._connection, number, text)
        first, last = chunk_number(number, 0), chunk_number(number + 1, 0) - 1
        parts = 1
        if form != WHOLE:
            gone = self._run("DELETE FROM chunks WHERE id BETWEEN ? AND ?", (first, last)).rowcount
            parts = gone if form == CHUNKED else 1
        self._run("DELETE FROM vectors WHERE id BETWEEN ? AND ?", (first, last))
        self._run("DELETE FROM documents WHERE number = ?", (number,))
        self._run("INSERT INTO deleted (number) VALUES (?)", (number,))
        self._count(-1, -parts, form)
        return True

    def _count(self, documents: int, vectors: int, form: int) -> None:
        self._counts["documents"] += documents
        self._counts["vectors"] += vectors
        self._counts["chunked"] += documents * (form == CHUNKED)
        self._counts["truncated"] += documents * (form == TRUNCATED)


def repeated_id(document: Document, before: str) -> InputError:
    """Return the error of an id that two documents have."""
    return InputError(f"the id {document.id!r} occurs twice: in {before} and {document.location}", IDS_HINT)


def metadata_json(document: Document) -> str | None:
    """Return a document's metadata as the store keeps it."""
    if not document.metadata:
        return None
    if odd := [name for name in document.metadata if not isinstance(name, str)]:
        raise InputError(
            f"{document.location}: the metadata key {odd[0]!r} is not a string", "convert it to a string"
        )
    try:
        # SQLite finds fields by their names as they are written.
        text = json.dumps(dict(document.metadata), ensure_ascii=False, allow_nan=False)
        text.encode()
        return text
    except UnicodeEncodeError:  # half a surrogate pair
        return json.dumps(dict(document.metadata), ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{document.location}: the metadata cannot be written as JSON: {error}") from None


def digest_of(text: str) -> bytes:
    """Return what a text is recognized by."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def seal(vector: Vectors) -> bytes:
    """Return a vector (dim,) as the database keeps it: its numbers, and their checksum."""
    numbers = vector.astype(FLOAT, copy=False).tobytes()
    return numbers + zlib.crc32(numbers).to_bytes(_CHECKSUM, "little")


def unseal(rows: Sequence[bytes], dimension: int) -> Vectors | None:
    """Return stored vectors as an array (n, dim); None if one does not have the right length."""
    size = FLOAT.itemsize * dimension + _CHECKSUM
    if any(not isinstance(row, bytes) or len(row) != size for row in rows):
        return None
    joined = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), size)
    vectors: Vectors = np.ascontiguousarray(joined[:, :-_CHECKSUM]).view(FLOAT)
    return vectors


def is_sealed(row: Any, dimension: int) -> bool:
    """Return whether a stored vector is as it was written."""
    size = FLOAT.itemsize * dimension
    return (
        isinstance(row, bytes)
        and len(row) == size + _CHECKSUM
        and zlib.crc32(row[:size]).to_bytes(_CHECKSUM, "little") == row[size:]
    )


def checksum_of(
    identifier: str | int | None, text: str, metadata: str | None, spans: Iterable[Sequence[int]]
) -> int:
    """Return the checksum of a document and of where its chunks are."""
    rest = f"{identifier!r} {metadata} {[tuple(span) for span in spans]}"
    return zlib.crc32(text.encode(), zlib.crc32(rest.encode()))
