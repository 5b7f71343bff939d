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
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, get_args

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.ipc
from numpy.typing import NDArray

from sentemb import __version__
from sentemb._files import settle, sha256_of
from sentemb.data.keywords import RULES
from sentemb.data.language import UNKNOWN
from sentemb.encoding.encoder import EncoderSpec, TextEncoder, Vectors, for_role
from sentemb.encoding.shards import Row, Settings, ShardFolder, finished, write_shard
from sentemb.errors import InputError
from sentemb.search import documents as sizes
from sentemb.search.calibration import calibrate
from sentemb.search.documents import (
    OVERLAP,
    ChunkedDocument,
    Document,
    Numbers,
    Progress,
    Truncate,
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
    transaction,
    write_facts,
    write_pointer,
)
from sentemb.search.keywords import AUTO, check_language, create_keywords
from sentemb.search.local import LocalStore
from sentemb.search.manifest import EncoderFacts, HybridWeight, Manifest, Recall, resolve
from sentemb.search.plan import IndexPlan, Kind, Metric, budget_of, format_bytes, plan_index, suits_ivfpq
from sentemb.search.snapshot import read_chunks, read_texts, read_vectors
from sentemb.search.vectors import (
    BLOCK,
    Rescore,
    Rows,
    VectorIndex,
    build_vectors,
    encodes_again,
)

logger = logging.getLogger(__name__)

_REPORT_EVERY = 1000
_KNOWN = 1_000_000  # texts that are recognized when they occur again, which takes about 200 MB
# Free pages of the database for which it is written again, as a share of all.
_FREE = 0.1

Chunk = Callable[[Iterator[Document]], Iterator[ChunkedDocument]]
"""Chunks documents."""
Encode = Callable[[Iterator[list[str]], int], Rows]
"""Takes texts, some at a time, and their number, and returns what reads their vectors by places, as they are
compared."""


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """Options of a build; see `SearchIndex.build`."""

    kind: Kind | Literal["auto"] = "auto"
    metric: Metric = "cosine"
    memory_budget: int | None = None
    factory: str | None = None
    language: str = AUTO
    encodes_again: bool = False
    truncate: Truncate = "warn"
    overlap: float = OVERLAP
    allow_empty: bool = False
    hybrid: HybridWeight | None = None


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
    rest: dict[str, Any] = dict(arguments)
    metric, rescore = rest.pop("metric", None), rest.pop("rescore", "auto")
    check_language(rest.get("language", AUTO))
    if metric not in (None, *get_args(Metric)):
        raise InputError(f"unknown metric {metric!r}", "choose cosine or dot")
    if rescore not in get_args(Rescore):
        raise InputError(f"unknown rescore {rescore!r}", "choose auto, texts or never")
    again = encodes_again(rescore, for_role(encoder, "document").describe())
    return BuildOptions(metric=metric or metric_of(encoder), encodes_again=again, **rest)


def metric_of(encoder: TextEncoder) -> Metric:
    """Return the metric that an encoder was trained for, or raise InputError if an index does not have it."""
    own = getattr(encoder, "similarity", "cosine")
    if own not in get_args(Metric):
        raise InputError(
            f"{encoder.name} was trained for the {own} distance, which an index does not support",
            "build the index with --metric cosine, or --metric dot",
        )
    return "dot" if own == "dot" else "cosine"


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
        kind_requested=options.kind != "auto" or options.factory is not None,
        factory_requested=options.factory or "",
        truncate=options.truncate,
        overlap=options.overlap,
        hybrid=options.hybrid,
    )


def build_encoded(
    items: Iterable[Any],
    encoder: TextEncoder,
    facts: EncoderFacts,
    options: BuildOptions,
    progress: Progress,
    folder: Path,
) -> LocalStore:
    """Build an index of documents in a work folder; what an interrupted build has encoded there is used."""
    if options.factory is not None:  # faiss reads it before anything is encoded
        plan = plan_index(1, encoder.dimension, kind=options.kind, factory=options.factory)
        VectorIndex.empty(plan.factory, plan.kind, encoder.dimension)

    def encode(texts: Iterator[list[str]], count: int) -> Rows:
        progress("encode", 0, count)
        return encode_to_shards(texts, count, encoder, options.metric, folder, progress)

    def chunk(documents: Iterator[Document]) -> Iterator[ChunkedDocument]:
        return chunk_documents(documents, encoder, options.truncate, options.overlap)

    manifest = new_manifest(facts, encoder.dimension, options)
    return build(folder, items, chunk, encode, manifest, options, progress)


def build_of_shards(
    shards: ShardFolder,
    encoder: TextEncoder,
    source: EncoderSpec,
    options: BuildOptions,
    progress: Progress,
    folder: Path,
) -> LocalStore:
    """Build an index of what `sentemb encode` wrote in a work folder."""

    def read(_: Iterator[list[str]], count: int) -> Rows:
        if len(shards) != count:
            raise InputError(f"there are {len(shards):,} vectors for {count:,} texts")
        return stored_rows(shards.files, shards.rows, shards.dimension, options.metric)

    facts = EncoderFacts.of(encoder, source.model, source)
    facts.details["stored"] = shards.settings.dtype
    manifest = new_manifest(facts, shards.dimension, options)
    documents = shard_documents(shards)
    return build(
        folder, documents, lambda some: map(ChunkedDocument, some), read, manifest, options, progress
    )


def checked_source(shards: ShardFolder, encoder: str | Path | None = None) -> tuple[EncoderSpec, TextEncoder]:
    """Compare a folder of vectors with its checksums; return where its encoder is, maybe moved, and that."""
    shards.verify()
    source = EncoderSpec.of(shards.settings.model)
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
    with building(folder):
        index = folder / "index"
        shutil.rmtree(index, ignore_errors=True)
        index.mkdir()
        database = new_database(index)
        connection = sqlite3.connect(database, isolation_level=None)
        with contextlib.closing(connection), database_errors(database, writes=True):
            # A scratch file until it is whole: no journal, no waiting for the disk.
            connection.executescript(f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; {SCHEMA}")
            _fill(connection, folder, items, chunk, encode, facts, options, progress)
            connection.execute("PRAGMA journal_mode=WAL")
        write_pointer(index, database)
        return LocalStore(index)


def _fill(
    connection: sqlite3.Connection,
    folder: Path,
    items: Iterable[Any],
    chunk: Chunk,
    encode: Encode,
    facts: Manifest,
    options: BuildOptions,
    progress: Progress,
) -> None:
    connection.execute("BEGIN")
    writer = Writer(connection, facts, complete=False)
    for place, document in enumerate(chunk(writer.documents(items, replacing=False))):
        if place % _REPORT_EVERY == 0:
            progress("read", place, 0)
        writer.insert(document)
    writer.finish()
    if writer.changed.added == 0 and not options.allow_empty:
        blank = f"; {writer.changed.skipped} are blank" if writer.changed.skipped else ""
        raise InputError(f"there are no documents to index{blank}", "pass at least one document with a text")
    chunks = read_chunks(connection)
    plan = plan_index(
        len(chunks),
        facts.dimension,
        kind=options.kind,
        memory_budget=options.memory_budget,
        factory=options.factory,
        rescored=options.encodes_again,
    )
    keeps = not (plan.kind == "ivfpq" and options.encodes_again)
    progress("terms", 0, 1)
    facts = replace(facts, language=create_keywords(connection, options.language), keeps_vectors=keeps)
    connection.execute("COMMIT")
    _check_disk(folder, 4 * facts.dimension * len(chunks), plan, keeps=keeps)
    logger.info("%s", plan.reason)
    rows = encode(_texts(connection, chunks), len(chunks))
    connection.execute("BEGIN")
    if keeps:
        _store(connection, chunks, rows)
        rows = lambda places: read_vectors(connection, chunks[places], facts, folder)  # noqa: E731

    facts = _index(folder / "index", facts, plan, chunks, rows, progress)
    write_facts(connection, facts, folder / "index")
    connection.execute("COMMIT")


def _texts(connection: sqlite3.Connection, chunks: Numbers) -> Iterator[list[str]]:
    for start in range(0, len(chunks), sizes.SHARD_TEXTS):
        yield read_texts(connection, chunks[start : start + sizes.SHARD_TEXTS])


def _check_disk(folder: Path, vectors: int, plan: IndexPlan, *, keeps: bool) -> None:
    before = sum(path.stat().st_size for path in folder.glob(SHARDS))
    needed = max(0, vectors - before) + plan.bytes + vectors * keeps
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"the build needs about {format_bytes(needed)} of disk, but {folder.parent} has "
            f"{format_bytes(free)} free",
            "free some space, or choose another output folder",
        )


def _store(connection: sqlite3.Connection, chunks: Numbers, rows: Rows) -> None:
    for start in range(0, len(chunks), BLOCK):
        places = np.arange(start, min(start + BLOCK, len(chunks)))
        put_vectors(connection, chunks[places], rows(places))


def _index(
    folder: Path, facts: Manifest, plan: IndexPlan, chunks: Numbers, rows: Rows, progress: Progress
) -> Manifest:
    """Build the vector index of chunks into a folder; return the facts with what is known of it."""
    built = build_vectors(plan, facts.dimension, chunks, rows, progress)
    facts = replace(
        facts,
        kind=plan.kind,
        factory=plan.factory,
        reason=plan.reason,
        effort=built.vectors.effort,
        recall=built.recall,
        rescored=built.rescored,
        cached=len(chunks),
        calibration=facts.calibration or calibrate(len(chunks), rows),
    )
    if not len(chunks):
        return replace(facts, cache="", cache_bytes=0, cache_sha256="")
    partial = folder / ".vectors.partial"
    built.vectors.write(partial)
    checksum, size = sha256_of(partial), partial.stat().st_size
    name = f"vectors-{checksum[:16]}.faiss"
    settle(partial, folder / name)
    return replace(facts, cache=name, cache_bytes=size, cache_sha256=checksum)


def build_in(make: Callable[[Path], LocalStore], work_dir: str | Path | None) -> LocalStore:
    """Build an index in a work folder, or in a temporary one, which goes with the store."""
    if work_dir is not None:
        return make(Path(work_dir))
    folder = Path(tempfile.mkdtemp(prefix="sentemb-index-"))
    try:
        store = make(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    for shard in folder.glob(SHARDS):
        shard.unlink()
    weakref.finalize(store, shutil.rmtree, folder, ignore_errors=True)
    return store


def upgrade(
    path: Path,
    encoder: Any,
    source: EncoderSpec | None,
    work_dir: str | Path | None,
    *,
    truncate: Truncate | None,
    kind: Kind | Literal["auto"] | None,
    memory_budget: int | None,
    progress: Progress,
) -> TextEncoder:
    """Change the encoder of an index folder, and return it; see `SearchIndex.upgrade`."""
    store, loaded = LocalStore(path), resolve(encoder)
    of_documents = for_role(loaded, "document")
    with (
        tempfile.TemporaryDirectory(prefix="sentemb-index-") as temporary,
        building(Path(work_dir or temporary)) as work,
        store.alone(),
        store.snapshot() as snapshot,
    ):
        before = snapshot.manifest
        if before.encoder.fingerprint != of_documents.fingerprint:
            # The metric that the new encoder was trained for, unless the index was built with one of choice.
            is_own = before.metric == before.encoder.details.get("similarity", "cosine")
            options = BuildOptions(
                kind=kind or (before.kind if before.kind_requested else "auto"),
                metric=metric_of(loaded) if is_own else before.metric,
                memory_budget=memory_budget,
                language=before.language,
                encodes_again=encodes_again("auto", of_documents.describe()),
                truncate=truncate or before.truncate,
                overlap=before.overlap,
                allow_empty=True,
            )
            documents = (chunked.document for chunked in snapshot.rows())
            facts = EncoderFacts.of(loaded, encoder, source)
            build_encoded(documents, of_documents, facts, options, progress, work).copy_to(path)
    return loaded


def compact(
    store: LocalStore, kind: Kind | Literal["auto"] | None, memory_budget: int | None, progress: Progress
) -> None:
    """Build the vector index of a folder again; the caller is its only writer.

    Readers keep the old file, which is gone when the last of them has seen the new one.
    """
    with store.snapshot() as snapshot:
        before, whole = snapshot.manifest, snapshot.state.whole
        is_cached = snapshot.state.cache is not None or not before.vectors
        is_clean = is_cached and whole.alive is None and not len(whole.recent) and before.has_keywords
        if is_clean and kind in (None, before.kind) and memory_budget is None:
            return
        chunks = read_chunks(snapshot.connection)
        rescore: Rescore = "auto" if before.kind != "ivfpq" else "never" if before.keeps_vectors else "texts"
        again = encodes_again(rescore, before.encoder.details)
        plan = _plan_again(before, len(chunks), kind, memory_budget, again=again)

        if before.keeps_vectors:
            rows: Rows = lambda places: snapshot.stored(chunks[places])  # noqa: E731
        else:
            work = store.folder / WORK
            work.mkdir(exist_ok=True)
            texts, encoder = _texts(snapshot.connection, chunks), snapshot.documents_encoder()
            rows = encode_to_shards(texts, len(chunks), encoder, before.metric, work, progress)

        facts = _index(store.folder, before, plan, chunks, rows, progress)
        facts = replace(facts, keeps_vectors=not (plan.kind == "ivfpq" and again), keyword_rules=RULES)
        if kind is not None:
            facts = replace(facts, kind_requested=kind != "auto")
        if kind is not None or memory_budget is not None:
            facts = replace(facts, factory_requested="")
        with transaction(store.database) as connection:
            if not facts.keeps_vectors:
                connection.execute("DELETE FROM vectors")
            elif not before.keeps_vectors:
                _store(connection, chunks, rows)
            if before.language == UNKNOWN or not before.has_keywords:
                language = AUTO if before.language == UNKNOWN else before.language
                facts = replace(facts, language=create_keywords(connection, language))
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


def _plan_again(
    facts: Manifest,
    count: int,
    kind: Kind | Literal["auto"] | None,
    memory_budget: int | None,
    *,
    again: bool,
) -> IndexPlan:
    """Choose the vector index of an index that exists, of so many vectors; see `SearchIndex.compact`."""
    if facts.factory_requested and kind is None and memory_budget is None:
        return plan_index(count, facts.dimension, factory=facts.factory_requested)
    is_same = facts.kind_requested
    if facts.kind == "ivfpq":  # it may have been chosen for a budget that is not known any more
        is_same = suits_ivfpq(count, facts.dimension)
    is_same = is_same and kind is None
    if is_same and memory_budget is None:
        before = IndexPlan(facts.kind, facts.factory, 0, facts.reason)
        memory_budget = budget_of(before, count, facts.dimension)
    chosen = facts.kind if is_same else kind or "auto"
    plan = plan_index(count, facts.dimension, kind=chosen, memory_budget=memory_budget, rescored=again)
    return replace(plan, reason=facts.reason) if is_same else plan


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
    one that an interrupted run has left is not written again. A text that occurred before, in any shard, is
    not encoded again.
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
    known: dict[bytes, int] = {}  # places of the texts so far, by digest
    mapped: dict[int, NDArray[np.floating]] = {}
    for some in texts:
        rows = [Row(place, text, {}, "") for place, text in enumerate(some)]
        path = folder / settings.file_name(rows)
        digests = [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in some]
        before = finished(path)
        if before is None or before.rows != len(rows):
            new = [row for row, digest in enumerate(digests) if digest not in known]
            vectors = np.empty((len(some), encoder.dimension), dtype=np.float32)
            if new:
                vectors[new] = encode_unique(encoder, [some[row] for row in new])
            for row in sorted({*range(len(some))} - {*new}):
                shard, place = divmod(known[digests[row]], sizes.SHARD_TEXTS)
                if shard not in mapped:
                    mapped[shard] = _map(paths[shard], encoder.dimension, counts[shard])
                vectors[row] = mapped[shard][place]
            write_shard(path, rows, vectors, [], settings)
            stage = "encode"
        if len(known) < _KNOWN:
            first = len(paths) * sizes.SHARD_TEXTS
            known |= {digest: first + row for row, digest in enumerate(digests) if digest not in known}
        paths.append(path)
        counts.append(len(rows))
        progress(stage, sum(counts), count)
    return stored_rows(paths, counts, encoder.dimension, metric)


def stored_rows(paths: Sequence[Path], counts: Sequence[int], dimension: int, metric: Metric) -> Rows:
    """Map shards of so many texts each into memory; return what reads their vectors, as they are compared."""
    parts = [_map(path, dimension, count) for path, count in zip(paths, counts, strict=True)]
    ends = np.cumsum(np.asarray(counts, dtype=np.int64))

    def rows(places: Numbers) -> Vectors:
        found = np.empty((len(places), dimension), dtype=np.float32)
        shards = np.searchsorted(ends, places, side="right")
        for shard in np.unique(shards).tolist():
            chosen = shards == shard
            found[chosen] = parts[shard][places[chosen] - (ends[shard - 1] if shard else 0)]
        return normalize_for(metric, found)

    return rows


def _map(path: Path, dimension: int, count: int) -> NDArray[np.floating]:
    try:
        with contextlib.closing(pa.memory_map(str(path))) as source:
            column = pa.ipc.open_file(source).read_all()["vector"].combine_chunks()
    except (OSError, pa.ArrowInvalid, KeyError) as error:
        raise InputError(f"{path} is damaged: {error}", "remove it, and encode the texts again") from None
    if len(column) != count:
        raise InputError(f"{path} has {len(column):,} rows instead of {count:,}", "encode the texts again")
    flat: NDArray[np.floating] = column.flatten().to_numpy(zero_copy_only=True)
    return flat.reshape(-1, dimension)
