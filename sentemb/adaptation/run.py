"""`adapt`: from documents to a folder that plain sentence-transformers loads."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from sentemb.adaptation.config import (
    DEFAULT_TEACHER,
    FINISHED,
    NO_TEACHER,
    RAW,
    SETTINGS,
    STATIC,
    TAUGHT,
    AdaptConfig,
)
from sentemb.adaptation.held_out import most_pairs_of_a_batch
from sentemb.adaptation.outcome import Adapted
from sentemb.adaptation.session import AdaptSession
from sentemb.data.documents import Document, read_unique_documents
from sentemb.data.language import language_of
from sentemb.modules import is_finished_encoder, load
from sentemb.modules.loading import default_pooling
from sentemb.modules.source import find_source
from sentemb.pretraining.throughput import faster_precision
from sentemb.training.folder import RunFolder
from sentemb.training.progress import ConsoleProgress, without_upstream_bars
from sentemb.training.ranks import refuse_several

_READ = 1000  # documents from which the language is detected


def adapt(
    documents: str | Path | Sequence[Document],
    base: str,
    output: str | Path,
    *,
    resume: bool = False,
    progress: ConsoleProgress | None = None,
    **settings: Any,
) -> Adapted:
    """Adapt an encoder to documents, without labels, and predict whether that helps on real queries.

    Training pairs of a query and its document are made from the structure of the documents and trained on
    with in-batch negatives. The trained weights are averaged with the base's in a few ratios. Queries
    generated from held-out documents predict the change of each on real queries. The best is returned if a
    gain is likely (88 %); otherwise the folder holds the base as it was.

    With a teacher, the model learns the teacher's similarities of the texts of a batch. A pretrained
    transformer without sentence-level training has the bundled encoder as teacher for English documents;
    `teacher="none"` trains it on pairs alone.

    Args:
        documents: What `read_unique_documents` takes, or documents that are read already.
        base: Encoder: a folder, a hub id or a bundled model; also a pretrained transformer or a static model.
        output: Folder for the model, its card, and all about the run in `run/`.
        resume: Resume the interrupted run in the folder, if there is one.
        progress: Where to show progress.
        **settings: Fields of `AdaptConfig`, such as `minutes`, `max_steps`, `teacher`, `layers`,
            `max_forgetting`, `seeds`.

    Returns:
        The outcome.

    Raises:
        InputError: The documents, the base, a setting or the folder cannot be used.
        Interrupted: The user stopped the run, which can be resumed.

    Example:
        >>> adapt("docs/", "all-MiniLM-L6-v2", "mine").verdict()  # doctest: +SKIP
    """
    refuse_several("adaptation")
    given = {name: value for name, value in settings.items() if value is not None}
    read: Sequence[Document] = (
        read_unique_documents(
            documents,
            text_column=given.get("text_column"),
            title_column=given.get("title_column"),
            data_dir=given.get("data_dir"),
        )
        if isinstance(documents, str | Path)
        else documents
    )
    source = str(documents) if isinstance(documents, str | Path) else f"{len(documents)} documents"
    config, kind = configured(read, base, output, {"documents": source, **given})
    RunFolder(Path(config.output)).check(config, resume=resume)
    with without_upstream_bars():
        session = AdaptSession(config, read, kind=kind, progress=progress)
        session.run(resume=resume)
    shutil.rmtree(session.kept_vectors, ignore_errors=True)
    assert session.outcome is not None  # the run is over
    return session.outcome


def configured(
    documents: Sequence[Document], base: str, output: str | Path, given: Mapping[str, Any]
) -> tuple[AdaptConfig, str]:
    """Return the configuration of an adaptation with the defaults of its kind of base, and the kind.

    Args:
        documents: The documents.
        base: The base.
        output: Folder of the run.
        given: Fields that are not the defaults.
    """
    kind = kind_of_base(base)
    # Token vectors are looked up, not multiplied.
    values = {**SETTINGS[kind], "precision": "float32" if kind == STATIC else faster_precision()}
    if kind == RAW:
        values["pooling"] = default_pooling(find_source(base))
    (seed,) = given.get("seeds", (1,))[:1]
    values["batch_size"] = min(values["batch_size"], most_pairs_of_a_batch(documents, seed=seed))
    teacher = _teacher(given.get("teacher"), kind, documents)
    values |= TAUGHT if teacher else {}
    values |= {"documents": f"{len(documents)} documents", **given, "teacher": teacher}
    config = AdaptConfig(base=base, output=str(output), **values)
    config.check_single_seed("adapt")
    return config, kind


def _teacher(asked: str | None, kind: str, documents: Sequence[Document]) -> str | None:
    """Return the requested teacher; by default the bundled encoder for a pretrained base and English."""
    if asked is not None:
        return None if asked == NO_TEACHER else asked
    bundled = kind == RAW and language_of(document.whole for document in documents[:_READ]) == "en"
    return DEFAULT_TEACHER if bundled else None


def kind_of_base(base: str) -> str:
    """Return whether a base is a static model, a sentence encoder or a pretrained transformer."""
    if not is_finished_encoder(base):
        return RAW
    return STATIC if isinstance(load(base)[0], StaticEmbedding) else FINISHED
