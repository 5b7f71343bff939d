"""From documents to vectors in a faiss index, with bounded memory."""

from __future__ import annotations

import datetime
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import faiss
import numpy as np

from sentemb import __version__
from sentemb.data.keywords import RULES
from sentemb.encoding.encoder import TextEncoder, Vectors
from sentemb.errors import InputError
from sentemb.search.calibration import calibrate, draw
from sentemb.search.keywords import AUTO, write_keywords
from sentemb.search.manifest import EncoderFacts, Manifest, Recall
from sentemb.search.plan import IndexPlan, Kind, Metric, format_bytes, plan_index
from sentemb.search.prepared import Prepared
from sentemb.search.recall import ExactNeighbours, hold_out, tune_and_measure
from sentemb.search.rescoring import STEPS, VectorsOf
from sentemb.search.shards import EncodedTexts, Progress, encode_checked, encode_texts
from sentemb.search.store import DocumentStore, disk_errors, write_store
from sentemb.search.vectors import VectorIndex, comparable
from sentemb.search.work import SHARDS, locked

logger = logging.getLogger(__name__)

_REPORT_EVERY = 1000

Merge = Callable[[DocumentStore, EncodedTexts], tuple[VectorIndex, Recall]]
"""Makes the vectors' index of the texts in a store where not all of it is new."""


def build_at(
    work_dir: str | Path | None, *what: Any, **options: Any
) -> tuple[Path, Manifest, VectorIndex, DocumentStore]:
    """Build in a work folder, or in a temporary one; see `build_in`.

    Returns:
        The folder, which the caller removes in time, and what was built.
    """
    folder = Path(tempfile.mkdtemp(prefix="sentemb-index-")) if work_dir is None else Path(work_dir)
    try:
        with locked(folder):
            return folder, *build_in(folder, *what, **options)
    except BaseException:
        if work_dir is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def build_in(
    folder: Path,
    documents: Iterable[Prepared],
    encoder: TextEncoder,
    facts: EncoderFacts,
    *,
    kind: Kind | Literal["auto"],
    metric: Metric,
    memory_budget: int | None,
    progress: Progress,
    allow_empty: bool = False,
    language: str = AUTO,
    again: Callable[[], TextEncoder] | None = None,
    merge: Merge | None = None,
) -> tuple[Manifest, VectorIndex, DocumentStore]:
    """Build an index in a work folder that nobody else uses.

    Of no documents at all where that is allowed; `again` loads the encoder that shall encode the texts of
    candidates, if codes are kept; `merge` makes the vectors' index where not all of it is new.
    """
    path = folder / "documents.sqlite"
    counts = write_store(path, _counted(documents, progress))
    if counts.documents == 0 and not allow_empty:
        blank = f"; {counts.left_out} are blank" if counts.left_out else ""
        raise InputError(f"there are no documents to index{blank}", "pass at least one document with a text")
    plan = plan_index(
        counts.texts,
        encoder.dimension,
        kind=kind,
        memory_budget=memory_budget,
        rescored=again is not None,
    )
    progress("terms", 0, 1)
    with disk_errors(path):
        language = write_keywords(path, language)
    _check_disk(folder, counts.texts * encoder.dimension * 4, plan.bytes + path.stat().st_size)
    logger.info("%s", plan.reason)
    store = DocumentStore(path)
    progress("encode", 0, counts.texts)
    encoded = encode_texts(
        store,
        counts.texts,
        encoder,
        folder,
        fingerprint=facts.fingerprint,
        metric=metric,
        progress=progress,
    )
    if merge:
        vectors, recall = merge(store, encoded)
    else:
        texts = _looked_up(store, again(), metric) if again and plan.kind == "ivfpq" else None
        vectors, recall = _index(encoded, plan, texts, progress)
    manifest = Manifest(
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        encoder=facts,
        dimension=encoder.dimension,
        metric=metric,
        kind=plan.kind,
        factory=plan.factory,
        reason=plan.reason,
        effort=vectors.effort,
        recall=recall,
        rescored=vectors.texts,
        documents=counts.documents,
        vectors=counts.texts,
        left_out=counts.left_out,
        split=counts.split,
        cut=counts.cut,
        versions={"sentemb": __version__, "faiss": faiss.__version__, "numpy": np.__version__},
        files={},
        asked=kind != "auto",
        calibration=None if (drawn := draw(counts.texts)) is None else calibrate(encoded.rows(drawn)),
        language=language,
        keyword_rules=RULES,
    )
    return manifest, vectors, store


def _counted(documents: Iterable[Prepared], progress: Progress) -> Iterator[Prepared]:
    for number, document in enumerate(documents):
        if number % _REPORT_EVERY == 0:
            progress("read", number, 0)
        yield document


def _check_disk(folder: Path, vectors: int, index: int) -> None:
    already = sum(path.stat().st_size for path in folder.glob(SHARDS))
    wanted = max(0, vectors - already) + index
    free = shutil.disk_usage(folder).free
    if wanted > free:
        raise InputError(
            f"the build needs about {format_bytes(wanted)} of disk, but {folder.parent} has "
            f"{format_bytes(free)} free",
            "free some space, or choose another output folder",
        )


def _looked_up(store: DocumentStore, encoder: TextEncoder, metric: Metric) -> VectorsOf:
    """The vectors of texts by their numbers."""
    return lambda numbers: comparable(encode_checked(encoder, store.texts_of(numbers.tolist())), metric)


def _index(
    encoded: EncodedTexts, plan: IndexPlan, vectors_of: VectorsOf | None, progress: Progress
) -> tuple[VectorIndex, Recall]:
    index = VectorIndex.empty(plan.factory, plan.kind, encoded.dimension)
    held = np.empty(0, dtype=np.int64) if plan.kind == "flat" else hold_out(encoded.count)
    if wanted := index.training_size(encoded.count - len(held)):
        progress("train", 0, 1)
        index.train(_sample(encoded, held, wanted))
    queries = encoded.rows(held) if len(held) else np.empty((0, encoded.dimension), dtype=np.float32)
    exact = ExactNeighbours(queries)
    progress("index", 0, encoded.count)
    for numbers, vectors in encoded:
        kept = ~np.isin(numbers, held, assume_unique=True)
        index.add(vectors[kept], numbers[kept])
        if len(held):
            exact.add(vectors[kept], numbers[kept])
        progress("index", int(numbers[-1]) + 1, encoded.count)
    if plan.kind == "flat":
        return index, Recall(1.0, 0, 0, None)
    if not len(held):
        index.effort, index.texts = index.efforts()[-1], STEPS[1] if vectors_of else 0
        return index, Recall(None, 0, 0, None)
    progress("tune", 0, 1)
    recall = tune_and_measure(index, queries, exact.numbers(), vectors_of)
    index.add(queries, held)
    return index, recall


def _sample(encoded: EncodedTexts, held: np.ndarray, wanted: int) -> Vectors:
    free = np.setdiff1d(np.arange(encoded.count), held, assume_unique=True)
    return encoded.rows(np.sort(np.random.default_rng(1).choice(free, wanted, replace=False)))
