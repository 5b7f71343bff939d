"""An index in a folder: a database that processes share, and a vector index that serves as a cache."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sentemb._files import settle, sha256_of
from sentemb.encoding.encoder import TextEncoder, Vectors, for_role
from sentemb.errors import InputError
from sentemb.search.documents import (
    ChunkedDocument,
    Document,
    Numbers,
    Progress,
    chunk_number,
    documents_of,
    encode_checked,
    normalize_for,
)
from sentemb.search.folder import (
    REBUILD,
    SOME,
    TRUNCATED,
    Writer,
    are_sealed,
    changing,
    checksum_of,
    database_errors,
    new_database,
    put_vectors,
    read_chunks,
    read_pointer,
    read_texts,
    read_vectors,
    saving,
    transaction,
    write_facts,
    write_pointer,
)
from sentemb.search.keywords import VOCABULARY, Keywords, QueryTerms
from sentemb.search.manifest import Abstention, HybridWeight, Manifest
from sentemb.search.passages import Span
from sentemb.search.store import Changed, Fetched, Prepare, Ranked
from sentemb.search.vectors import MOST_EQUAL, Alive, VectorIndex, nearest, nearest_documents
from sentemb.search.where import Field, Where, read_fields, stored_types

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
_FILTERS = 16  # whose matches are kept, a byte for each vector and document
_HELD = 64_000_000  # floats of vectors that are not in the cache and are kept once a search has read them
_KEPT = 16_000_000  # characters of documents
_COLUMNS = "number, id, text, metadata, form"


class Part(NamedTuple):
    """The documents and vectors of a state that meet a filter."""

    documents: int
    mask: NDArray[np.bool_] | None  # which documents, by their numbers; None for all
    alive: Alive | None  # which vectors of the cache; None for all
    living: int  # number of these vectors
    recent: Numbers  # numbers of the chunks that are not in the cache, rising


@dataclass(eq=False)
class State:
    """The part of one version of the database that is in memory."""

    version: int
    manifest: Manifest
    cache: VectorIndex | None
    place: int  # up to where the deleted documents are known
    last: int  # the largest number of a chunk that is known
    whole: Part
    vectors: Vectors | None  # of `whole.recent`; None until a search reads them, or if they are too many
    parts: dict[str, Part] = field(default_factory=dict)
    keywords: Keywords = field(default_factory=Keywords)


class _OutdatedError(Exception):
    """Another thread has seen a later state, or another process has replaced the vector index."""


class _LocalSnapshot:
    """One state of a folder, in a transaction that reads what is not in memory.

    `Snapshot` describes its methods.
    """

    def __init__(self, store: LocalStore, connection: sqlite3.Connection, state: State) -> None:
        self._store, self.connection, self.state = store, connection, state
        self.manifest = state.manifest

    def count(self, where: Where | None) -> int:
        return self._part(where).documents

    def types_of(self, field: str) -> set[type | None]:
        return stored_types(self.connection, field)

    def _part(self, where: Where | None) -> Part:
        state = self.state
        if where is None:
            return state.whole
        part = state.parts.get(where.key)
        if part is None:
            found = where.numbers(self.connection)
            mask = np.zeros(max(found, default=-1) + 2, dtype=np.bool_)  # the last one stands for all others
            mask[found] = True
            _, _, alive, living, recent = state.whole
            if state.cache is not None:
                met = mask[np.minimum(state.cache.owners, len(mask) - 1)]
                alive = Alive(met if alive is None else met & alive.mask)
                living = len(alive.places)
            recent = recent[mask[np.minimum(documents_of(recent), len(mask) - 1)]]
            part = Part(len(found), mask, alive, living, recent)
            if len(state.parts) >= _FILTERS:
                state.parts.clear()
            state.parts[where.key] = part
        return part

    def candidates(
        self, queries: Vectors, k: int, min_score: float | None, where: Where | None
    ) -> list[list[Ranked]]:
        part, cache, facts = self._part(where), self.state.cache, self.manifest
        k, total = min(k, part.documents), part.living + len(part.recent)
        # As many chunks as so many documents have on average, and more where a few documents have them all.
        expected = -(-k * total // max(1, part.documents))
        patience = total
        if cache is not None and cache.kind != "flat":
            patience = MOST_EQUAL + expected if cache.keeps_vectors else 0

        def find(some: Vectors, count: int) -> tuple[Vectors, Numbers]:
            return nearest(some, count, cache, part.alive, part.recent, self.vectors, facts.rescored)

        return nearest_documents(queries, k, min_score, expected, total, patience, find)

    def vectors(self, chunks: Numbers) -> Vectors:
        state, cache = self.state, self.state.cache
        split = 0 if cache is None else int(np.searchsorted(chunks, cache.last, side="right"))
        early, late = chunks[:split], chunks[split:]
        parts = []
        if cache is not None and split:
            if cache.keeps_vectors:
                parts.append(cache.vectors[cache.places(early)])
            elif state.manifest.keeps_vectors:
                parts.append(self.stored(early))
            else:
                vectors = encode_checked(self.documents_encoder(), self.texts(early))
                parts.append(normalize_for(state.manifest.metric, vectors))
        if len(late) or not split:
            held, size = state.vectors, len(state.whole.recent) * state.manifest.dimension
            if held is None and size <= _HELD:
                held = state.vectors = self.stored(state.whole.recent)
            recent = self.stored(late) if held is None else held[np.searchsorted(state.whole.recent, late)]
            parts.append(recent)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def documents_encoder(self) -> TextEncoder:
        """Return the encoder of documents."""
        if self._store.encoder is None:
            place = self._store.folder
            raise InputError(
                f"{place} does not keep vectors, and its encoder is not known", "pass the encoder"
            )
        return for_role(self._store.encoder(), "document")

    def stored(self, chunks: Numbers) -> Vectors:
        """Return the vectors (n, dim) of chunks from the database, whose numbers rise."""
        return read_vectors(self.connection, chunks, self.manifest, self._store.database)

    def keyword(
        self, queries: Sequence[QueryTerms], k: int, min_score: float | None, where: Where | None
    ) -> list[list[Ranked]]:
        mask = self._part(where).mask
        least = -np.inf if min_score is None else min_score
        found = (self.state.keywords.rank(self.connection, query, k, mask) for query in queries)
        return [[Ranked(*pair) for pair in pairs if pair[0] >= least] for pairs in found]

    def coverage(self, query: QueryTerms, documents: Numbers) -> tuple[NDArray[np.float64], float]:
        return self.state.keywords.coverage(self.connection, query, documents)

    def fetch(self, ranked: Iterable[Sequence[Ranked]]) -> Fetched:
        hits = [hit for row in ranked for hit in row]
        rows = self._documents({hit.document for hit in hits})
        metadata = self._metadata([row[3] for row in rows])
        documents = {row[0]: (row[1], row[2], extra) for row, extra in zip(rows, metadata, strict=True)}
        if not any(row[4] for row in rows):
            return Fetched(documents, {})
        chunks = str(list({hit.chunk for hit in hits if hit.chunk is not None}))
        spans = self.connection.execute(f"SELECT id, start, stop FROM chunks WHERE id {SOME}", (chunks,))
        return Fetched(documents, {number: Span(start, stop) for number, start, stop in spans})

    def _documents(self, numbers: set[int]) -> list[Any]:
        """Return the rows of documents, which searches keep: a number stands for the same one for ever."""
        kept = self._store.documents
        rows = [row for row in map(kept.get, numbers) if row is not None]
        if len(rows) < len(numbers):
            new = str(list(numbers.difference(row[0] for row in rows)))
            query = f"SELECT {_COLUMNS} FROM documents WHERE number {SOME}"
            found = self.connection.execute(query, (new,)).fetchall()
            self._store.keep_documents(found)
            rows += found
        return rows

    def numbers_of(self, ids: Iterable[str | int]) -> dict[str | int, int]:
        query = "SELECT number FROM documents WHERE id = ?"
        rows = ((key, self.connection.execute(query, (key,)).fetchone()) for key in ids)
        return {key: row[0] for key, row in rows if row is not None}

    def chunks(self) -> Numbers:
        return read_chunks(self.connection)

    def texts(self, chunks: Numbers) -> list[str]:
        return read_texts(self.connection, chunks)

    def rows(self, where: Where | None = None) -> Iterator[ChunkedDocument]:
        chosen = "1" if where is None else f"number {SOME}"
        parameters = [] if where is None else [str(where.numbers(self.connection))]
        query = f"SELECT {_COLUMNS} FROM documents WHERE {chosen} ORDER BY number"
        for number, key, text, metadata, form in self.connection.execute(query, parameters):
            (fields,) = self._metadata([metadata])
            document = Document(text, key, fields, f"document {key!r}")
            yield ChunkedDocument(document, self.spans(number) if form else (), form == TRUNCATED)

    def fields(self) -> tuple[Field, ...]:
        return read_fields(self.connection)

    def spans(self, number: int) -> tuple[Span, ...]:
        """Return where the chunks of a document are."""
        bounds = chunk_number(number, 0), chunk_number(number + 1, 0) - 1
        query = "SELECT start, stop FROM chunks WHERE id BETWEEN ? AND ? ORDER BY id"
        return tuple(Span(*row) for row in self.connection.execute(query, bounds))

    def _metadata(self, extras: list[str | None]) -> list[dict[str, Any]]:
        """Read the metadata of several documents at once, which takes a fifth of the time."""
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(f"[{','.join([extra or '{}' for extra in extras])}]")
            if len(found) == len(extras) and all(type(one) is dict for one in found):
                return list(found)
        raise InputError(f"the metadata in {self._store.database} are damaged", REBUILD)


class LocalStore:
    """An index folder that is open.

    Searching is safe from several threads. The database stays readable when another index replaces it.

    Args:
        folder: The folder.
        verify: Compare checksums first, which reads every byte once.

    Raises:
        InputError: There is no index, or it is damaged.
    """

    def __init__(self, folder: Path, *, verify: bool = False) -> None:
        self.folder = folder
        self.encoder: Callable[[], TextEncoder] | None = None
        """Loads the encoder, where the index does not keep the vectors of its documents."""
        self.documents: dict[int, Any] = {}
        """Rows of documents that searches have read, by number."""
        self._characters = 0  # of these
        self._loading = threading.Lock()
        self._verifying = verify
        while True:  # until the folder is not replaced meanwhile
            self.database = read_pointer(folder)
            self._idle: list[sqlite3.Connection] = []
            self._state: State | None = None
            self._facts: tuple[str, Manifest] | None = None
            self._unusable = ""  # name of a vector index that was found to be damaged
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
    def snapshot(self) -> Iterator[_LocalSnapshot]:
        """Read one state, regardless of concurrent writes."""
        connection = self._connect()
        try:
            with database_errors(self.database):
                attempt = 0
                while True:
                    connection.execute("BEGIN")
                    try:
                        state = self._current(connection, is_patient=attempt < _PATIENCE)
                        break
                    except _OutdatedError:
                        connection.execute("ROLLBACK")
                        attempt += 1
                yield _LocalSnapshot(self, connection, state)
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if len(self._idle) < _IDLE:
                self._idle.append(connection)
            else:
                connection.close()

    def keep_documents(self, rows: list[Any]) -> None:
        """Keep rows of documents for further searches, but no earlier ones if they become too many."""
        characters = sum(len(row[2]) + len(row[3] or "") for row in rows)
        self._characters += characters
        if self._characters > _KEPT:
            self.documents, self._characters = {}, characters
        self.documents.update((row[0], row) for row in rows)

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
        uri = f"{self.database.absolute().as_uri()}?mode={mode}"
        with database_errors(self.database), contextlib.ExitStack() as stack:
            connection = sqlite3.connect(
                uri, uri=True, check_same_thread=False, timeout=60, isolation_level=None
            )
            stack.callback(connection.close)
            connection.execute(VOCABULARY)
            connection.execute("PRAGMA query_only=1")
            connection.execute(_STATE).fetchone()
            for kind, name in connection.execute(_STRANGE):
                what = f"{self.database} contains the {kind} {name}, which does not belong to an index"
                raise InputError(what, REBUILD)
            stack.pop_all()
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
        unread = before is None or (before.cache is None and facts.cache not in ("", self._unusable))
        if before is None or unread or facts.cache != before.manifest.cache:
            cache = self._read_cache(facts, is_patient=is_patient)
            place, last, alive = 0, -1 if cache is None else cache.last, None
            recent, held = np.empty(0, dtype=np.int64), None
        else:
            cache, place, last, alive = before.cache, before.place, before.last, before.whole.alive
            recent, held = before.whole.recent, before.vectors
        rows = connection.execute("SELECT id FROM vectors WHERE id > ? ORDER BY id", (last,))
        new = np.fromiter((number for (number,) in rows), dtype=np.int64)
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
        if not facts.cache or facts.cache == self._unusable:
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
            self._unusable = facts.cache  # a later, unverified look at it would find it usable
            logger.warning(
                "%s, so every vector is compared; build it with `sentemb index compact %s`",
                error.message,
                self.folder,
            )
            return None

    def _verify(self, snapshot: _LocalSnapshot) -> None:
        """Compare every byte of the database with its checksum, and the tables with each other."""
        facts, run, whole = snapshot.manifest, snapshot.connection.execute, snapshot.state.whole
        text, checksum = run("SELECT facts, checksum FROM settings").fetchone()
        chunks, cache = snapshot.chunks(), snapshot.state.cache
        cached = cache.numbers[whole.alive.places if whole.alive else ...] if cache else whole.recent[:0]
        found = np.sort(np.concatenate([whole.recent, cached]))
        is_sound = (
            run("PRAGMA integrity_check(1)").fetchone() == ("ok",)
            and zlib.crc32(text.encode()) == checksum
            and np.array_equal(found, chunks)
            and are_sealed(snapshot.connection, facts.dimension, chunks if facts.keeps_vectors else None)
        )
        documents = 0
        with contextlib.suppress(AttributeError):  # a text that is not one
            for number, key, text, metadata, form, checksum in run("SELECT * FROM documents"):
                spans = snapshot.spans(number) if form else ()
                is_sound &= checksum_of(key, text, metadata, spans) == checksum
                documents += bool(form) is bool(spans)
        if not is_sound or documents != facts.documents:
            raise InputError(f"{self.database} is damaged", REBUILD)

    def add(self, items: Iterable[Any], prepare: Prepare, *, replacing: bool) -> Changed:
        """Add documents, all or none; see `Store.add`."""
        with self.alone(), transaction(self.database) as connection:
            facts = self.read_facts(connection)
            writer = Writer(connection)
            for documents, vectors in prepare(writer.documents(items, replacing=replacing)):
                chunks = [chunk for one in documents for chunk in writer.insert(one)]
                put_vectors(connection, np.array(chunks, np.int64), normalize_for(facts.metric, vectors))
            writer.finish()
        return writer.changed

    def delete(self, ids: Sequence[str | int]) -> int:
        """Delete documents in one step; see `Store.delete`."""
        with self.alone(), transaction(self.database) as connection:
            writer = Writer(connection)
            deleted = sum(map(writer.remove, ids))
            writer.finish()
        return deleted

    def keep(self, **fitted: HybridWeight | Abstention | None) -> bool:
        """Keep fitted fields of the manifest."""
        with self.alone(), transaction(self.database) as connection:
            write_facts(connection, replace(self.read_facts(connection), **fitted), self.folder)  # type: ignore[arg-type]
        return True

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

    def compact(self, progress: Progress) -> None:
        """Build the vector index of all documents, and give the space of deleted ones back."""
        from sentemb.search.building import compact

        with self.alone():
            compact(self, progress)

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
