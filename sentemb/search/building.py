"""From documents to an index folder, with bounded memory."""

from __future__ import annotations

import contextlib
import datetime
import logging
import shutil
import sqlite3
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict, Unpack

import faiss
import numpy as np

from sentemb import __version__
from sentemb.encoding.encoder import TextEncoder, Vectors, for_role
from sentemb.errors import InputError
from sentemb.search import encoded as shards
from sentemb.search.cache import build_cache, calibration_of, place_cache
from sentemb.search.chunks import OVERLAP, ChunkedDocument, Truncate
from sentemb.search.documents import Document
from sentemb.search.encoded import SHARDS, EncodedTexts, Progress, encode_to_shards
from sentemb.search.folder import building, disk_errors, new_database, write_pointer
from sentemb.search.keywords import AUTO, check_language, create_keywords
from sentemb.search.local import LocalStore
from sentemb.search.manifest import EncoderFacts, Manifest, Recall
from sentemb.search.plan import IndexPlan, Kind, Metric, format_bytes, plan_index
from sentemb.search.rescoring import Rescore, check_choices, encodes_again, metric_of
from sentemb.search.vectors import Numbers, VectorIndex, normalize_for
from sentemb.search.writer import SCHEMA, Writer, digest_of, write_facts

logger = logging.getLogger(__name__)

_REPORT_EVERY = 1000
_BLOCK = 8_192
_SCRATCH = "CREATE TEMP TABLE texts (digest BLOB PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID"

Chunk = Callable[[Iterator[Document]], Iterator[ChunkedDocument]]
"""Chunks documents."""


class Stored(Protocol):
    """Vectors that can be read in any order."""

    def __len__(self) -> int: ...

    def rows(self, places: Numbers) -> Vectors:
        """Return the vectors (n, dim) at some places."""
        ...


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """How an index is built; see `SearchIndex.build`."""

    kind: Kind | Literal["auto"] = "auto"
    metric: Metric = "cosine"
    memory_budget: int | None = None
    factory: str | None = None
    language: str = AUTO
    encodes_again: bool = False
    truncate: Truncate = "warn"
    overlap: float = OVERLAP
    allow_empty: bool = False
    normalized: bool = False
    """Whether the vectors have the length that they are to have."""
    hybrid: Any = None
    """Fitted weights of an index that these documents come from."""


class BuildArguments(TypedDict, total=False):
    """Arguments of `SearchIndex.build` that do not concern texts."""

    kind: Kind | Literal["auto"]
    metric: Metric | None
    memory_budget: int | None
    factory: str | None
    language: str
    rescore: Rescore


def options_of(encoder: TextEncoder, **arguments: Unpack[BuildArguments]) -> BuildOptions:
    """Return the options of an index of an encoder, or raise InputError if one is not valid."""
    metric, rescore = arguments.get("metric"), arguments.get("rescore", "auto")
    language = check_language(arguments.get("language", AUTO))
    check_choices(metric, rescore)
    return BuildOptions(
        kind=arguments.get("kind", "auto"),
        metric=metric or metric_of(encoder),
        memory_budget=arguments.get("memory_budget"),
        factory=arguments.get("factory"),
        language=language,
        encodes_again=encodes_again(rescore, for_role(encoder, "document").describe()),
    )


def new_manifest(encoder: EncoderFacts, dimension: int, options: BuildOptions) -> Manifest:
    """Return the manifest of an index that is being built."""
    return Manifest(
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        encoder=encoder,
        dimension=dimension,
        metric=options.metric,
        kind="flat",
        factory="Flat",
        reason="",
        effort=0,
        recall=Recall(None, 0, 0, None),
        documents=0,
        vectors=0,
        skipped=0,
        versions={"sentemb": __version__, "faiss": faiss.__version__, "numpy": np.__version__},
        asked=options.kind != "auto" or options.factory is not None,
        asked_factory=options.factory or "",
        truncate=options.truncate,
        overlap=options.overlap,
        hybrid=options.hybrid,
    )


class Building:
    """Builds an index in a work folder.

    Args:
        folder: The work folder; what an interrupted build has encoded there is not encoded again.
        facts: The encoder.
        dimension: Length of a vector.
        options: How it is built.
        progress: Called with `(stage, done, total)`.
    """

    def __init__(
        self, folder: Path, facts: EncoderFacts, dimension: int, options: BuildOptions, progress: Progress
    ) -> None:
        self._folder = folder
        self._facts = facts
        self._dimension = dimension
        self._options = options
        self._progress = progress
        self._chunks = array("q")  # the numbers of the chunks
        self._texts = array("q")  # for each of them the number of its text, of which equal ones have the same

    def encode(self, items: Iterable[Any], chunk: Chunk, encoder: TextEncoder) -> LocalStore:
        """Build an index of documents that are encoded; each text is encoded once.

        Args:
            items: The documents, in any form that `SearchIndex.build` takes.
            chunk: Chunks them.
            encoder: The encoder of documents.
        """
        self._check_factory()

        def vectors(connection: sqlite3.Connection) -> EncodedTexts:
            numbers = np.array(self._texts, dtype=np.int64)
            first = np.flatnonzero(np.diff(np.maximum.accumulate(numbers), prepend=-1))
            chunks = np.array(self._chunks, dtype=np.int64)[first]
            self._progress("encode", 0, len(chunks))
            texts = _texts_of(connection, chunks)
            return encode_to_shards(texts, len(chunks), encoder, self._folder, self._progress)

        return self._build(items, chunk, vectors, unique=True)

    def take(self, items: Iterable[Any], vectors: Stored, chunk: Chunk | None = None) -> LocalStore:
        """Build an index of documents whose vectors exist.

        Args:
            items: The documents, none of them blank.
            vectors: The vectors of their chunks, in their order.
            chunk: Chunks them; by default each is one chunk.
        """
        return self._build(items, chunk or _unchunked, lambda _: vectors, unique=False)

    def _build(
        self,
        items: Iterable[Any],
        chunk: Chunk,
        vectors: Callable[[sqlite3.Connection], Stored],
        *,
        unique: bool,
    ) -> LocalStore:
        with building(self._folder):
            index = self._folder / "index"
            shutil.rmtree(index, ignore_errors=True)
            index.mkdir()
            database = new_database(index)
            connection = sqlite3.connect(database, isolation_level=None)
            with contextlib.closing(connection), disk_errors(database):
                # A scratch file until it is whole: no journal, no waiting for the disk.
                connection.executescript(f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; {SCHEMA}")
                facts = self._fill(connection, index, items, chunk, vectors, unique=unique)
                write_facts(connection, facts.dump(index))
                connection.execute("PRAGMA journal_mode=WAL")
            write_pointer(index, database)
            return LocalStore(index)

    def _fill(
        self,
        connection: sqlite3.Connection,
        index: Path,
        items: Iterable[Any],
        chunk: Chunk,
        vectors: Callable[[sqlite3.Connection], Stored],
        *,
        unique: bool,
    ) -> Manifest:
        options, dimension = self._options, self._dimension
        facts = new_manifest(self._facts, dimension, options)
        metric: Metric = "dot" if options.normalized else options.metric
        connection.execute("BEGIN")
        writer = Writer(connection, replace(facts, metric=metric), complete=False)
        self._read(connection, chunk(writer.documents(items, replacing=False)), writer, unique=unique)
        done = writer.changed
        writer.finish()
        chunks = np.array(self._chunks, dtype=np.int64)
        if done.added == 0 and not options.allow_empty:
            blank = f"; {done.skipped} are blank" if done.skipped else ""
            raise InputError(
                f"there are no documents to index{blank}", "pass at least one document with a text"
            )
        plan = plan_index(
            len(chunks),
            dimension,
            kind=options.kind,
            memory_budget=options.memory_budget,
            factory=options.factory,
            rescored=options.encodes_again,
        )
        keeps = not (plan.kind == "ivfpq" and options.encodes_again)
        self._progress("terms", 0, 1)
        language = create_keywords(connection, options.language)
        connection.execute("COMMIT")
        self._check_disk(connection, plan, keeps=keeps)
        logger.info("%s", plan.reason)
        encoded = vectors(connection)
        texts = np.array(self._texts, dtype=np.int64) if unique else np.arange(len(chunks))
        if len(texts) != len(chunks) or len(encoded) < int(texts.max(initial=-1)) + 1:
            raise InputError(f"there are {len(encoded):,} vectors for {len(chunks):,} texts")

        def rows(places: Numbers) -> Vectors:
            return normalize_for(metric, encoded.rows(texts[places]))

        if keeps:
            connection.execute("BEGIN")
            for start in range(0, len(chunks), _BLOCK):
                places = np.arange(start, min(start + _BLOCK, len(chunks)))
                writer.put_vectors(chunks[places], encoded.rows(texts[places]))
            connection.execute("COMMIT")
        built = build_cache(plan, dimension, chunks, rows, self._progress)
        return replace(
            facts,
            kind=plan.kind,
            factory=plan.factory,
            reason=plan.reason,
            keeps_vectors=keeps,
            calibration=calibration_of(len(chunks), rows),
            language=language,
            **place_cache(index, built, len(chunks)),
        )

    def _read(
        self,
        connection: sqlite3.Connection,
        documents: Iterator[ChunkedDocument],
        writer: Writer,
        *,
        unique: bool,
    ) -> None:
        connection.execute(_SCRATCH)
        count = 0
        for place, document in enumerate(documents):
            if place % _REPORT_EVERY == 0:
                self._progress("read", place, 0)
            chunks = writer.insert(document)
            self._chunks.extend(chunks)
            for text in document.texts if unique else ():
                digest = digest_of(text)
                new = connection.execute("INSERT OR IGNORE INTO texts VALUES (?, ?)", (digest, count))
                if new.rowcount:
                    self._texts.append(count)
                    count += 1
                else:
                    query = "SELECT number FROM texts WHERE digest = ?"
                    self._texts.append(connection.execute(query, (digest,)).fetchone()[0])
        connection.execute("DROP TABLE texts")

    def _check_factory(self) -> None:
        """Let faiss read a requested factory before anything is encoded."""
        factory = self._options.factory
        if factory is not None:
            plan = plan_index(1, self._dimension, kind=self._options.kind, factory=factory)
            VectorIndex.empty(plan.factory, plan.kind, self._dimension)

    def _check_disk(self, connection: sqlite3.Connection, plan: IndexPlan, *, keeps: bool) -> None:
        vectors = 4 * self._dimension * len(self._chunks)
        already = sum(path.stat().st_size for path in self._folder.glob(SHARDS))
        needed = max(0, vectors - already) + plan.bytes + vectors * keeps
        free = shutil.disk_usage(self._folder).free
        if needed > free:
            raise InputError(
                f"the build needs about {format_bytes(needed)} of disk, but {self._folder.parent} has "
                f"{format_bytes(free)} free",
                "free some space, or choose another output folder",
            )


def build_in(
    make: Callable[[Path], LocalStore], work_dir: str | Path | None
) -> tuple[LocalStore, Path | None]:
    """Build an index in a work folder, or in a temporary one, which the caller removes in time.

    Args:
        make: Builds it in a folder.
        work_dir: The work folder.

    Returns:
        The index, and the temporary folder if there is one.
    """
    if work_dir is not None:
        return make(Path(work_dir)), None
    folder = Path(tempfile.mkdtemp(prefix="sentemb-index-"))
    try:
        store = make(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    for shard in folder.glob(SHARDS):
        shard.unlink()
    return store, folder


def _unchunked(documents: Iterator[Document]) -> Iterator[ChunkedDocument]:
    return map(ChunkedDocument, documents)


def _texts_of(connection: sqlite3.Connection, chunks: Numbers) -> Iterator[list[str]]:
    query = """
    SELECT documents.text, chunks.start, chunks.stop, documents.form FROM documents
    LEFT JOIN chunks ON chunks.id = ?1 WHERE documents.number = ?1 >> 20
    """
    for start in range(0, len(chunks), shards.SHARD_TEXTS):
        some = []
        for number in chunks[start : start + shards.SHARD_TEXTS].tolist():
            text, first, last, form = connection.execute(query, (number,)).fetchone()
            some.append(text[first:last] if form == 1 else text)
        yield some
