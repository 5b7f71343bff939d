"""An index from a folder to LanceDB, or back, with the vectors that it has."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sentemb._uris import is_remote
from sentemb.data.keywords import RULES
from sentemb.data.language import UNKNOWN
from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.search.address import SCHEME, in_lancedb
from sentemb.search.build import build_in
from sentemb.search.encoders import documents_encoder
from sentemb.search.folder import check_output, save_folder
from sentemb.search.keywords import AUTO
from sentemb.search.lancedb_table import batch_of, create
from sentemb.search.lancedb_view import LanceView, open_lance_view
from sentemb.search.manifest import Manifest
from sentemb.search.plan import Kind
from sentemb.search.prepared import Prepared
from sentemb.search.shards import Progress, encode_checked
from sentemb.search.vectors import comparable
from sentemb.search.view import Encode, View, open_view

_CHUNK = 1024


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
        InputError: No index at the source, one at the target, or a source that keeps no vectors or maps
            queries to another encoder's.
    """
    report = progress or (lambda stage, done, total: None)
    if in_lancedb(source) == in_lancedb(target):
        raise InputError(
            f"{source} and {target} are both {'in LanceDB' if in_lancedb(source) else 'folders'}",
            "use a folder and lancedb:URI, or copy the files",
        )
    if in_lancedb(target):
        return _to_lancedb(Path(source), target, report)
    return _to_folder(source, Path(target), report)


def _to_lancedb(source: Path, target: str, report: Progress) -> Manifest:
    view = open_view(source, verify=True)
    if view.adapter is not None:
        raise InputError(
            f"{source} uses an adapter, which cannot be moved",
            "encode its documents with the new encoder first: run `sentemb index upgrade` without --adapter",
        )
    if not view.segments.base.keeps_vectors:
        raise InputError(
            f"the {view.manifest.factory} index in {source} does not store the vectors", "build it again"
        )
    facts = replace(view.manifest, files={}, living=None, lineage="", rescored=0, keyword_rules=RULES)
    facts = replace(facts, language=view.manifest.language or UNKNOWN)
    with _leaving_nothing(target):
        create(target, facts, _batches(view, facts, _vectors_of(view, source), report))
    return open_lance_view(target).manifest


@contextlib.contextmanager
def _leaving_nothing(target: str) -> Iterator[None]:
    """Remove a new folder after a failure."""
    place = Path(target.removeprefix(SCHEME))
    made = not is_remote(target.removeprefix(SCHEME)) and not place.exists()
    try:
        yield
    except BaseException:
        if made:
            shutil.rmtree(place, ignore_errors=True)
        raise


def _vectors_of(view: View, source: Path) -> Encode:
    """The vectors of texts: encoded again where codes keep too little of them."""
    if not view.manifest.rescored:
        return view.vectors_of
    encoder = documents_encoder(view, source)
    return lambda texts: comparable(encode_checked(encoder, texts), view.manifest.metric)


def _batches(view: View, facts: Manifest, encode: Encode, report: Progress) -> Iterator[pa.RecordBatch]:
    prepared = view.store.prepared()
    done = 0
    while chunk := list(islice(prepared, _CHUNK)):
        vectors = encode([text for one in chunk for text in one.texts])
        yield batch_of(facts, chunk, done, vectors)
        done += len(chunk)
        report("index", done, facts.documents)


def _to_folder(source: str, target: Path, report: Progress) -> Manifest:
    check_output(target, overwrite=False)
    view = open_lance_view(source)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.moving-", dir=_existing(target)))
    facts = view.table.facts
    kind: Kind | str = facts.kind if facts.asked else "auto"
    try:
        manifest, vectors, store = build_in(
            folder,
            (prepared for prepared, _ in view.prepared()),
            _InOrder(view, facts),
            facts.encoder,
            kind=kind,  # type: ignore[arg-type]
            metric="dot",  # the vectors have the length that they are to have
            memory_budget=None,
            progress=report,
            allow_empty=True,
            language=facts.language or AUTO,
        )
        kept = replace(
            manifest,
            metric=facts.metric,
            asked=facts.asked,
            truncate=facts.truncate,
            overlap=facts.overlap,
            hybrid=facts.hybrid,
            next_id=facts.next_id,
        )
        writers: Any = {"vectors": vectors.write, "documents": store.copy_to}
        return save_folder(target, kept, writers, overwrite=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _InOrder:
    """Gives vectors to texts in the order of the documents, in which a build asks for each once."""

    def __init__(self, view: LanceView, facts: Manifest) -> None:
        self.name, self.fingerprint = facts.encoder.name, facts.encoder.fingerprint
        self.dimension = facts.dimension
        self._details = facts.encoder.details
        self._pairs = self._all(view)

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        return np.stack([next(vector for text, vector in self._pairs if text == wanted) for wanted in texts])

    def describe(self) -> dict[str, Any]:
        return self._details

    @staticmethod
    def _all(view: LanceView) -> Iterator[tuple[str, Any]]:
        prepared: Prepared
        for prepared, vectors in view.prepared():
            yield from zip(prepared.texts, vectors, strict=True)


def _existing(target: Path) -> Path:
    return next(parent for parent in target.absolute().parents if parent.exists())
