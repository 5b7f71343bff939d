"""Compaction: the index that a fresh build of the live documents makes, without encoding them again."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sentemb.data.language import UNKNOWN
from sentemb.encoding.encoder import TextEncoder, Vectors
from sentemb.errors import InputError
from sentemb.search.build import build_in
from sentemb.search.calibration import Calibration, calibrate, draw
from sentemb.search.encoders import documents_encoder
from sentemb.search.folder import WORK, Writers, changing, place
from sentemb.search.keywords import AUTO
from sentemb.search.living import LivingStore
from sentemb.search.manifest import EncoderFacts, Manifest, Recall
from sentemb.search.plan import Kind, estimate_bytes, ideal_lists, suits_ivfpq
from sentemb.search.prepared import Prepared
from sentemb.search.rescoring import Rescore, rescores
from sentemb.search.shards import SHARD_TEXTS, EncodedTexts, Progress
from sentemb.search.store import DocumentStore
from sentemb.search.vectors import VectorIndex
from sentemb.search.view import View, open_view

# A build would make so many times more or fewer lists: then they are made anew.
_MORE_OR_LESS = 1.5


class _Stored:
    """An encoder that looks its vectors up."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.name = view.manifest.encoder.name
        self.fingerprint = view.manifest.encoder.fingerprint
        self.dimension = view.manifest.dimension

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        return self._view.vectors_of(texts)

    def describe(self) -> dict[str, Any]:
        return self._view.manifest.encoder.details


def compact(
    path: Path,
    encoder: Callable[[], TextEncoder] | None = None,
    *,
    kind: Kind | Literal["auto"] | None = None,
    memory_budget: int | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Merge what was written into one faiss segment and give the space of what was deleted back.

    Readers go on with the old files, which are gone when the last of them has turned to the new ones.

    Args:
        path: The index folder.
        encoder: Loads the encoder of its documents, should their texts rank the candidates of codes; by
            default from where it was.
        kind: `flat`, `hnsw`, `ivfpq` or `auto`; by default the kind that was asked for, if any. One that was
            chosen by size is chosen again, unless it is `ivfpq`.
        memory_budget: Bytes the index may take in memory; an IVF-PQ index keeps its size per vector by
            default.
        progress: Called with `(stage, done, total)`.

    Returns:
        The manifest of the compacted index.

    Raises:
        InputError: No index, a damaged one, or an IVF-PQ index without re-ranking codes, which cannot be made
            into another.
    """
    Manifest.read(path)  # a place without an index gets no lock
    with changing(path):
        manifest = Manifest.read(path)
        view = open_view(path, verify=False)
        unchanged = manifest.living is None and manifest.has_keywords
        if unchanged and kind in (None, manifest.kind) and memory_budget is None:
            calibrated = replace(manifest, calibration=_calibration(view))
            return manifest if calibrated == manifest else place(path, calibrated, {})
        if not view.segments.base.keeps_vectors:
            raise InputError(
                f"{path} cannot be compacted: its {manifest.factory} index does not store enough of the "
                "vectors",
                "build the index again",
            )
        folder = path / WORK
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        keeps = kind is None and memory_budget is None and _keeps_codes(view)
        load = encoder or partial(documents_encoder, view, path)
        with rebuilt(
            view,
            folder,
            view.store.prepared(),
            load() if manifest.rescored and not keeps else _Stored(view),
            manifest.encoder,
            again=load if rescores(_rescore(manifest), manifest.documents_encoder.details) else None,
            kind=kind,
            memory_budget=memory_budget,
            progress=progress,
        ) as (built, writers):
            kept = replace(
                built,
                lineage=manifest.line,
                adapter=manifest.adapter,
                files=manifest.kept,
                hybrid=manifest.hybrid,
            )
            return place(path, kept, writers)


@contextlib.contextmanager
def rebuilt(
    view: View,
    folder: Path,
    prepared: Iterator[Prepared],
    encoder: TextEncoder,
    facts: EncoderFacts,
    *,
    again: Callable[[], TextEncoder] | None,
    kind: Kind | Literal["auto"] | None,
    memory_budget: int | None,
    progress: Progress | None,
) -> Iterator[tuple[Manifest, Writers]]:
    """Build the documents of a view again, by default of the same kind; see `compact` and `build_in`."""
    before = replace(view.manifest, dimension=encoder.dimension)
    same = kind is None and _keeps_kind(before)
    merged = same and memory_budget is None and isinstance(encoder, _Stored) and _keeps_codes(view)
    if same and memory_budget is None and view.segments.base.keeps_vectors:
        memory_budget = _same_size(view.manifest, encoder.dimension)
    built, vectors, store = build_in(
        folder,
        prepared,
        encoder,
        facts,
        kind=before.kind if same else kind or "auto",
        metric=before.metric,
        memory_budget=memory_budget,
        progress=progress or (lambda stage, done, total: None),
        allow_empty=True,
        language=AUTO if before.language in (None, UNKNOWN) else before.language,
        again=again,
        merge=partial(_merged, view) if merged else None,
    )
    kept = replace(
        built,
        left_out=before.left_out,
        truncate=before.truncate,
        overlap=before.overlap,
        asked=before.asked if kind is None else built.asked,
        reason=before.reason if same else built.reason,
        factory=before.factory if merged else built.factory,
        next_id=view.store.next_id() if isinstance(view.store, LivingStore) else before.next_id,
    )
    try:
        yield kept, {"vectors": vectors.write, "documents": store.copy_to}
    finally:
        store.close()


def _rescore(facts: Manifest) -> Rescore:
    """What ranks the candidates of codes from now on."""
    if facts.kind != "ivfpq":
        return "auto"
    return "texts" if facts.rescored else "never"


def _calibration(view: View) -> Calibration | None:
    """What scores mean, where it is not known yet and the vectors are kept."""
    drawn = draw(view.manifest.vectors)
    if view.manifest.calibration or drawn is None or not view.segments.base.keeps_vectors:
        return view.manifest.calibration
    return calibrate(view.segments.rows(drawn))


def _keeps_kind(facts: Manifest) -> bool:
    """Whether the kind stays when none is asked for."""
    if facts.kind == "ivfpq":  # it may have been chosen for a budget that is not known any more
        return suits_ivfpq(facts.vectors, facts.dimension)
    return facts.asked


def _keeps_codes(view: View) -> bool:
    """Whether the lists suit so many vectors still, so that no vector has to be rounded again."""
    lists = view.segments.base.lists
    return lists > 0 and 1 / _MORE_OR_LESS <= ideal_lists(view.manifest.vectors) / lists <= _MORE_OR_LESS


def _merged(view: View, store: DocumentStore, encoded: EncodedTexts) -> tuple[VectorIndex, Recall]:
    """The codes of the vectors that are alive, under their new numbers, and those of what was written."""
    steps = range(0, encoded.count, SHARD_TEXTS)
    texts = (store.texts(start, min(start + SHARD_TEXTS, encoded.count)) for start in steps)
    old = np.array([number for some in texts for number in view.store.numbers_of(some)], dtype=np.int64)
    base = view.segments.base
    there = old < len(base)
    index = base.kept(old[there], np.flatnonzero(there))
    for numbers, vectors in encoded:
        written = ~there[numbers]
        index.add(vectors[written], numbers[written])
    return index, view.manifest.recall


def _same_size(facts: Manifest, dimension: int) -> int | None:
    """Memory for IVF-PQ codes as fine as those of now, also of longer vectors."""
    if facts.kind != "ivfpq":
        return None
    size = estimate_bytes(facts.factory, facts.vectors, facts.dimension) * 105 // 100
    return size * max(facts.dimension, dimension) // facts.dimension
