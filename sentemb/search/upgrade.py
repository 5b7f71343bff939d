"""Another encoder for an index that is there: documents encoded again, or queries mapped to its vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from sentemb.encoding.encoder import TextEncoder, Vectors
from sentemb.encoding.roles import for_role
from sentemb.errors import InputError
from sentemb.search.adapter import FEWEST_TEXTS, learn
from sentemb.search.compaction import rebuilt
from sentemb.search.folder import changing, place
from sentemb.search.manifest import AdapterFacts, EncoderFacts, Manifest
from sentemb.search.plan import Kind, Metric
from sentemb.search.prepared import Truncate
from sentemb.search.rescoring import again, metric_of
from sentemb.search.shards import SHARD_TEXTS, Progress, encode_checked
from sentemb.search.truncation import Truncation
from sentemb.search.vectors import Numbers, comparable
from sentemb.search.view import View, open_view
from sentemb.search.work import locked

SAMPLE = 5_000
"""Texts from which a map is learned by default; with 4,000 its recall is some hundredths above 1,000."""


class Upgraded(NamedTuple):
    """What an upgrade has come to.

    Args:
        manifest: That of the index now.
        how: `encoded` all documents again; `adapted` queries to their vectors; `restored` the encoder of the
            documents for queries; or `unchanged`, as the index has this encoder already.
    """

    manifest: Manifest
    how: Literal["encoded", "adapted", "restored", "unchanged"]


def upgrade(
    path: Path,
    encoder: TextEncoder,
    facts: EncoderFacts,
    work: Path,
    *,
    adapter: bool,
    sample: int,
    truncate: Truncate | None,
    kind: Kind | Literal["auto"] | None,
    memory_budget: int | None,
    progress: Progress,
) -> Upgraded:
    """Change the encoder of an index folder; see `SearchIndex.upgrade`."""
    if sample < FEWEST_TEXTS:
        raise InputError(f"a sample of {sample:,} texts is too small", f"choose at least {FEWEST_TEXTS}")
    Manifest.read(path)  # a place without an index gets no lock
    with locked(work), changing(path):
        manifest = Manifest.read(path)
        made = manifest.documents_encoder
        if facts.fingerprint == made.fingerprint:
            if manifest.adapter is None:
                return Upgraded(manifest, "unchanged")
            return Upgraded(_restored(path, manifest, facts), "restored")
        if adapter:
            if facts.fingerprint == manifest.encoder.fingerprint:
                return Upgraded(manifest, "unchanged")
            return Upgraded(_adapted(path, manifest, made, encoder, facts, sample, progress), "adapted")
        view = open_view(path, verify=False)
        view = replace(view, manifest=replace(view.manifest, metric=_metric(view.manifest, encoder)))
        of_documents = for_role(encoder, "document")
        truncation = Truncation(of_documents, truncate or view.manifest.truncate, view.manifest.overlap)
        building = rebuilt(
            view,
            work,
            truncation.prepared(before.document for before in view.store.prepared()),
            of_documents,
            facts,
            again=again(of_documents, "auto"),
            kind=kind,
            memory_budget=memory_budget,
            progress=progress,
        )
        with building as (built, writers):
            kept = replace(built, truncate=truncate or built.truncate)
            return Upgraded(place(path, kept, writers), "encoded")


def _metric(manifest: Manifest, encoder: TextEncoder) -> Metric:
    """The metric that another encoder was trained for, unless the index was built with a metric of choice."""
    before = manifest.documents_encoder.details.get("similarity", "cosine")
    return metric_of(encoder) if manifest.metric == before else manifest.metric


def _restored(path: Path, manifest: Manifest, facts: EncoderFacts) -> Manifest:
    files = manifest.files.copy()
    del files["adapter"]
    restored = replace(manifest, encoder=facts, adapter=None, hybrid=None, files=files, lineage=manifest.line)
    return place(path, restored, {})


def _adapted(
    path: Path,
    manifest: Manifest,
    made: EncoderFacts,
    encoder: TextEncoder,
    facts: EncoderFacts,
    sample: int,
    progress: Progress,
) -> Manifest:
    view = open_view(path, verify=False)
    if not view.segments.base.keeps_vectors:
        raise InputError(
            f"the {manifest.factory} index in {path} does not store enough of the vectors to learn an "
            "adapter",
            "run the command without --adapter to encode the documents again",
        )
    alive = view.segments.alive
    if len(alive) < FEWEST_TEXTS:
        raise InputError(
            f"an adapter needs at least {FEWEST_TEXTS} texts, but {path} has {len(alive):,}",
            "run the command without --adapter to encode the documents again",
        )
    drawn = np.sort(np.random.default_rng(4).choice(alive, min(sample, len(alive)), replace=False))
    new = comparable(_encoded(view, drawn, for_role(encoder, "document"), progress), manifest.metric)
    learned = learn(new, view.segments.rows(drawn))
    note = AdapterFacts(
        documents=made,
        dimension=encoder.dimension,
        sample=len(drawn),
        method=learned.method,
        recall_new=learned.recall_new,
        recall_old=learned.recall_old,
        unadapted=learned.unadapted,
        queries=learned.queries,
        corpus=learned.corpus,
    )
    adapted = replace(manifest, encoder=facts, adapter=note, hybrid=None, lineage=manifest.line)
    return place(path, adapted, {"adapter": learned.adapter.write})


def _encoded(view: View, numbers: Numbers, encoder: TextEncoder, progress: Progress) -> Vectors:
    """The vectors that an encoder gives for some texts of an index."""
    found = []
    for start in range(0, len(numbers), SHARD_TEXTS):
        texts = view.store.texts_of(numbers[start : start + SHARD_TEXTS].tolist())
        found.append(encode_checked(encoder, texts))
        progress("encode", start + len(texts), len(numbers))
    return np.concatenate(found)
