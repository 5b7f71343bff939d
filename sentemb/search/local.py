"""An index in a folder: one database that processes share, and a vector index beside it that is a cache."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import shutil
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sentemb._files import settle, sha256_of
from sentemb.encoding.encoder import TextEncoder
from sentemb.errors import InputError
from sentemb.search.encoded import Progress
from sentemb.search.folder import (
    REBUILD,
    changing,
    disk_errors,
    new_database,
    read_pointer,
    readable,
    saving,
    write_pointer,
)
from sentemb.search.hybrid_weight import HybridWeight
from sentemb.search.keywords import VOCABULARY
from sentemb.search.manifest import Manifest
from sentemb.search.passages import Span
from sentemb.search.plan import Kind
from sentemb.search.snapshot import LocalSnapshot, Part, State, owners_of
from sentemb.search.store import (
    Capability,
    Changed,
    Prepare,
    documents_of,
)
from sentemb.search.vectors import VectorIndex
from sentemb.search.writer import (
    Writer,
    checksum_of,
    is_sealed,
    transaction,
    unseal,
    write_facts,
)

logger = logging.getLogger(__name__)

_IDLE = 8  # connections that are kept
_PATIENCE = 5  # times that a missing vector index is taken for one that was just replaced
# A view in the place of a table, or a trigger, can compute without end.
_STRANGE = "SELECT type, name FROM main.sqlite_master WHERE type IN ('view', 'trigger') LIMIT 1"
_STATE = "SELECT version, documents, vectors, chunked, truncated, skipped FROM state"
# Comparing with so many floats takes 0.3 ms on a core, as a search among 200,000 in a graph does.
_WRITTEN = 4_000_000
# A search looks at as many more as are deleted; at a fifth it takes a quarter longer.
_DELETED = 0.2


class _OutdatedError(Exception):
    """Another thread has seen a later state, or another process has replaced the vector index."""


class LocalStore:
    """An index folder that is open.

    Searching is safe from several threads. The database stays readable when another index replaces it.

    Args:
        folder: The folder.
        verify: Compare checksums first, which reads every byte once.

    Raises:
        InputError: There is no index, or it is damaged.
    """

    capabilities: frozenset[Capability] = frozenset({"compact_kind", "fields", "fit", "save", "unique_ids"})

    def __init__(self, folder: Path, *, verify: bool = False) -> None:
        self.folder = folder
        self.encoder: Callable[[], TextEncoder] | None = None
        """Loads the encoder of documents, where the index does not keep their vectors."""
        self._condition = threading.Condition()
        self._idle: list[sqlite3.Connection] = []
        self._state: State | None = None
        self._loading = threading.Lock()
        self._verifying = verify
        while True:  # until the folder is not replaced meanwhile
            self.database = read_pointer(folder)
            self._idle, self._state = [], None
            try:
                self._open()
                if verify:
                    self._verify()
                self._verifying = False
                return
            except BaseException as error:
                for connection in self._idle:
                    connection.close()
                damaged = isinstance(error, (InputError, FileNotFoundError))
                if not damaged or read_pointer(folder) == self.database:
                    raise

    @property
    def address(self) -> str:
        """The folder."""
        return str(self.folder)

    def documents_encoder(self) -> TextEncoder:
        """Return the encoder of documents."""
        if self.encoder is None:
            raise InputError(
                f"{self.folder} does not keep vectors, and its encoder is not known", "pass the encoder"
            )
        return self.encoder()

    def _open(self) -> None:
        connection = self._connect()
        self._idle.append(connection)
        with readable(self.database):
            strange = connection.execute(_STRANGE).fetchone()
            if strange is not None:
                raise InputError(
                    f"{self.database} contains the {strange[0]} {strange[1]}, which does not belong to an "
                    "index",
                    REBUILD,
                )
        with self.snapshot():
            pass

    def _connect(self) -> sqlite3.Connection:
        path = self.database
        # SQLite keeps a log beside what changes, and wants to write there to read it.
        has_log = path.with_name(f"{path.name}-wal").exists()
        if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
            try:
                return self._connected("rw")
            except OSError:  # the disk is full, so that nobody else can write either
                if has_log:
                    raise
        return self._connected("ro" if has_log else "ro&immutable=1")

    def _connected(self, mode: str) -> sqlite3.Connection:
        path = self.database
        with readable(path):
            uri = f"{path.absolute().as_uri()}?mode={mode}"
            connection = sqlite3.connect(
                uri, uri=True, check_same_thread=False, timeout=60, isolation_level=None
            )
            try:
                connection.execute(VOCABULARY)
                connection.execute("PRAGMA query_only=1")
                connection.execute(_STATE).fetchone()
            except BaseException:
                connection.close()
                raise
        return connection

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with self._condition:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            try:
                connection = self._connect()
            except InputError:
                if self.database.exists():
                    raise
                with self._condition:  # the file is gone: share the connections that have it open
                    self._condition.wait_for(lambda: self._idle)
                    connection = self._idle.pop()
        try:
            yield connection
        finally:
            with self._condition:
                if len(self._idle) < _IDLE:
                    self._idle.append(connection)
                    self._condition.notify()
                else:
                    connection.close()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[LocalSnapshot]:
        """Read one state, regardless of what others write meanwhile."""
        with self._connection() as connection:
            for attempt in itertools.count():
                with readable(self.database):
                    connection.execute("BEGIN")
                try:
                    state = self._current(connection, patient=attempt < _PATIENCE)
                    break
                except _OutdatedError:
                    connection.execute("ROLLBACK")
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
            try:
                with readable(self.database):
                    yield LocalSnapshot(self, connection, state)
            finally:
                connection.execute("ROLLBACK")

    def _current(self, connection: sqlite3.Connection, *, patient: bool) -> State:
        with readable(self.database):
            (version, *counts) = connection.execute(_STATE).fetchone()
        state = self._state
        if state is not None and state.version == version:
            return state
        with self._loading:
            state = self._state
            if state is not None and state.version == version:
                return state
            if state is not None and state.version > version:
                raise _OutdatedError
            with readable(self.database):
                self._state = self._next(state, connection, version, counts, patient=patient)
            return self._state

    def _next(
        self,
        before: State | None,
        connection: sqlite3.Connection,
        version: int,
        counts: Sequence[int],
        *,
        patient: bool,
    ) -> State:
        (text,) = connection.execute("SELECT facts FROM settings").fetchone()
        documents, vectors, chunked, truncated, skipped = counts
        facts = replace(
            Manifest.parse(text, self.database, self.folder),
            documents=documents,
            vectors=vectors,
            chunked=chunked,
            truncated=truncated,
            skipped=skipped,
        )
        if before is None or facts.cache != before.manifest.cache or (facts.cache and before.cache is None):
            cache = self._read_cache(facts, patient=patient)
            last = int(cache.numbers.max(initial=-1)) if cache is not None else -1
            place, alive, living = 0, None, 0 if cache is None else len(cache)
            owners = owners_of(cache)
            recent, rows = np.empty(0, dtype=np.int64), np.empty((0, facts.dimension), dtype=np.float32)
        else:
            cache, last, place, owners = before.cache, before.last, before.place, before.owners
            _, _, alive, living, recent, rows, _ = before.whole
        new, stored = [], []
        for number, vector in connection.execute(
            "SELECT id, vector FROM vectors WHERE id > ? ORDER BY id", (last,)
        ):
            new.append(number)
            stored.append(vector)
        if new:
            last = new[-1]
            read = unseal(stored, facts.dimension)
            if read is None:
                raise InputError(f"the vectors in {self.database} are damaged", REBUILD)
            recent, rows = np.concatenate([recent, new]), np.concatenate([rows, read])
        gone = connection.execute("SELECT place, number FROM deleted WHERE place > ?", (place,)).fetchall()
        if gone:
            place = max(one[0] for one in gone)
            numbers = np.array([number for _, number in gone], dtype=np.int64)
            dead = np.isin(owners, numbers)
            if dead.any():
                alive = ~dead if alive is None else alive & ~dead
                living = int(alive.sum())
            kept = ~np.isin(documents_of(recent), numbers)
            recent, rows = recent[kept], rows[kept]
        if living + len(recent) != vectors:
            raise InputError(f"{self.database} does not have exactly one vector per text", REBUILD)
        state = State(version, facts, cache, place, last, Part(documents, None, alive, living, recent, rows))
        state.__dict__["owners"] = owners
        return state

    def _read_cache(self, facts: Manifest, *, patient: bool) -> VectorIndex | None:
        """Map the vector index into memory; None where it has to be done without."""
        if not facts.cache:
            return None
        path = self.folder / facts.cache
        try:
            size = path.stat().st_size if path.is_file() else None
            if size is None:
                raise InputError(f"{path} is missing", REBUILD)
            if size != facts.cache_bytes:
                raise InputError(f"{path} has {size:,} bytes instead of {facts.cache_bytes:,}", REBUILD)
            if self._verifying and sha256_of(path) != facts.cache_sha256:  # faiss may crash on it
                raise InputError(f"{path} does not match its checksum", REBUILD)
            cache = VectorIndex.read(path, facts.kind, facts.effort)
            if (
                cache.dimension != facts.dimension
                or len(cache) != facts.cached
                or len(cache.numbers) != len(cache)
            ):
                raise InputError(f"{path} does not belong to {self.database}", REBUILD)
            return cache
        except InputError as error:
            if patient and not path.is_file():  # another process has just built a new one
                raise _OutdatedError from None
            if not facts.keeps_vectors:
                raise
            logger.warning(
                "%s, so every vector is compared; build it with `sentemb index compact %s`",
                error.message,
                self.folder,
            )
            return None

    def _verify(self) -> None:
        """Compare every byte of the database with its checksum, and the tables with each other."""
        with self.snapshot() as snapshot:
            facts, connection = snapshot.manifest, snapshot.connection
            sound = connection.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",)
            text, checksum = connection.execute("SELECT facts, checksum FROM settings").fetchone()
            sound = sound and zlib.crc32(text.encode()) == checksum
            stored = connection.execute("SELECT number, id, text, metadata, form, checksum FROM documents")
            sound = sound and all(_fits(row, snapshot.spans(row[0]) if row[4] else ()) for row in stored)
            rows = connection.execute("SELECT vector FROM vectors")
            sound = sound and all(is_sealed(row, facts.dimension) for (row,) in rows)
            chunks = snapshot.all_chunks()
            sound = sound and len(chunks) == facts.vectors and snapshot.chunks_are_known(chunks)
            (count,) = connection.execute("SELECT COUNT(*) FROM documents").fetchone()
            if not sound or count != facts.documents:
                raise InputError(f"{self.database} is damaged", REBUILD)

    def add(self, items: Iterable[Any], prepare: Prepare, *, replacing: bool) -> Changed:
        """Add documents, all or none; see `Store.add`."""
        with self._writing() as writer:
            for documents, vectors in prepare(writer.documents(items, replacing=replacing)):
                writer.put(documents, vectors)
            return writer.changed

    def delete(self, ids: Sequence[str | int]) -> int:
        """Delete documents in one step; see `Store.delete`."""
        with self._writing() as writer:
            return writer.delete(ids)

    def keep_weight(self, weight: HybridWeight | None) -> None:
        """Keep the fitted weights of hybrid search."""
        with self._changing() as connection:
            self._write_facts(connection, replace(self._facts(connection), hybrid=weight))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Writer]:
        with self._changing() as connection:
            writer = Writer(connection, self._facts(connection))
            yield writer
            writer.finish()

    @contextlib.contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self.alone(), transaction(self.database) as connection:
            yield connection

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Be the only writer, unless the folder has another index by now."""
        read_pointer(self.folder)  # a place without an index gets no lock
        with changing(self.folder):
            if read_pointer(self.folder) != self.database:
                raise InputError(
                    f"{self.folder} was replaced by another index after it was opened", "open it again"
                )
            yield

    def _facts(self, connection: sqlite3.Connection) -> Manifest:
        (text,) = connection.execute("SELECT facts FROM settings").fetchone()
        return Manifest.parse(text, self.database, self.folder)

    def _write_facts(self, connection: sqlite3.Connection, facts: Manifest) -> None:
        write_facts(connection, facts.dump(self.folder))
        connection.execute("UPDATE state SET version = version + 1")

    def info(self) -> dict[str, Any]:
        """Return how many vectors are not in the cache or deleted from it, and whether to compact."""
        with self.snapshot() as snapshot:
            whole, cache = snapshot.state.whole, snapshot.state.cache
            deleted = 0 if cache is None else len(cache) - whole.living
            floats = len(whole.recent) * snapshot.manifest.dimension
            pays = floats > _WRITTEN or deleted > _DELETED * max(1, 0 if cache is None else len(cache))
            return {"written": len(whole.recent), "deleted": deleted, "compaction_pays": pays}

    def compact(
        self,
        *,
        kind: Kind | Literal["auto"] | None = None,
        memory_budget: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Build the vector index of all documents, and give the space of deleted ones back."""
        from sentemb.search.compaction import compact

        with self.alone():
            compact(self, kind, memory_budget, progress or (lambda stage, done, total: None))

    def save(self, path: Path, *, overwrite: bool) -> None:
        """Copy the index to another folder; see `SearchIndex.save`."""
        with saving(path, overwrite=overwrite):
            self.copy_to(path)

    def copy_to(self, path: Path) -> None:
        """Make a copy the index of another folder; the caller is its only writer."""
        with self.snapshot() as snapshot:
            facts = snapshot.manifest
            if snapshot.state.cache is None:  # the copy has none either, and does not miss it
                facts = replace(facts, cache="", cache_bytes=0, cached=0)
            else:
                partial = path / ".vectors.partial"
                _copy(self.folder / facts.cache, partial, snapshot.state.cache)
                settle(partial, path / facts.cache)
            partial = path / ".index.partial"
            for left in path.glob(f"{partial.name}*"):  # by a kill; SQLite would add its log to the copy
                left.unlink()
            with contextlib.closing(sqlite3.connect(partial)) as copy, disk_errors(partial):
                copy.execute("PRAGMA journal_mode=OFF")  # a journal beside the copy would be left by a kill
                snapshot.connection.backup(copy)
                write_facts(copy, facts.dump(path))
                copy.commit()
            target = new_database(path)
            settle(partial, target)
            write_pointer(path, target)


def _fits(row: Sequence[Any], spans: Sequence[Span]) -> bool:
    _, identifier, text, metadata, form, checksum = row
    if not isinstance(text, str) or not isinstance(metadata, str | None) or bool(form) is not bool(spans):
        return False
    return bool(checksum_of(identifier, text, metadata, spans) == checksum)


def _copy(source: Path, target: Path, index: VectorIndex) -> None:
    """Copy a vector index, from memory where its file is gone."""
    try:
        shutil.copyfile(source, target)
    except FileNotFoundError:
        index.write(target)
