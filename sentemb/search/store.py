"""The documents on disk: texts are never all in memory."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sentemb.errors import InputError
from sentemb.search.documents import Document
from sentemb.search.keywords import VOCABULARY
from sentemb.search.prepared import Prepared, Span
from sentemb.search.rows import PASSAGES, SCHEMA, STORED_PASSAGES, WHOLE, digest_of, given_twice, insert
from sentemb.search.where import Where

# What an index from before there were passages has in their place.
_NO_PASSAGES = PASSAGES.format(temporary="TEMP", schema="temp.")
_PLACES = "CREATE TEMP TABLE places (id NOT NULL UNIQUE, location TEXT NOT NULL);"
_OWNERS = """
SELECT number FROM documents WHERE text = ?1 {meets}
UNION SELECT document FROM passages {documents} WHERE passages.text = ?1 {meets}
ORDER BY number LIMIT ?2
"""
_OWN = _OWNERS.format(meets="", documents="")
_OWN_AND_MEET = _OWNERS.format(
    meets="AND meets(documents.metadata)", documents="JOIN documents ON documents.number = passages.document"
)
# Most texts have one document, which one statement finds for all of them.
_ALONE = """
SELECT text, MIN(number) FROM documents WHERE text IN (SELECT value FROM json_each(?))
AND NOT EXISTS (SELECT 1 FROM passages WHERE passages.text = documents.text)
GROUP BY text HAVING COUNT(*) = 1
"""
_SPANS = """
SELECT start, stop, EXISTS (SELECT 1 FROM bodies WHERE bodies.document = passages.document)
FROM passages WHERE document = ? ORDER BY start
"""
_BY_NUMBER = f"{WHOLE} WHERE documents.number IN (SELECT value FROM json_each(?))"


# A view in the place of a table, or a trigger, can compute without end.
_STRANGE = "SELECT type, name FROM main.sqlite_master WHERE type IN ('view', 'trigger') LIMIT 1"
_NO_SPACE = {"SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE"}
_REBUILD = "build the index again"


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
    split: int = 0
    cut: int = 0


def write_store(path: Path, documents: Iterable[Prepared]) -> StoreCounts:
    """Stream documents into a new store file."""
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection, disk_errors(path):
        # A scratch file until it is copied into an index folder: no journal, no waiting for the disk.
        schema = f"{SCHEMA} {STORED_PASSAGES} {_PLACES}"
        connection.executescript(f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; {schema}")
        connection.execute("BEGIN")
        counts = _fill(connection, documents)
        connection.execute("COMMIT")
    return counts


def _fill(connection: sqlite3.Connection, documents: Iterable[Prepared]) -> StoreCounts:
    kept = texts = left_out = split = cut = 0
    for prepared in documents:
        document = prepared.document
        if not document.text.strip():
            left_out += 1
            continue
        try:
            texts += len(insert(connection.execute, prepared, kept, texts))
        except sqlite3.IntegrityError:
            places = connection.execute("SELECT location FROM places WHERE id = ?", (document.id,))
            raise given_twice(document, places.fetchone()[0]) from None
        connection.execute("INSERT INTO places VALUES (?, ?)", (document.id, document.location))
        kept += 1
        split += prepared.split
        cut += prepared.cut
    return StoreCounts(kept, texts, left_out, split, cut)


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
        if getattr(error, "sqlite_errorname", None) in _NO_SPACE:  # reading a living store writes beside it
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} ({error})", str(path)) from error
        raise InputError(
            f"the document database {path} cannot be read: {error}", "build the index again"
        ) from None


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
            strange = self._connection.execute(_STRANGE).fetchone()
            if strange is not None:
                raise InputError(
                    f"{path} contains the {strange[0]} {strange[1]}, which does not belong to an index",
                    _REBUILD,
                )
            self._connection.execute("SELECT 1 FROM texts, documents LIMIT 1").fetchone()
            self._connection.execute(VOCABULARY)
            self._before_passages = not self._has_passages()
            if self._before_passages:
                self._connection.executescript(_NO_PASSAGES)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """See one state, whatever others write meanwhile."""
        with readable(self.path), self._lock:
            nested = self._connection.in_transaction
            if not nested:
                self._connection.execute("BEGIN")
                if self._before_passages and self._has_passages():  # another process has made room for them
                    self._drop_stand_ins()
            try:
                yield self._connection
            finally:
                if not nested:
                    self._connection.execute("COMMIT")

    def _has_passages(self) -> bool:
        tables = self._connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = 'passages'")
        return tables.fetchone() is not None

    def _drop_stand_ins(self) -> None:
        self._connection.execute("PRAGMA query_only=0")
        for table in ("passages", "bodies"):
            self._connection.execute(f"DROP TABLE temp.{table}")
        self._connection.execute("PRAGMA query_only=1")
        self._before_passages = False

    def version(self) -> int:
        """The number of changes; a finished store never has any."""
        return 0

    def texts(self, start: int, stop: int) -> list[str]:
        """The unique texts by number."""
        query = "SELECT text FROM texts WHERE number >= ? AND number < ? ORDER BY number"
        with self.reading() as connection:
            return [text for (text,) in connection.execute(query, (start, stop))]

    def texts_of(self, numbers: Sequence[int]) -> list[str]:
        """The unique texts with some rising numbers."""
        query = "SELECT text FROM texts WHERE number IN (SELECT value FROM json_each(?)) ORDER BY number"
        with self.reading() as connection:
            return [text for (text,) in connection.execute(query, (json.dumps(list(numbers)),))]

    def document_numbers(self, ids: Iterable[str | int]) -> dict[str | int, int]:
        """The numbers of documents by their ids, without those that are not here."""
        query = "SELECT number FROM documents WHERE id = ?"
        with self.reading() as connection:
            rows = ((key, connection.execute(query, (key,)).fetchone()) for key in ids)
            return {key: row[0] for key, row in rows if row is not None}

    def numbers_of(self, texts: Sequence[str]) -> list[int]:
        """The numbers of texts that are here."""
        query = "SELECT number FROM texts WHERE digest = ?"
        with self.reading() as connection:
            return [connection.execute(query, (digest_of(text),)).fetchone()[0] for text in texts]

    def prepared(self, where: Where | None = None) -> Iterator[Prepared]:
        """All documents as they are indexed, or those that meet conditions, in the order they were given."""
        query = WHOLE if where is None else f"{WHOLE} WHERE meets(documents.metadata)"
        with self._asking(where) as connection:
            for number, text, key, extra in connection.execute(f"{query} ORDER BY documents.number"):
                document = Document(text, key, self._metadata(extra), f"document {key!r}")
                rows = connection.execute(_SPANS, (number,)).fetchall()
                spans = tuple(Span(start, stop) for start, stop, _ in rows)
                yield Prepared(document, spans, cut=bool(rows) and not rows[0][2])

    def get(self, identifier: str | int) -> Document | None:
        """The document with an id."""
        with self.reading() as connection:
            row = connection.execute(f"{WHOLE} WHERE documents.id = ?", (identifier,)).fetchone()
        return None if row is None else Document(row[1], identifier, self._metadata(row[3]))

    def texts_by_id(self, identifiers: Iterable[str | int]) -> list[int]:
        """The numbers of the texts of some documents."""
        found = []
        with self.reading() as connection:
            for identifier in identifiers:
                row = connection.execute("SELECT text FROM documents WHERE id = ?", (identifier,)).fetchone()
                if row is None:
                    raise InputError(f"the index does not contain a document with the id {identifier!r}")
                found.append(row[0])
        return found

    def owners(self, texts: Iterable[int], limit: int, where: Where | None = None) -> dict[int, list[int]]:
        """The numbers of the documents that have some texts, of each text the first `limit`.

        With conditions, each text is one of a document that meets them.
        """
        wanted = sorted(texts)  # in the order of the index, which takes half the time
        found: dict[int, list[int]] = {}
        query = _OWN if where is None else _OWN_AND_MEET
        with self._asking(where) as connection:
            rows = connection.execute(_ALONE, (json.dumps(wanted),))
            found = {text: [number] for text, number in rows}
            # One statement for those of many documents would number them all, and takes thrice the time.
            for text in wanted:
                if text not in found:
                    found[text] = [number for (number,) in connection.execute(query, (text, limit))]
        return found

    def by_number(self, numbers: Iterable[int]) -> dict[int, StoredDocument]:
        """Some documents by their numbers."""
        with self.reading() as connection:
            rows = connection.execute(_BY_NUMBER, (json.dumps(sorted(numbers)),)).fetchall()
        metadata = self._all_metadata([extra for *_, extra in rows])
        return {
            number: StoredDocument(key, text, extra)
            for (number, text, key, _), extra in zip(rows, metadata, strict=True)
        }

    def numbers_where(self, where: Where) -> tuple[list[int], list[int]]:
        """The numbers of the documents that meet conditions, and those of their texts, each once."""
        query = "SELECT number, text FROM documents WHERE meets(metadata)"
        with self._asking(where) as connection:
            meeting = dict(connection.execute(query).fetchall())
            rows = connection.execute("SELECT document, text FROM passages")
            further = {text for document, text in rows if document in meeting}
        return list(meeting), sorted(further | set(meeting.values()))

    def spans_of(self, passages: Iterable[tuple[int, int | None]]) -> dict[tuple[int, int | None], Span]:
        """Where texts lie in documents, given as numbers of a document and a text each; the first place."""
        query = "SELECT start, stop FROM passages WHERE document = ? AND text = ? ORDER BY start LIMIT 1"
        with self.reading() as connection:
            rows = ((pair, connection.execute(query, pair).fetchone()) for pair in passages)
            return {pair: Span(*row) for pair, row in rows if row is not None}

    @contextlib.contextmanager
    def _asking(self, where: Where | None) -> Iterator[sqlite3.Connection]:
        with self.reading() as connection:
            if where is not None:
                connection.create_function("meets", 1, where.matches, deterministic=True)
            yield connection

    def _all_metadata(self, extras: list[str | None]) -> list[dict[str, Any]]:
        """The metadata of several documents: read at once, which takes a fifth of the time."""
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            found = json.loads(f"[{','.join(extra or '{}' for extra in extras)}]")
            if len(found) == len(extras) and all(type(one) is dict for one in found):
                return list(found)
        return [self._metadata(extra) for extra in extras]

    def _metadata(self, extra: str | None) -> dict[str, Any]:
        try:
            return dict(json.loads(extra)) if extra else {}
        except (ValueError, TypeError, RecursionError):
            raise InputError(f"the metadata in {self.path} are damaged", "build the index again") from None

    def copy_to(self, path: Path) -> None:
        """Copy the store to a new file, also when its own has been removed in the meantime."""
        with contextlib.closing(sqlite3.connect(path)) as copy, disk_errors(path), self._lock:
            # A journal beside the copy would be left there by a kill.
            copy.execute("PRAGMA journal_mode=OFF")
            self._connection.backup(copy)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
