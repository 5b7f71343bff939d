"""Documents and vectors that `sentemb encode` has written, as a build takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sentemb.encoding.encoder import TextEncoder, Vectors
from sentemb.encoding.roles import for_role
from sentemb.encoding.shards import Batch, ShardFolder
from sentemb.errors import InputError
from sentemb.search.documents import Document, as_documents
from sentemb.search.encoders import facts_of
from sentemb.search.index import SearchIndex
from sentemb.search.keywords import AUTO, check_language
from sentemb.search.plan import Kind, Metric
from sentemb.search.prepared import Prepared
from sentemb.search.rescoring import Rescore, again, check_choices, metric_of
from sentemb.search.shards import Progress
from sentemb.search.source import EncoderSource


def index_shards(
    shards: ShardFolder,
    encoder: str | Path | None = None,
    *,
    kind: Kind | Literal["auto"] = "auto",
    metric: Metric | None = None,
    memory_budget: int | None = None,
    language: str = AUTO,
    rescore: Rescore = "auto",
    work_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> SearchIndex:
    """Index the documents and vectors that `sentemb encode` wrote; nothing is encoded again.

    Args:
        shards: The folder.
        encoder: Where its model is now; by default where it was.
        kind: As for `SearchIndex.build`, like the rest.
        metric: As for `SearchIndex.build`.
        memory_budget: Bytes the index may take in memory.
        language: Code of the documents' language.
        rescore: As for `SearchIndex.build`.
        work_dir: Folder for intermediate files.
        progress: Called with `(stage, done, total)`.

    Returns:
        The index.

    Raises:
        InputError: A damaged folder, another encoder, an id given twice, or nothing fits the budget.
    """
    check_choices(metric, rescore)
    source, loaded = checked_encoder(shards, encoder, metric=metric, language=language)
    of_documents = for_role(loaded, "document")
    stored = StoredVectors(shards, of_documents)
    return SearchIndex.of_prepared(
        map(Prepared, as_documents(stored_documents(shards))),
        stored,
        loaded,
        facts_of(stored, source.model, source),
        work_dir,
        progress,
        {"truncate": "warn"},
        kind=kind,
        metric=metric or metric_of(loaded),
        memory_budget=memory_budget,
        language=language,
        again=again(of_documents, rescore),
    )


def checked_encoder(
    shards: ShardFolder, encoder: str | Path | None, *, metric: Metric | None, language: str
) -> tuple[EncoderSource, TextEncoder]:
    """Check the options of an index and every byte of a folder, and load the encoder that made it."""
    check_choices(metric, "never")
    check_language(language)
    shards.verify()
    source = source_of(shards, None if encoder is None else str(encoder))
    loaded = source.load()
    shards.check_encoder(loaded)
    return source, loaded


class StoredVectors:
    """An encoder that takes the vectors of texts from shards, in whose order they are asked for.

    Args:
        shards: The folder.
        encoder: The encoder of documents that made it.
    """

    def __init__(self, shards: ShardFolder, encoder: TextEncoder) -> None:
        self.name, self.fingerprint, self.dimension = encoder.name, encoder.fingerprint, encoder.dimension
        self._shards, self._encoder = shards, encoder
        self._rows = _rows(shards)

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Look vectors up: texts that come in the order of the shards cost one pass over them."""
        found = np.empty((len(texts), self.dimension), dtype=np.float32)
        for place, text in enumerate(texts):
            found[place] = self._find(text)
        return found

    def describe(self) -> dict[str, Any]:
        """See `TextEncoder.describe`."""
        return {**self._encoder.describe(), "stored": self._shards.settings.dtype}

    def _find(self, text: str) -> Vectors:
        for _ in range(2):  # from here to the end, then from the beginning
            for known, vector in self._rows:
                if known == text:
                    return vector
            self._rows = _rows(self._shards)
        raise InputError(
            f"{self._shards.path} does not contain a vector of {text[:40]!r}", "run `sentemb encode` again"
        )


def stored_documents(shards: ShardFolder) -> Iterator[Document]:
    """The documents of a folder of shards."""
    for batch in shards.batches():
        yield from documents_of(batch, shards)


def documents_of(batch: Batch, shards: ShardFolder) -> Iterator[Document]:
    """The documents of some rows of a folder."""
    for identifier, text, metadata in zip(batch.ids, batch.texts, batch.metadata, strict=True):
        yield Document(text, identifier, metadata, f"{shards.path}: {identifier!r}")


def source_of(shards: ShardFolder, model: str | None = None) -> EncoderSource:
    """Where the encoder of a folder of shards can be loaded from, or is now."""
    given = shards.settings.model
    source = EncoderSource.of(given)
    return source.located(shards.path) if model is None else replace(source, model=model)


def _rows(shards: ShardFolder) -> Iterator[tuple[str, Vectors]]:
    for batch in shards.batches():
        yield from zip(batch.texts, batch.vectors, strict=True)
