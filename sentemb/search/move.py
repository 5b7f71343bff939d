"""An index from a folder to LanceDB, or back, with the vectors that it has."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import tee
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sentemb._files import writing
from sentemb._uris import is_remote
from sentemb.data.words import UNKNOWN, language_of
from sentemb.encoding.encoder import Vectors
from sentemb.encoding.shards import ShardFolder, refuse_repeated_ids
from sentemb.errors import InputError
from sentemb.search.building import BuildOptions, build, checked_source, shard_documents, stored_rows
from sentemb.search.documents import Batches, ChunkedDocument, Document, Progress, as_documents, normalize_for
from sentemb.search.folder import check_output
from sentemb.search.index import LANCEDB, SearchIndex
from sentemb.search.keywords import AUTO, SAMPLE
from sentemb.search.lancedb import (
    NAME,
    NOTE,
    LanceStore,
    connect,
    create_indexes,
    fit_columns,
    schema_of,
    table_of,
    tables_of,
)
from sentemb.search.local import LocalStore
from sentemb.search.manifest import EncoderFacts, Manifest, calibrate
from sentemb.search.plan import Metric
from sentemb.search.store import BATCH, Snapshot, batches
from sentemb.search.vectors import Rows

_COMMITTED = 16_384


def move(source: str, target: str, *, progress: Progress | None = None) -> Manifest:
    """Write the documents of an index to another place, without encoding them again.

    The index at `source` stays. Nobody can open the index at `target` until it is complete. After an
    interruption the same call resumes what was committed to LanceDB, if the source has not changed.

    Args:
        source: An index folder, or `lancedb:URI`.
        target: The other of the two.
        progress: Called with `(stage, done, total)`.

    Returns:
        What is known of the index at `target`.

    Raises:
        InputError: There is no index at the source, or one at the target.
    """
    report = progress or (lambda stage, done, total: None)
    is_lance = [place.startswith(LANCEDB) for place in (source, target)]
    if is_lance[0] == is_lance[1]:
        raise InputError(
            f"{source} and {target} are both {'in LanceDB' if is_lance[0] else 'folders'}",
            "use a folder and lancedb:URI, or copy the files",
        )
    store = SearchIndex.open(source).store
    if isinstance(store, LocalStore):
        with store.snapshot() as snapshot:
            facts = replace(
                snapshot.manifest, abstention=None, rescored=0, keeps_vectors=True, cache="", cached=0
            )
            state = f"{store.database.name} {snapshot.state.version}"
            return create(target, facts, batches(snapshot), state, report)
    with store.snapshot() as there:
        _write_folder(there, Path(target), report)
    with LocalStore(Path(target)).snapshot() as moved:
        return moved.manifest


def _write_folder(there: Snapshot, target: Path, progress: Progress) -> None:
    """Build an index folder of the documents and vectors in a store."""
    check_output(target, overwrite=False)
    facts = replace(there.manifest, calibration=None, documents=0, vectors=0)
    options = BuildOptions(
        kind=facts.kind if facts.kind_requested else "auto",
        language=AUTO if facts.language == UNKNOWN else facts.language,
        allow_empty=True,
    )
    read, chunked = tee(there.rows())

    def chunk(documents: Iterator[Document]) -> Iterator[ChunkedDocument]:
        pairs = zip(documents, chunked, strict=True)
        return (own._replace(document=document) for document, own in pairs)

    parent = next(parent for parent in target.absolute().parents if parent.exists())
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.moving-", dir=parent) as folder:

        def copy_vectors(texts: Iterator[list[str]], count: int) -> Rows:
            file, shape = Path(folder, "vectors.npy"), (max(1, count), facts.dimension)
            rows = np.lib.format.open_memmap(file, "w+", np.dtype(np.float32), shape)
            done = 0
            for _, vectors in batches(there):
                rows[done : done + len(vectors)] = vectors
                done += len(vectors)
                progress("encode", done, count)
            return lambda places: np.asarray(rows[places])

        documents = (own.document for own in read)
        made = build(Path(folder), documents, chunk, copy_vectors, facts, options, progress)
        made.save(target, overwrite=False)


def fill_lancedb(
    shards: ShardFolder,
    address: str,
    encoder: str | Path | None = None,
    *,
    metric: Metric | None = None,
    language: str = AUTO,
    progress: Progress | None = None,
) -> Manifest:
    """Write the documents and vectors that `sentemb encode` wrote to LanceDB.

    Nobody can open the index until it is complete; after an interruption the same call resumes it.

    Args:
        shards: The folder.
        address: `lancedb:` and a folder or URI.
        encoder: Where its model is now; by default where it was.
        metric: How vectors are compared; by default the similarity that the model was trained for.
        language: Code of the documents' language.
        progress: Called with `(stage, done, total)`.

    Returns:
        What is known of the index.

    Raises:
        InputError: The folder is damaged, another encoder made it, an id occurs twice, or the address has an
            index.
    """
    report = progress or (lambda stage, done, total: None)
    source, loaded = checked_source(shards, encoder)
    options = BuildOptions(metric=metric, language=language)
    facts = options.manifest(loaded, EncoderFacts.of(loaded, source.model, source))
    count, rows = len(shards), stored_rows(shards.files, shards.rows, shards.dimension, facts.metric)
    some: list[str] = []
    for place, document in enumerate(refuse_repeated_ids(as_documents(shard_documents(shards)))):
        if place % max(1, count // SAMPLE) == 0:
            some.append(document.text)
        if place % BATCH == 0:
            report("read", place, count)
    facts = replace(
        facts,
        reason="LanceDB chooses the kind of its index itself",
        language=language_of(some) if language == AUTO else language,
        documents=count,
        calibration=calibrate(count, rows),
    )

    def batches() -> Batches:
        documents = map(ChunkedDocument, shard_documents(shards))
        for batch in shards.batches(BATCH):
            yield [next(documents) for _ in batch.ids], normalize_for(facts.metric, batch.vectors)

    return create(address, facts, batches(), f"{shards.content} {facts.metric} {facts.language}", report)


def create(address: str, facts: Manifest, batches: Batches, source: str, progress: Progress) -> Manifest:
    """Make an index in LanceDB, or finish an interrupted one: a committed batch is not written again.

    `facts` says what is known of it, with the number of its documents. `source` says what they come from, and
    in what state that is: what was written of another source is dropped.
    """
    place = address.removeprefix(LANCEDB)
    is_new = not is_remote(place) and not Path(place).exists()
    done = 0
    with writing(place):
        database = connect(address)
        tables = tables_of(database)
        if NAME in tables and NOTE not in tables:
            raise InputError(
                f"{address} already contains an index", "choose another place, or remove it first"
            )
        if {NAME, NOTE} <= tables and database.open_table(NOTE).to_arrow()["note"].to_pylist() == [source]:
            done = int(database.open_table(NAME).count_rows("part = 0"))
        try:
            if not done:
                _drop(database)
                database.create_table(NOTE, pa.table({"note": [source]}))
                database.create_table(NAME, schema=schema_of(facts))
            table = database.open_table(NAME)
            for documents, vectors in _rest(batches, done):
                table.add(fit_columns(table, table_of(facts, documents, done + 1, vectors)))
                done += len(documents)
                progress("index", done, facts.documents)
            create_indexes(table, facts)
            database.drop_table(NOTE)
        except BaseException:
            if not done:  # nothing that the same command could resume
                _drop(database)
                if is_new:
                    shutil.rmtree(place, ignore_errors=True)
            raise
    with LanceStore(address).snapshot() as snapshot:
        return snapshot.manifest


def _drop(database: Any) -> None:
    for name in (NAME, NOTE):
        database.drop_table(name, ignore_missing=True)


def _rest(batches: Batches, skipped: int) -> Batches:
    """Yield larger batches, each of which is one version of the table, without the first documents."""
    documents: list[ChunkedDocument] = []
    vectors: list[Vectors] = []
    for some, rows in batches:
        passed = min(skipped, len(some))
        skipped -= passed
        documents += some[passed:]
        vectors.append(rows[sum(len(one.texts) for one in some[:passed]) :])
        if len(documents) >= _COMMITTED:
            yield documents, np.concatenate(vectors)
            documents, vectors = [], []
    if documents:
        yield documents, np.concatenate(vectors)
