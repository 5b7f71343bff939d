"""An index in a folder: a database that processes share, and a vector index that serves as a cache."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sentemb._files import settle, sha256_of
from sentemb.encoding.encoder import TextEncoder
from sentemb.errors import InputError
from sentemb.search.documents import Progress, documents_of, normalize_for
from sentemb.search.folder import (
    DATABASE_ERRORS,
    REBUILD,
    Writer,
    changing,
    database_error,
    database_errors,
    is_sealed,
    new_database,
    read_pointer,
    saving,
    transaction,
    write_facts,
    write_pointer,
)
from sentemb.search.keywords import VOCABULARY
from sentemb.search.manifest import HybridWeight, Manifest
from sentemb.search.plan import Kind
from sentemb.search.snapshot import LocalSnapshot, Part, State, read_chunks, read_vectors
from sentemb.search.store import Capability, Changed, Prepare
from sentemb.search.vectors import Alive, VectorIndex

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
        self._loading = threading.Lock()
        self._verifying = verify
        while True:  # until the folder is not replaced meanwhile
            self.database = read_pointer(folder)
            self._idle: list[sqlite3.Connection] = []
            self._state: State | None = None
            self._facts: tuple[str, Manifest] | None = None
            try:
                with self.snapshot() as snapshot:
                    if verify:
                        self._verify(snapshot)
                self._verifying = False
                return
            except BaseException as error:
                for connection in self._idle:
                    connection.close()
                is_damaged = isinstance(error, (InputError, FileNotFoundError))
                if not is_damaged or read_pointer(folder) == self.database:
                    raise

    @property
    def address(self) -> str:
        """The folder."""
        return str(self.folder)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[LocalSnapshot]:
        """Read one state, regardless of concurrent writes."""
        connection = self._connect()
        try:
            attempt = 0
            while True:
                connection.execute("BEGIN")
                try:
                    state = self._current(connection, is_patient=attempt < _PATIENCE)
                    break
                except _OutdatedError:
                    connection.execute("ROLLBACK")
                    attempt += 1
            yield LocalSnapshot(self.database, connection, state, self.encoder)
        except DATABASE_ERRORS as error:
            raise database_error(error, self.database) from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if len(self._idle) < _IDLE:
                self._idle.append(connection)
            else:
                connection.close()

    def _connect(self) -> sqlite3.Connection:
        path = self.database
        while True:
            with contextlib.suppress(IndexError):
                return self._idle.pop()
            # SQLite keeps a log next to a database that changes, and needs write access there to read it.
            has_log = path.with_name(f"{path.name}-wal").exists()
            try:
                if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
                    with contextlib.suppress(OSError):  # the disk is full, so that nobody else can write
                        return self._connected("rw")
                return self._connected("ro" if has_log else "ro&immutable=1")
            except InputError:
                if path.exists() or self._state is None:
                    raise
            time.sleep(0.001)  # the file is gone: share the connections that have it open

    def _connected(self, mode: str) -> sqlite3.Connection:
        path = self.database
        with database_errors(path):
            uri = f"{path.absolute().as_uri()}?mode={mode}"
            connection = sqlite3.connect(
                uri, uri=True, check_same_thread=False, timeout=60, isolation_level=None
            )
            try:
                connection.execute(VOCABULARY)
                connection.execute("PRAGMA query_only=1")
                connection.execute(_STATE).fetchone()
                strange = connection.execute(_STRANGE).fetchone()
                if strange is not None:
                    kind, name = strange
                    raise InputError(
                        f"{path} contains the {kind} {name}, which does not belong to an index", REBUILD
                    )
            except BaseException:
                connection.close()
                raise
        return connection

    def _current(self, connection: sqlite3.Connection, *, is_patient: bool) -> State:
        version, *counts = connection.execute(_STATE).fetchone()
        state = self._state
        if state is not None and state.version == version:
            return state
        with self._loading:
            state = self._state
            if state is None or state.version < version:
                state = self._state = self._next(state, connection, version, counts, is_patient=is_patient)
            if state.version > version:
                raise _OutdatedError
            return state

    def _next(
        self,
        before: State | None,
        connection: sqlite3.Connection,
        version: int,
        counts: Sequence[int],
        *,
        is_patient: bool,
    ) -> State:
        names = ("documents", "vectors", "chunked", "truncated", "skipped")
        facts = replace(self.read_facts(connection), **dict(zip(names, counts, strict=True)))  # type: ignore[arg-type]
        if before is None or facts.cache != before.manifest.cache or (facts.cache and before.cache is None):
            cache = self._read_cache(facts, is_patient=is_patient)
            place, last, alive = 0, -1 if cache is None else cache.last, None
            recent, held = np.empty(0, dtype=np.int64), None
        else:
            cache, place, last, alive = before.cache, before.place, before.last, before.whole.alive
            recent, held = before.whole.recent, before.vectors
        new = np.array(
            connection.execute("SELECT id FROM vectors WHERE id > ? ORDER BY id", (last,)).fetchall(),
            dtype=np.int64,
        ).ravel()
        if len(new):
            last = int(new[-1])
            if held is not None:
                held = np.concatenate([held, read_vectors(connection, new, facts, self.database)])
            recent = np.concatenate([recent, new])
        gone = connection.execute("SELECT place, number FROM deleted WHERE place > ?", (place,)).fetchall()
        if gone:
            place = max(one[0] for one in gone)
            numbers = np.array([number for _, number in gone], dtype=np.int64)
            if cache is not None and (dead := np.isin(cache.owners, numbers)).any():
                alive = Alive(~dead if alive is None else alive.mask & ~dead)
            kept = ~np.isin(documents_of(recent), numbers)
            recent, held = recent[kept], None if held is None else held[kept]
        living = len(alive.places) if alive is not None else 0 if cache is None else len(cache)
        if living + len(recent) != facts.vectors:
            raise InputError(f"{self.database} does not have exactly one vector per text", REBUILD)
        whole = Part(facts.documents, None, alive, living, recent)
        return State(version, facts, cache, place, last, whole, held)

    def read_facts(self, connection: sqlite3.Connection) -> Manifest:
        """Return the facts of the index, without the counts of documents."""
        (text,) = connection.execute("SELECT facts FROM settings").fetchone()
        if self._facts is None or self._facts[0] != text:
            self._facts = text, Manifest.parse(text, self.database, self.folder)
        return self._facts[1]

    def _read_cache(self, facts: Manifest, *, is_patient: bool) -> VectorIndex | None:
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
            if cache.dimension != facts.dimension or len(cache) != facts.cached:
                raise InputError(f"{path} does not belong to {self.database}", REBUILD)
            return cache
        except InputError as error:
            if is_patient and not path.is_file():  # another process has just built a new one
                raise _OutdatedError from None
            if not facts.keeps_vectors:
                raise
            logger.warning(
                "%s, so every vector is compared; build it with `sentemb index compact %s`",
                error.message,
                self.folder,
            )
            return None

    def _verify(self, snapshot: LocalSnapshot) -> None:
        """Compare every byte of the database with its checksum, and the tables with each other."""
        facts, run = snapshot.manifest, snapshot.connection.execute
        text, checksum = run("SELECT facts, checksum FROM settings").fetchone()
        chunks = read_chunks(snapshot.connection)
        is_sound = (
            run("PRAGMA integrity_check(1)").fetchone() == ("ok",)
            and zlib.crc32(text.encode()) == checksum
            and len(chunks) == facts.vectors
            and snapshot.has_vectors_of(chunks)
            and run("SELECT COUNT(*) FROM documents").fetchone()[0] == facts.documents
            and all(map(snapshot.is_sound, run("SELECT * FROM documents")))
            and all(is_sealed(row, facts.dimension) for (row,) in run("SELECT vector FROM vectors"))
        )
        if not is_sound:
            raise InputError(f"{self.database} is damaged", REBUILD)

    def add(self, items: Iterable[Any], prepare: Prepare, *, replacing: bool) -> Changed:
        """Add documents, all or none; see `Store.add`."""
        with self.alone(), transaction(self.database) as connection:
            facts = self.read_facts(connection)
            writer = Writer(connection, facts)
            for documents, vectors in prepare(writer.documents(items, replacing=replacing)):
                writer.put(documents, normalize_for(facts.metric, vectors))
            writer.finish()
        return writer.changed

    def delete(self, ids: Sequence[str | int]) -> int:
        """Delete documents in one step; see `Store.delete`."""
        with self.alone(), transaction(self.database) as connection:
            writer = Writer(connection, self.read_facts(connection))
            deleted = writer.delete(ids)
            writer.finish()
        return deleted

    def keep_weight(self, weight: HybridWeight | None) -> None:
        """Keep the fitted weights of hybrid search."""
        with self.alone(), transaction(self.database) as connection:
            write_facts(connection, replace(self.read_facts(connection), hybrid=weight), self.folder)

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

    def info(self) -> dict[str, Any]:
        """Return how many vectors are not in the cache or deleted from it, and whether to compact."""
        with self.snapshot() as snapshot:
            whole, cache = snapshot.state.whole, snapshot.state.cache
            cached = 0 if cache is None else len(cache)
            floats = len(whole.recent) * snapshot.manifest.dimension
            pays = floats > _WRITTEN or cached - whole.living > _DELETED * max(1, cached)
            return {"written": len(whole.recent), "deleted": cached - whole.living, "compaction_pays": pays}

    def compact(
        self,
        *,
        kind: Kind | Literal["auto"] | None = None,
        memory_budget: int | None = None,
        progress: Progress,
    ) -> None:
        """Build the vector index of all documents, and give the space of deleted ones back."""
        from sentemb.search.building import compact

        with self.alone():
            compact(self, kind, memory_budget, progress)

    def save(self, path: Path, *, overwrite: bool) -> None:
        """Copy the index to another folder; see `SearchIndex.save`."""
        with saving(path, overwrite=overwrite):
            self.copy_to(path)

    def copy_to(self, path: Path) -> None:
        """Make a copy the index of another folder; the caller is its only writer."""
        with self.snapshot() as snapshot:
            facts, cache = snapshot.manifest, snapshot.state.cache
            if cache is None:  # the copy has none either, and does not miss it
                facts = replace(facts, cache="", cache_bytes=0, cached=0)
            else:
                partial = path / ".vectors.partial"
                try:
                    shutil.copyfile(self.folder / facts.cache, partial)
                except FileNotFoundError:
                    cache.write(partial)
                settle(partial, path / facts.cache)
            partial = path / ".index.partial"
            for left in path.glob(f"{partial.name}*"):  # by a kill; SQLite would add its log to the copy
                left.unlink()
            with contextlib.closing(sqlite3.connect(partial)) as copy, database_errors(partial, writes=True):
                copy.execute("PRAGMA journal_mode=OFF")  # a kill would leave a journal next to the copy
                snapshot.connection.backup(copy)
                write_facts(copy, facts, path)
                copy.commit()
            target = new_database(path)
            settle(partial, target)
            write_pointer(path, target)
