"""From documents to an index folder with bounded memory, and again: compaction, and another encoder."""

from __future__ import annotations

import contextlib
import datetime
import logging
import shutil
import sqlite3
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.ipc
from numpy.typing import NDArray

from sentemb import __version__
from sentemb._files import settle, sha256_of
from sentemb.data.words import UNKNOWN
from sentemb.encoding.encoder import EncoderSpec, TextEncoder, Vectors, for_role
from sentemb.encoding.shards import MANIFEST, Row, Settings, ShardFolder, finished, write_shard
from sentemb.errors import InputError, naming
from sentemb.modules.loading import check_options
from sentemb.search import documents as sizes
from sentemb.search.documents import (
    OVERLAP,
    ChunkedDocument,
    Document,
    Numbers,
    Progress,
    Truncate,
    check_truncation,
    chunk_documents,
    encode_unique,
    normalize_for,
)
from sentemb.search.folder import (
    SCHEMA,
    SHARDS,
    WORK,
    Writer,
    building,
    database_errors,
    merge_log,
    new_database,
    put_vectors,
    read_chunks,
    read_texts,
    read_vectors,
    transaction,
    write_facts,
    write_pointer,
)
from sentemb.search.keywords import AUTO, check_language, create_keywords
from sentemb.search.local import LocalStore
from sentemb.search.manifest import EncoderFacts, Manifest, Recall, calibrate, resolve
from sentemb.search.plan import IndexPlan, Kind, Metric, budget_of, plan_index, suits_ivfpq
from sentemb.search.vectors import BLOCK, Rescore, Rows, VectorIndex, build_vectors, encodes_again

logger = logging.getLogger(__name__)

_REPORT_EVERY = 1000
# Free pages of the database for which it is written again, as a share of all.
_FREE = 0.1

Chunk = Callable[[Iterator[Document]], Iterator[ChunkedDocument]]
"""Chunks documents."""
Encode = Callable[[Iterator[list[str]], int], Rows]
"""Takes texts, some at a time, and their number; returns what reads their vectors by place."""


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """Options of a build; see `SearchIndex.build`."""

    kind: Kind | Literal["auto"] = "auto"
    metric: Metric | None = None
    memory_budget: int | None = None
    factory: str | None = None
    language: str = AUTO
    rescore: Rescore = "auto"
    truncate: Truncate = "warn"
    overlap: float = OVERLAP
    allow_empty: bool = False

    def manifest(self, encoder: TextEncoder, facts: EncoderFacts) -> Manifest:
        """Return the manifest of an index that is about to be built, or raise InputError for a bad option."""
        check_language(self.language)
        check_truncation(self.truncate, self.overlap)
        if self.rescore not in get_args(Rescore):
            raise InputError(f"unknown rescore {self.rescore!r}", "choose auto, texts or never")
        metric: Any = self.metric or getattr(encoder, "similarity", "cosine")
        if metric not in get_args(Metric):
            if self.metric is not None:
                raise InputError(f"unknown metric {metric!r}", "choose cosine or dot")
            raise InputError(
                f"{encoder.name} was trained for the {metric} distance, which an index does not support",
                "build the index with --metric cosine, or --metric dot",
            )
        if self.factory is not None:  # faiss reads it before anything is encoded
            plan = plan_index(1, encoder.dimension, kind=self.kind, factory=self.factory)
            VectorIndex.empty(plan.factory, plan.kind, encoder.dimension)
        return Manifest(
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            encoder=facts,
            dimension=encoder.dimension,
            metric=metric,
            kind="flat",
            factory="Flat",
            reason="",
            effort=0,
            recall=Recall(None, 0, 0, None),
            documents=0,
            vectors=0,
            skipped=0,
            versions={"sentemb": __version__, "faiss": faiss.__version__, "numpy": np.__version__},
            kind_requested=self.kind != "auto" or self.factory is not None,
            factory_requested=self.factory or "",
            truncate=self.truncate,
            overlap=self.overlap,
        )


def build_index(
    documents: Iterable[Any] | ShardFolder,
    encoder: Any,
    source: EncoderSpec | None,
    options: BuildOptions,
    work_dir: str | Path | None,
    progress: Progress,
) -> tuple[LocalStore, TextEncoder]:
    """Build an index in a work folder, or a temporary one that goes with the store; return its encoder too.

    What an interrupted build has encoded in the work folder is used.
    """
    chunk: Chunk
    if isinstance(documents, ShardFolder):
        shards = documents
        source, loaded = checked_source(shards, encoder)
        of_documents, facts = loaded, EncoderFacts.of(loaded, source.model, source)
        facts.details["stored"] = shards.settings.dtype
        items: Iterable[Any] = shard_documents(shards)
        chunk = lambda some: map(ChunkedDocument, some)  # noqa: E731
    else:
        items, loaded = documents, resolve(encoder)
        of_documents, facts = for_role(loaded, "document"), EncoderFacts.of(loaded, encoder, source)
        chunk = lambda some: chunk_documents(some, of_documents, options.truncate, options.overlap)  # noqa: E731
    manifest = options.manifest(loaded, facts)
    folder = Path(work_dir or tempfile.mkdtemp(prefix="sentemb-index-"))

    def encode(texts: Iterator[list[str]], count: int) -> Rows:
        if isinstance(documents, ShardFolder):
            if len(documents) != count:
                raise InputError(f"there are {len(documents):,} vectors for {count:,} texts")
            return stored_rows(documents.files, documents.rows, documents.dimension, manifest.metric)
        progress("encode", 0, count)
        return encode_to_shards(texts, count, of_documents, manifest.metric, folder, progress)

    try:
        store = build(folder, items, chunk, encode, manifest, options, progress)
    except BaseException:
        if work_dir is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if work_dir is None:
        for shard in folder.glob(SHARDS):
            shard.unlink()
        weakref.finalize(store, shutil.rmtree, folder, ignore_errors=True)
    return store, loaded


def checked_source(shards: ShardFolder, encoder: Any = None) -> tuple[EncoderSpec, TextEncoder]:
    """Compare a folder of vectors with its checksums; return where its encoder is, maybe moved, and that."""
    shards.verify()
    source = EncoderSpec.of(shards.settings.model)
    with naming(shards.path / MANIFEST):
        check_options(source.pooling, None)
    source = source.located(shards.path) if encoder is None else replace(source, model=str(encoder))
    loaded = source.load()
    shards.check_encoder(loaded)
    return source, loaded


def shard_documents(shards: ShardFolder) -> Iterator[Document]:
    """Yield the documents of a folder of shards."""
    for batch in shards.batches():
        for identifier, text, metadata in zip(batch.ids, batch.texts, batch.metadata, strict=True):
            yield Document(text, identifier, metadata, f"{shards.path}: {identifier!r}")


def build(
    folder: Path,
    items: Iterable[Any],
    chunk: Chunk,
    encode: Encode,
    facts: Manifest,
    options: BuildOptions,
    progress: Progress,
) -> LocalStore:
    """Build an index in a work folder, of documents and what chunks and encodes them."""
    index = folder / "index"
    database = new_database(index)
    with contextlib.ExitStack() as stack:
        stack.enter_context(building(folder))
        shutil.rmtree(index, ignore_errors=True)
        index.mkdir()
        connection = stack.enter_context(contextlib.closing(sqlite3.connect(database, isolation_level=None)))
        stack.enter_context(database_errors(database, writes=True))
        # A scratch file until it is whole: no journal, no waiting for the disk.
        connection.executescript(f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; {SCHEMA}; BEGIN")
        writer = Writer(connection, has_keywords=False)
        for place, document in enumerate(chunk(writer.documents(items, replacing=False))):
            if place % _REPORT_EVERY == 0:
                progress("read", place, 0)
            writer.insert(document)
        writer.finish()
        if writer.changed.added == 0 and not options.allow_empty:
            blank = f"; {writer.changed.skipped} are blank" if writer.changed.skipped else ""
            message = f"there are no documents to index{blank}"
            raise InputError(message, "pass at least one document with a text")
        chunks = read_chunks(connection)
        again = encodes_again(options.rescore, facts.encoder.details)
        plan = plan_index(
            len(chunks),
            facts.dimension,
            kind=options.kind,
            memory_budget=options.memory_budget,
            factory=options.factory,
            rescored=again,
        )
        logger.info("%s", plan.reason)
        keeps = not (plan.kind == "ivfpq" and again)
        progress("terms", 0, 1)
        facts = replace(facts, language=create_keywords(connection, options.language), keeps_vectors=keeps)
        connection.execute("COMMIT")
        rows = encode(_texts(connection, chunks), len(chunks))
        connection.execute("BEGIN")
        if keeps:
            _store(connection, chunks, rows)
            rows = lambda places: read_vectors(connection, chunks[places], facts, folder)  # noqa: E731
        write_facts(connection, _index(index, facts, plan, chunks, rows, progress), index)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode=WAL")
    write_pointer(index, database)
    return LocalStore(index)


def _texts(connection: sqlite3.Connection, chunks: Numbers) -> Iterator[list[str]]:
    for start in range(0, len(chunks), sizes.SHARD_TEXTS):
        yield read_texts(connection, chunks[start : start + sizes.SHARD_TEXTS])


def _store(connection: sqlite3.Connection, chunks: Numbers, rows: Rows) -> None:
    for start in range(0, len(chunks), BLOCK):
        places = np.arange(start, min(start + BLOCK, len(chunks)))
        put_vectors(connection, chunks[places], rows(places))


def _index(
    folder: Path, facts: Manifest, plan: IndexPlan, chunks: Numbers, rows: Rows, progress: Progress
) -> Manifest:
    """Build the vector index of chunks into a folder; return the facts with what is known of it."""
    vectors, recall, rescored = build_vectors(plan, facts.dimension, chunks, rows, progress)
    facts = replace(
        facts,
        kind=plan.kind,
        factory=plan.factory,
        reason=plan.reason,
        effort=vectors.effort,
        recall=recall,
        rescored=rescored,
        cached=len(chunks),
        calibration=facts.calibration or calibrate(len(chunks), rows),
    )
    if not len(chunks):
        return replace(facts, cache="", cache_bytes=0, cache_sha256="")
    partial = folder / ".vectors.partial"
    vectors.write(partial)
    checksum, size = sha256_of(partial), partial.stat().st_size
    name = f"vectors-{checksum[:16]}.faiss"
    settle(partial, folder / name)
    return replace(facts, cache=name, cache_bytes=size, cache_sha256=checksum)


def upgrade(
    path: Path,
    encoder: Any,
    source: EncoderSpec | None,
    work_dir: str | Path | None,
    truncate: Truncate | None,
    progress: Progress,
) -> TextEncoder:
    """Change the encoder of an index folder, and return it; see `SearchIndex.upgrade`."""
    store, loaded = LocalStore(path), resolve(encoder)
    if source is None and isinstance(encoder, (str, Path)):
        source = EncoderSpec(str(encoder))
    with (
        tempfile.TemporaryDirectory(prefix="sentemb-index-") as temporary,
        building(Path(work_dir or temporary)) as work,
        store.alone(),
        store.snapshot() as snapshot,
    ):
        before = snapshot.manifest
        if before.encoder.fingerprint != for_role(loaded, "document").fingerprint:
            # The metric that the new encoder was trained for, unless the index was built with one of choice.
            is_own = before.metric == before.encoder.details.get("similarity", "cosine")
            options = BuildOptions(
                kind=before.kind if before.kind_requested else "auto",
                metric=None if is_own else before.metric,
                language=before.language,
                truncate=truncate or before.truncate,
                overlap=before.overlap,
                allow_empty=True,
            )
            documents = (chunked.document for chunked in snapshot.rows())
            new, _ = build_index(documents, loaded, source, options, work, progress)
            new.copy_to(path)
    return loaded


def compact(store: LocalStore, progress: Progress) -> None:
    """Build the vector index of a folder again; the caller is its only writer.

    Readers keep the old file, which is gone when the last of them has seen the new one.
    """
    with store.snapshot() as snapshot:
        before, whole = snapshot.manifest, snapshot.state.whole
        is_cached = snapshot.state.cache is not None or not before.vectors
        if is_cached and whole.alive is None and not len(whole.recent):
            return
        chunks = snapshot.chunks()
        rescore: Rescore = "auto" if before.kind != "ivfpq" else "never" if before.keeps_vectors else "texts"
        again = encodes_again(rescore, before.encoder.details)
        plan = _plan_again(before, len(chunks), again=again)
        if before.keeps_vectors:
            rows: Rows = lambda places: snapshot.stored(chunks[places])  # noqa: E731
        else:
            work = store.folder / WORK
            work.mkdir(exist_ok=True)
            texts, encoder = _texts(snapshot.connection, chunks), snapshot.documents_encoder()
            rows = encode_to_shards(texts, len(chunks), encoder, before.metric, work, progress)
        facts = _index(store.folder, before, plan, chunks, rows, progress)
        facts = replace(facts, keeps_vectors=not (plan.kind == "ivfpq" and again))
        with transaction(store.database) as connection:
            if not facts.keeps_vectors:
                connection.execute("DELETE FROM vectors")
            elif not before.keeps_vectors:
                _store(connection, chunks, rows)
            if before.language == UNKNOWN:
                language = create_keywords(connection, AUTO)
                kept = facts.abstention if language == UNKNOWN else None  # other terms are other evidence
                facts = replace(facts, language=language, abstention=kept)
            else:
                connection.execute("INSERT INTO keywords (keywords) VALUES ('optimize')")
            connection.execute("DELETE FROM deleted")
            write_facts(connection, facts, store.folder)
    shutil.rmtree(store.folder / WORK, ignore_errors=True)
    connection = sqlite3.connect(store.database, isolation_level=None, timeout=60)
    with contextlib.closing(connection), database_errors(store.database, writes=True):
        free, pages = (
            connection.execute(f"PRAGMA {name}_count").fetchone()[0] for name in ("freelist", "page")
        )
        if free > _FREE * pages:
            connection.execute("VACUUM")
        with contextlib.suppress(sqlite3.OperationalError):
            merge_log(connection)


def _plan_again(facts: Manifest, count: int, *, again: bool) -> IndexPlan:
    """Choose the vector index of an index that exists, of so many vectors; see `SearchIndex.compact`."""
    if facts.factory_requested:
        return plan_index(count, facts.dimension, factory=facts.factory_requested)
    is_same = facts.kind_requested
    if facts.kind == "ivfpq":  # it may have been chosen for a budget that is not known any more
        is_same = suits_ivfpq(count, facts.dimension)
    if not is_same:
        return plan_index(count, facts.dimension, rescored=again)
    before = IndexPlan(facts.kind, facts.factory, 0, facts.reason)
    budget = budget_of(before, count, facts.dimension)
    plan = plan_index(count, facts.dimension, kind=facts.kind, memory_budget=budget, rescored=again)
    return replace(plan, reason=facts.reason)


def encode_to_shards(
    texts: Iterator[list[str]],
    count: int,
    encoder: TextEncoder,
    metric: Metric,
    folder: Path,
    progress: Progress,
) -> Rows:
    """Encode texts, `SHARD_TEXTS` at a time, into shards; return what reads their vectors by their places.

    A shard is named by the encoder's fingerprint and its texts, so that it is never taken for another, and
    one that an interrupted run has left is not written again.
    """
    settings = Settings(
        name=encoder.name,
        fingerprint=encoder.fingerprint,
        dimension=encoder.dimension,
        dtype="float32",
        shard_size=sizes.SHARD_TEXTS,
        model={"model": encoder.name},
        role="document",
    )
    paths: list[Path] = []
    counts: list[int] = []
    stage = "resume"
    for some in texts:
        rows = [Row(place, text, {}, "") for place, text in enumerate(some)]
        path = folder / settings.file_name(rows)
        before = finished(path)
        if before is None or before.rows != len(rows):
            write_shard(path, rows, encode_unique(encoder, some), [], settings)
            stage = "encode"
        paths.append(path)
        counts.append(len(rows))
        progress(stage, sum(counts), count)
    return stored_rows(paths, counts, encoder.dimension, metric)


def stored_rows(paths: Sequence[Path], counts: Sequence[int], dimension: int, metric: Metric) -> Rows:
    """Map shards of so many texts each into memory; return what reads their vectors, as they are compared."""
    parts: list[NDArray[np.floating]] = []
    for path, count in zip(paths, counts, strict=True):
        try:
            with contextlib.closing(pa.memory_map(str(path))) as file:
                column = pa.ipc.open_file(file).read_all()["vector"].combine_chunks()
        except (OSError, pa.ArrowInvalid, KeyError) as error:
            raise InputError(f"{path} is damaged: {error}", "remove it, and encode the texts again") from None
        if len(column) != count:
            raise InputError(
                f"{path} has {len(column):,} rows instead of {count:,}", "encode the texts again"
            )
        parts.append(column.flatten().to_numpy(zero_copy_only=True).reshape(-1, dimension))
    ends = np.cumsum(np.asarray(counts, dtype=np.int64))

    def rows(places: Numbers) -> Vectors:
        found = np.empty((len(places), dimension), dtype=np.float32)
        shards = np.searchsorted(ends, places, side="right")
        for shard in np.unique(shards).tolist():
            chosen = shards == shard
            found[chosen] = parts[shard][places[chosen] - (ends[shard - 1] if shard else 0)]
        return normalize_for(metric, found)

    return rows
