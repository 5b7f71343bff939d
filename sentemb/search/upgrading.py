"""Another encoder for an index that exists: its documents are encoded again."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Literal

from sentemb.encoding.encoder import EncoderSpec, TextEncoder, for_role
from sentemb.search.building import Building, BuildOptions
from sentemb.search.chunks import Truncate, chunk_documents
from sentemb.search.encoded import Progress
from sentemb.search.encoders import facts_of, resolve
from sentemb.search.folder import building
from sentemb.search.local import LocalStore
from sentemb.search.manifest import EncoderFacts, Manifest
from sentemb.search.plan import Kind, Metric
from sentemb.search.rescoring import encodes_again, metric_of


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
    loaded = resolve(encoder)
    with tempfile.TemporaryDirectory(prefix="sentemb-index-") as temporary:
        _upgrade(
            path,
            loaded,
            facts_of(loaded, encoder, source),
            Path(temporary if work_dir is None else work_dir),
            truncate=truncate,
            kind=kind,
            memory_budget=memory_budget,
            progress=progress,
        )
    return loaded


def _upgrade(
    path: Path,
    encoder: TextEncoder,
    facts: EncoderFacts,
    work: Path,
    *,
    truncate: Truncate | None,
    kind: Kind | Literal["auto"] | None,
    memory_budget: int | None,
    progress: Progress,
) -> None:
    store = LocalStore(path)
    of_documents = for_role(encoder, "document")
    with building(work), store.alone(), store.snapshot() as snapshot:
        before = snapshot.manifest
        if before.encoder.fingerprint == of_documents.fingerprint:
            return
        policy: Truncate = truncate or before.truncate
        options = BuildOptions(
            kind=kind or (before.kind if before.asked else "auto"),
            metric=_metric(before, encoder),
            memory_budget=memory_budget,
            language=before.language,
            encodes_again=encodes_again("auto", of_documents.describe()),
            truncate=policy,
            overlap=before.overlap,
            allow_empty=True,
        )
        made = Building(work, facts, of_documents.dimension, options, progress).encode(
            (chunked.document for chunked in snapshot.rows()),
            lambda some: chunk_documents(some, of_documents, policy, before.overlap),
            of_documents,
        )
        made.copy_to(path)


def _metric(before: Manifest, encoder: TextEncoder) -> Metric:
    """Return the metric that an encoder was trained for, unless the index was built with one of choice."""
    trained = before.encoder.details.get("similarity", "cosine")
    return metric_of(encoder) if before.metric == trained else before.metric
