"""The index folder on disk: the old index or the new one, regardless of when a process is killed.

index/
├─ manifest.json              names the database; replaced last and in one step
├─ index-….sqlite             documents, chunks, vectors, keywords and facts; the only truth
└─ vectors-….faiss            the vector index of what was there when it was built; a cache

A new index in the folder gets a database of another name, so that processes which have the old one open keep
it. What the manifest does not name was left by a kill and is removed by the next writer.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import secrets
import shutil
import sqlite3
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from sentemb._files import check_writable, held, write_text
from sentemb._uris import refuse_uri
from sentemb.data.documents import IDS_HINT
from sentemb.data.words import document_text
from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.search.documents import (
    MOST_CHUNKS,
    ChunkedDocument,
    Document,
    Numbers,
    as_documents,
    chunk_number,
    metadata_json,
    next_id_after,
)
from sentemb.search.manifest import Manifest
from sentemb.search.store import Changed, known_id

logger = logging.getLogger(__name__)

NAME = "manifest.json"
FORMAT = 7
WORK = ".compacting"
SHARDS = "shard-*.arrow"
REBUILD = "build the index again"
_LOCK = ".lock"
_DATABASE = re.compile(r"index-[0-9a-f]{16}\.sqlite")
_OURS = re.compile(
    r"(vectors-[0-9a-f]{16}\.faiss|index-[0-9a-f]{16}\.sqlite(-wal|-shm|-journal)?|\.lock"
    r"|\.(vectors|index|manifest).*\.partial(-wal|-shm|-journal)?|\.compacting)"
    # What earlier versions wrote, which an index in their place removes.
    r"|(documents|living)-[0-9a-f]{16}\.sqlite(-wal|-shm|-journal)?|adapter-[0-9a-f]{16}\.npy"
)
_NO_SPACE = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHM")

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
_CHUNKS = f"""
SELECT number << 20 AS id FROM documents WHERE form <> {CHUNKED}
UNION ALL SELECT chunks.id FROM chunks JOIN documents ON documents.number = chunks.id >> 20
WHERE documents.form = {CHUNKED} ORDER BY 1
"""
_TEXTS = f"""
SELECT documents.text, documents.form = {CHUNKED}, chunks.start, chunks.stop FROM json_each(?) AS chosen
JOIN documents ON documents.number = chosen.value >> 20 LEFT JOIN chunks ON chunks.id = chosen.value
ORDER BY chosen.value
"""
SOME = "IN (SELECT value FROM json_each(?))"
_COUNTS = ("version", "next_number", "next_id", "documents", "vectors", "chunked", "truncated", "skipped")
# Ids of this call, with their places.
_SCRATCH = "CREATE TEMP TABLE places (id NOT NULL UNIQUE, location TEXT NOT NULL)"
_FLOAT = np.dtype("<f4")
_CHECKSUM = 4  # bytes
_SOUND = 0x2144DF1C  # the CRC of anything that ends with its own


def is_index(path: str | Path) -> bool:
    """Return whether a folder has an index."""
    return (Path(path) / NAME).is_file()


def read_pointer(folder: Path) -> Path:
    """Return the database of an index folder, which exists and is of this version."""
    database = _named(folder)
    while not database.is_file():
        before, database = database, _named(folder)
        if database == before:  # the folder was not replaced meanwhile
            raise InputError(f"{database} is missing", REBUILD)
    return database


def _named(folder: Path) -> Path:
    path = folder / NAME
    try:
        value = json.loads(path.read_bytes())
        found, name = value["format"], value.get("database")
    except FileNotFoundError:
        message = f"{folder} is not an index: {NAME} is missing"
        raise InputError(message, "build one with `sentemb index build`") from None
    except NotADirectoryError:
        raise InputError(f"{folder} is a file, not an index folder") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{path} is not the manifest of an index", REBUILD) from None
    if found != FORMAT:
        is_newer = isinstance(found, int) and found > FORMAT
        raise InputError(
            f"{path} has the format {found!r}, but this version of sentemb reads format {FORMAT}",
            "update sentemb, or build the index again" if is_newer else REBUILD,
        )
    if not isinstance(name, str) or not _DATABASE.fullmatch(name):
        raise InputError(f"{path} does not name the database of an index", REBUILD)
    return folder / name


def write_pointer(folder: Path, database: Path) -> None:
    """Make a database the index of a folder, in one step."""
    write_text(folder / NAME, json.dumps({"format": FORMAT, "database": database.name}, indent=2) + "\n")


def new_database(folder: Path) -> Path:
    """Return a path for the database of a new index, which no index ever had."""
    return folder / f"index-{secrets.token_hex(8)}.sqlite"


def check_output(path: Path, *, overwrite: bool) -> None:
    """Raise InputError, before any work is done, if no index can be saved in a place."""
    refuse_uri(path)
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file", "choose another output folder")
    if is_index(path):
        if not overwrite:
            raise InputError(f"{path} already contains an index", "pass --overwrite to replace it")
    elif path.exists() and (others := [one.name for one in path.iterdir() if not _OURS.fullmatch(one.name)]):
        raise InputError(
            f"{path} is not empty and not an index: it contains {others[0]}", "choose another output folder"
        )
    check_writable(path)


@contextlib.contextmanager
def changing(path: Path) -> Iterator[None]:
    """Be the only writer of a folder; afterwards nothing is left of what failed or was killed."""
    if not os.access(path, os.W_OK | os.X_OK):
        raise InputError(f"{path} is not writable", "change its permissions, or copy the index")
    with FileLock(path / _LOCK):
        try:
            yield
        finally:
            _sweep(path)


@contextlib.contextmanager
def saving(path: Path, *, overwrite: bool) -> Iterator[None]:
    """Put an index into a folder: one process at a time, and a new folder goes with a failure."""
    check_output(path, overwrite=overwrite)
    is_new = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    try:
        with changing(path):
            check_output(path, overwrite=overwrite)  # another process may have saved meanwhile
            yield
    except BaseException:
        if is_new and not is_index(path):
            with contextlib.suppress(OSError):  # another process has begun to save here
                path.rmdir()
        raise


def bytes_on_disk(path: Path) -> int:
    """Return the size of an index folder."""
    return sum(one.stat().st_size for one in path.iterdir() if one.name == NAME or _OURS.fullmatch(one.name))


@contextlib.contextmanager
def database_errors(path: Path, *, writes: bool = False) -> Iterator[None]:
    """Name the file that SQLite cannot make sense of, or cannot write, as where the disk is full."""
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter where SQLite cannot say why
        name = str(getattr(error, "sqlite_errorname", None))
        # Reading may write the log.
        if name.startswith(_NO_SPACE) or (writes and isinstance(error, sqlite3.OperationalError)):
            code = errno.ENOSPC if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")) else errno.EIO
            raise OSError(code, f"{os.strerror(code)} ({error})", str(path)) from error
        raise InputError(f"the database {path} cannot be read: {error}", REBUILD) from error


@contextlib.contextmanager
def building(folder: Path) -> Iterator[Path]:
    """Keep other processes out of a work folder; the same thread may enter it again."""
    busy = f"another process is building in {folder}"
    with held(folder / "lock", busy, "wait until it has finished", reentrant=True):
        yield folder


@contextlib.contextmanager
def work_folder(
    path: Path, announce: Callable[[str], object], *, output: Path | None = None
) -> Iterator[Path]:
    """Yield a locked folder: what is encoded outlives a failure, nothing outlives a success.

    `announce` is called with a sentence where encoded texts are kept. An interruption after the index was
    written to `output` is one of a success.
    """

    def pointer() -> bytes:
        return (output / NAME).read_bytes() if output is not None and is_index(output) else b""

    before = pointer()
    with building(path):
        try:
            yield path
        except BaseException:
            if any(path.glob(SHARDS)) and pointer() == before:
                announce(f"encoded texts are kept in {path}; run the same command again to resume the build")
            else:
                shutil.rmtree(path, ignore_errors=True)
            raise
        shutil.rmtree(path, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Remove our files that the index does not name; readers that have them open keep them."""
    kept: set[str] = set()
    if is_index(folder):
        try:
            database = read_pointer(folder)
            cache = _read(database, "SELECT json_extract(facts, '$.cache') FROM settings")
            kept |= {cache, *(database.name + log for log in ("", "-wal", "-shm", "-journal"))}
        except (InputError, OSError):  # damaged: what it needs cannot be known, so nothing is removed
            return
    for child in folder.iterdir():
        if not _OURS.fullmatch(child.name) or child.name in kept:
            continue
        if child.is_dir():
            shutil.rmtree(child, ignore_errors=True)
        else:
            child.unlink(missing_ok=True)


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of an index folder without the counts of documents, and without verifying it."""
    database = read_pointer(folder)
    return Manifest.parse(_read(database, "SELECT facts FROM settings"), database, folder)


def _read(database: Path, query: str) -> Any:
    is_writable = os.access(database, os.W_OK) and os.access(database.parent, os.W_OK)
    uri = f"{database.absolute().as_uri()}?mode={'rw' if is_writable else 'ro'}"
    with database_errors(database), contextlib.closing(sqlite3.connect(uri, uri=True, timeout=60)) as one:
        return one.execute(query).fetchone()[0]


@contextlib.contextmanager
def transaction(database: Path) -> Iterator[sqlite3.Connection]:
    """Change a database in one transaction, which is on the disk when this ends."""
    connection = sqlite3.connect(database, isolation_level=None, timeout=60)
    with contextlib.closing(connection), database_errors(database, writes=True):
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")
        try:
            merge_log(connection)
        except sqlite3.OperationalError as error:
            # The change is on the disk. Reporting it as failed would make the caller repeat it.
            logger.warning(
                "%s: the change is saved, but its write-ahead log could not be merged (%s); the next change "
                "retries this",
                database,
                error,
            )


def merge_log(connection: sqlite3.Connection) -> None:
    """Move the write-ahead log into the database. What readers keep in it is moved by a later change."""
    connection.executescript("PRAGMA busy_timeout=0; PRAGMA wal_checkpoint(TRUNCATE)")


def write_facts(connection: sqlite3.Connection, facts: Manifest, folder: Path) -> None:
    """Write the facts of an index with their checksum, and let readers know."""
    text = facts.dump(folder)
    connection.execute("UPDATE settings SET facts = ?, checksum = ?", (text, zlib.crc32(text.encode())))
    connection.execute("UPDATE state SET version = version + 1")


class Writer:
    """The changes of one transaction.

    Args:
        connection: The database, in the transaction.
        has_keywords: Whether to keep the terms of documents; a build adds them later.
    """

    def __init__(self, connection: sqlite3.Connection, *, has_keywords: bool = True) -> None:
        self._run, self._has_keywords = connection.execute, has_keywords
        self._run(_SCRATCH)
        row = self._run(f"SELECT {', '.join(_COUNTS)} FROM state").fetchone()
        self._counts = dict(zip(_COUNTS, row, strict=True))
        self._done: Counter[str] = Counter()
        self._was_empty = self._counts["documents"] == 0  # ids of one call differ anyway

    @property
    def changed(self) -> Changed:
        """Counts of the changes so far."""
        return Changed(*(self._done[name] for name in Changed._fields))

    def documents(self, items: Iterable[Any], *, replacing: bool) -> Iterator[Document]:
        """Yield items as documents with new ids; `replacing` allows ids that the index already has."""
        for document in as_documents(items, first=None if replacing else self._counts["next_id"]):
            claim = "INSERT OR IGNORE INTO places VALUES (?, ?)"
            if not self._run(claim, (document.id, document.location)).rowcount:
                before = self._run("SELECT location FROM places WHERE id = ?", (document.id,)).fetchone()[0]
                message = f"the id {document.id!r} occurs twice: in {before} and {document.location}"
                raise InputError(message, IDS_HINT)
            if isinstance(document.id, int):
                self._counts["next_id"] = next_id_after(document.id, self._counts["next_id"])
            if not replacing and document.text.strip() and self._find(document.id) is not None:
                raise known_id(document)
            yield document

    def insert(self, chunked: ChunkedDocument) -> list[int]:
        """Put a document, without its vectors, in the place of the one with its id.

        Return the numbers of its chunks, none of a blank one.
        """
        document, spans = chunked.document, chunked.spans
        is_known = self.remove(document.id)
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
            terms = (number, document_text(document.text))
            self._run("INSERT INTO keywords (rowid, text) VALUES (?, ?)", terms)
        parts = len(spans) if form == CHUNKED else 1
        self._done["replaced" if is_known else "added"] += 1
        self._count(self._done, 1, parts, form)
        self._count(self._counts, 1, parts, form)
        return [chunk_number(number, part) for part in range(parts)]

    def finish(self) -> None:
        """Let readers know."""
        self._counts["version"] += 1
        self._run(f"UPDATE state SET {', '.join(f'{name} = :{name}' for name in _COUNTS)}", self._counts)
        self._run("DROP TABLE places")

    def _find(self, identifier: str | int | None) -> Any:
        if self._was_empty:
            return None
        query = "SELECT number, text, form FROM documents WHERE id = ?"
        return self._run(query, (identifier,)).fetchone()

    def remove(self, identifier: str | int | None) -> bool:
        """Delete the document with an id; return whether there was one."""
        found = self._find(identifier)
        if found is None:
            return False
        number, text, form = found
        if self._has_keywords:
            forget = "INSERT INTO keywords (keywords, rowid, text) VALUES ('delete', ?, ?)"
            self._run(forget, (number, document_text(text)))
        bounds = chunk_number(number, 0), chunk_number(number + 1, 0) - 1
        spans = self._run("DELETE FROM chunks WHERE id BETWEEN ? AND ?", bounds).rowcount
        self._run("DELETE FROM vectors WHERE id BETWEEN ? AND ?", bounds)
        self._run("DELETE FROM documents WHERE number = ?", (number,))
        self._run("INSERT INTO deleted (number) VALUES (?)", (number,))
        self._count(self._counts, -1, -spans if form == CHUNKED else -1, form)
        return True

    def _count(self, counts: dict[str, int], documents: int, vectors: int, form: int) -> None:
        counts["documents"] += documents
        counts["vectors"] += vectors
        counts["chunked"] += documents * (form == CHUNKED)
        counts["truncated"] += documents * (form == TRUNCATED)


def put_vectors(connection: sqlite3.Connection, chunks: Numbers, vectors: Vectors) -> None:
    """Insert the vectors of chunks, (n, dim), as they are compared."""
    if len(chunks) != len(vectors):
        raise InputError(f"there are {len(vectors):,} vectors for {len(chunks):,} texts")
    plain = (vector.astype(_FLOAT, copy=False).tobytes() for vector in vectors)
    sealed = (numbers + zlib.crc32(numbers).to_bytes(_CHECKSUM, "little") for numbers in plain)
    rows = zip(chunks.tolist(), sealed, strict=True)
    connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)


def read_chunks(connection: sqlite3.Connection) -> Numbers:
    """Return the numbers of all chunks of a database, rising."""
    try:
        return np.fromiter((number for (number,) in connection.execute(_CHUNKS)), dtype=np.int64)
    except TypeError as error:
        raise sqlite3.DatabaseError("a chunk has no number") from error


def read_texts(connection: sqlite3.Connection, chunks: Numbers) -> list[str]:
    """Return the texts of chunks, whose numbers rise."""
    rows = connection.execute(_TEXTS, (str(chunks.tolist()),))
    return [text[start:stop] if has_spans else text for text, has_spans, start, stop in rows]


def read_vectors(connection: sqlite3.Connection, chunks: Numbers, facts: Manifest, database: Path) -> Vectors:
    """Return the vectors (n, dim) of chunks from a database, whose numbers rise."""
    query = f"SELECT vector FROM vectors WHERE id {SOME} ORDER BY id"
    rows = [row for (row,) in connection.execute(query, (str(chunks.tolist()),))]
    size = _FLOAT.itemsize * facts.dimension + _CHECKSUM
    if len(rows) != len(chunks) or any(not isinstance(row, bytes) or len(row) != size for row in rows):
        raise InputError(f"the vectors in {database} are damaged", REBUILD)
    joined = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), size)
    vectors: Vectors = np.ascontiguousarray(joined[:, :-_CHECKSUM]).view(_FLOAT)
    return vectors


def are_sealed(connection: sqlite3.Connection, dimension: int, chunks: Numbers | None) -> bool:
    """Return whether stored vectors are as they were written, and those of some chunks if given."""
    size = _FLOAT.itemsize * dimension + _CHECKSUM
    rows = connection.execute("SELECT id, vector FROM vectors ORDER BY id")
    try:
        found = [number if zlib.crc32(row) == _SOUND and len(row) == size else -1 for number, row in rows]
    except TypeError:  # a text
        return False
    return np.array_equal(found, chunks) if chunks is not None else -1 not in found


def checksum_of(
    identifier: str | int | None, text: str, metadata: str | None, spans: Iterable[Sequence[int]]
) -> int:
    """Return the checksum of a document and of where its chunks are."""
    rest = f"{identifier!r} {metadata} {list(map(tuple, spans))}"
    return zlib.crc32(text.encode(), zlib.crc32(rest.encode()))
