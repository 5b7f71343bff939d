"""An index from a folder to LanceDB, or back, with the vectors that it has."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from sentemb._uris import is_remote
from sentemb.data.keywords import RULES
from sentemb.data.language import language_of
from sentemb.encoding.encoder import Vectors
from sentemb.encoding.shards import ShardFolder, refuse_repeated_ids
from sentemb.errors import InputError
from sentemb.search.building import Building, BuildOptions, new_manifest, options_of
from sentemb.search.cache import calibration_of
from sentemb.search.chunks import ChunkedDocument
from sentemb.search.documents import Document, as_documents
from sentemb.search.encoded import EncodedTexts, Progress
from sentemb.search.encoders import facts_of
from sentemb.search.folder import check_output
from sentemb.search.index import LANCEDB, SearchIndex
from sentemb.search.keywords import AUTO, SAMPLE
from sentemb.search.lancedb import LanceStore, create
from sentemb.search.local import LocalStore
from sentemb.search.manifest import Manifest
from sentemb.search.plan import Metric
from sentemb.search.source import checked_source, documents_of_batch, shard_documents
from sentemb.search.store import Batches
from sentemb.search.vectors import Numbers, normalize_for

_BATCH = 1024


def move(source: str, target: str, *, progress: Progress | None = None) -> Manifest:
    """Write the documents of an index to another place, without encoding them again.

    The index at `source` stays. A move that fails or is killed leaves nothing that could be taken for an
    index at `target`.

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
    remote = [place.startswith(LANCEDB) for place in (source, target)]
    if remote[0] == remote[1]:
        raise InputError(
            f"{source} and {target} are both {'in LanceDB' if remote[0] else 'folders'}",
            "use a folder and lancedb:URI, or copy the files",
        )
    index = SearchIndex.open(source)
    if remote[1]:
        return _to_lancedb(index, target, report)
    return _to_folder(index, Path(target), report)


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

    Nobody can open the index until it is complete; after an interruption the same call starts it again.

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
    options = options_of(loaded, metric=metric, language=language)
    count, encoded = len(shards), EncodedTexts.of_folder(shards)
    step = max(1, count // SAMPLE)
    some: list[str] = []
    for place, document in enumerate(refuse_repeated_ids(as_documents(shard_documents(shards)))):
        if place % step == 0:
            some.append(document.text)
        if place % _BATCH == 0:
            report("read", place, count)
    facts = replace(
        new_manifest(facts_of(loaded, source.model, source), loaded.dimension, options),
        reason="LanceDB chooses the kind of its index itself",
        language=language_of(some) if language == AUTO else language,
        calibration=calibration_of(count, lambda places: normalize_for(options.metric, encoded.rows(places))),
    )

    def batches() -> Batches:
        for batch in shards.batches(_BATCH):
            documents = documents_of_batch(batch, shards)
            yield list(map(ChunkedDocument, documents)), normalize_for(options.metric, batch.vectors)

    with _leaving_nothing(address):
        create(address, facts, _reported(batches(), count, report))
    with LanceStore(address).snapshot() as made:
        return made.manifest


def _to_lancedb(index: SearchIndex, target: str, report: Progress) -> Manifest:
    with index.store.snapshot() as snapshot, _leaving_nothing(target):
        facts = replace(snapshot.manifest, rescored=0, keeps_vectors=True, cache="", cached=0)
        if not facts.has_keywords:
            facts = replace(facts, keyword_rules=RULES)
        create(target, facts, _reported(snapshot.batches(), facts.documents, report))
    with LanceStore(target).snapshot() as made:
        return made.manifest


def _reported(batches: Batches, count: int, report: Progress) -> Batches:
    done = 0
    for documents, vectors in batches:
        yield documents, vectors
        done += len(documents)
        report("index", done, count)


@contextlib.contextmanager
def _leaving_nothing(target: str) -> Iterator[None]:
    """Remove a new folder after a failure."""
    place = Path(target.removeprefix(LANCEDB))
    made = not is_remote(target.removeprefix(LANCEDB)) and not place.exists()
    try:
        yield
    except BaseException:
        if made:
            shutil.rmtree(place, ignore_errors=True)
        raise


def _to_folder(index: SearchIndex, target: Path, report: Progress) -> Manifest:
    check_output(target, overwrite=False)
    parent = next(parent for parent in target.absolute().parents if parent.exists())
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.moving-", dir=parent))
    facts = index.manifest
    options = BuildOptions(
        kind=facts.kind if facts.asked else "auto",
        metric=facts.metric,
        language=facts.language,
        truncate=facts.truncate,
        overlap=facts.overlap,
        allow_empty=True,
        normalized=True,
        hybrid=facts.hybrid,
    )
    try:
        with index.store.snapshot() as snapshot, (folder / "vectors").open("w+b") as file:
            rows = _Rows(snapshot.batches(), file, facts.dimension)
            building = Building(folder, facts.encoder, facts.dimension, options, report)
            building.take(rows.documents(), rows, rows.chunked).save(target, overwrite=False)
        with LocalStore(target).snapshot() as made:
            return made.manifest
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Rows:
    """Documents in their order with the chunks that they have, whose vectors go to a file meanwhile."""

    def __init__(self, batches: Batches, file: BinaryIO, dimension: int) -> None:
        self._batches, self._file, self._dimension = batches, file, dimension
        self._pending: deque[ChunkedDocument] = deque()
        self._count = 0

    def documents(self) -> Iterator[Document]:
        for documents, vectors in self._batches:
            self._file.write(np.ascontiguousarray(vectors, dtype=np.float32).tobytes())
            self._count += len(vectors)
            for one in documents:
                self._pending.append(one)
                yield one.document

    def chunked(self, documents: Iterator[Document]) -> Iterator[ChunkedDocument]:
        for document in documents:
            yield self._pending.popleft()._replace(document=document)

    def __len__(self) -> int:
        return self._count

    def rows(self, places: Numbers) -> Vectors:
        self._file.flush()
        if not self._count:
            return np.empty((0, self._dimension), dtype=np.float32)
        every = np.memmap(self._file.name, np.float32, "r", shape=(self._count, self._dimension))
        return np.asarray(every[places])
