"""A searchable corpus."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from sentemb.encoding.encoder import TextEncoder
from sentemb.errors import InputError
from sentemb.search.build import build_in
from sentemb.search.folder import open_folder, save_folder
from sentemb.search.manifest import EncoderFacts, Manifest
from sentemb.search.plan import Kind, Metric
from sentemb.search.shards import Progress
from sentemb.search.source import EncoderSource
from sentemb.search.store import DocumentStore
from sentemb.search.vectors import VectorIndex, comparable
from sentemb.search.work import SHARDS, locked


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found.

    Args:
        id: The document's id as the user gave it.
        score: Cosine or inner product with the query; larger is nearer. IVF-PQ scores come from rounded
            vectors and are off by some thousandths.
        text: The document's text.
        metadata: The document's metadata.
    """

    id: str | int
    score: float
    text: str
    metadata: Mapping[str, Any]


class SearchIndex:
    """Documents that are found by meaning.

    Make one with `build` or `load`. Each unique text has one vector, however many documents share it.
    Searching is safe from several threads.

    Example:
        >>> index = SearchIndex.build(["a cat sat", "birds fly"], "all-MiniLM-L6-v2")
        >>> index.save("animals")
        >>> SearchIndex.load("animals").search("kitten", k=1)[0].text
        'a cat sat'
    """

    def __init__(
        self, manifest: Manifest, vectors: VectorIndex, documents: DocumentStore, encoder: TextEncoder
    ) -> None:
        self.manifest = manifest
        self._vectors = vectors
        self._documents = documents
        self._encoder = encoder

    @classmethod
    def build(
        cls,
        documents: Iterable[Any],
        encoder: Any,
        *,
        source: EncoderSource | None = None,
        kind: Kind | Literal["auto"] = "auto",
        metric: Metric = "cosine",
        memory_budget: int | None = None,
        work_dir: str | Path | None = None,
        progress: Progress | None = None,
    ) -> SearchIndex:
        """Index documents.

        Texts and vectors stream through files; memory holds one shard of 2,048 texts and the index itself.

        Args:
            documents: Texts, `(id, text)`, `(id, text, metadata)` or `Document`s, in any iterable;
                `read_documents` streams them from files. Blank texts are left out and counted.
            encoder: Anything `sentemb.encoding.load_encoder` takes.
            source: Where the encoder can be loaded from again; known by itself when `encoder` is a path or
                hub id.
            kind: `flat`, `hnsw` or `ivfpq`; `auto` chooses by size and budget, see `plan_index`.
            metric: `cosine`, or `dot` for encoders trained with inner products.
            memory_budget: Bytes the index may take in memory; see `plan_index` for the default.
            work_dir: Folder for intermediate files, with which the next build resumes one that died; the
                caller removes it once the index is saved. By default a temporary folder, without resuming.
            progress: Called with `(stage, done, total)`.

        Returns:
            The index; its documents lie in the work folder until it is saved.

        Raises:
            InputError: No documents, an id given twice, a wrong type, or nothing fits the budget.
        """
        if metric not in ("cosine", "dot"):
            raise InputError(f"unknown metric {metric!r}", "choose cosine or dot")
        loaded = _resolve(encoder)
        if source is None and isinstance(encoder, (str, Path)):
            source = EncoderSource(str(encoder))
        place = source.located() if source else None
        facts = EncoderFacts(loaded.name, loaded.fingerprint, place, loaded.describe())
        folder = Path(tempfile.mkdtemp(prefix="sentemb-index-")) if work_dir is None else Path(work_dir)
        try:
            with locked(folder):
                manifest, vectors, store = build_in(
                    folder,
                    documents,
                    loaded,
                    facts,
                    kind=kind,
                    metric=metric,
                    memory_budget=memory_budget,
                    progress=progress or (lambda stage, done, total: None),
                )
        except BaseException:
            if work_dir is None:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        index = cls(manifest, vectors, store, loaded)
        if work_dir is None:
            for shard in folder.glob(SHARDS):
                shard.unlink()
            weakref.finalize(index, shutil.rmtree, folder, ignore_errors=True)
        return index

    def __len__(self) -> int:
        return self.manifest.documents

    @overload
    def search(  # type: ignore[overload-overlap]  # a string is a sequence of strings too
        self, queries: str, k: int = 10, *, min_score: float | None = None
    ) -> list[Hit]: ...

    @overload
    def search(
        self, queries: Sequence[str], k: int = 10, *, min_score: float | None = None
    ) -> list[list[Hit]]: ...

    def search(
        self, queries: str | Sequence[str], k: int = 10, *, min_score: float | None = None
    ) -> list[Hit] | list[list[Hit]]:
        """Find the documents nearest to each query.

        Args:
            queries: One query or several.
            k: How many documents for each; all of them where there are fewer.
            min_score: Leave out documents that score less; by default nothing is left out.

        Returns:
            The hits, best first, documents with the same text in the order they were given; for several
            queries a list of them for each.

        Raises:
            InputError: `k` is not positive, or a query is blank or no string.
        """
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise InputError(f"k must be a positive integer, not {k!r}", "ask for at least one hit")
        texts = [queries] if isinstance(queries, str) else list(queries)
        for position, text in enumerate(texts):
            if not isinstance(text, str) or not text.strip():
                raise InputError(
                    f"query {position} is {'blank' if text == '' or isinstance(text, str) else 'no string'}"
                )
        if not texts:
            return []
        k = min(int(k), len(self))
        vectors = comparable(self._encoder.encode(texts), self.manifest.metric)
        scores, numbers = self._vectors.search(vectors, min(k, len(self._vectors)))
        if min_score is not None:
            numbers = np.where(scores >= min_score, numbers, -1)
        documents = self._documents.documents_of(np.unique(numbers[numbers >= 0]).tolist(), k)
        found = []
        for row in zip(scores.tolist(), numbers.tolist(), strict=True):
            hits = (
                Hit(document.id, score, document.text, document.metadata)
                for score, number in zip(*row, strict=True)
                for document in documents.get(number, ())
            )
            found.append(list(islice(hits, k)))
        return found[0] if isinstance(queries, str) else found

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the index folder: a manifest, the faiss index and the documents.

        Args:
            path: The folder.
            overwrite: Replace an index that is there. Until the last moment the old one stays whole, and
                processes that have it open keep it.

        Raises:
            InputError: The place is taken or cannot be written to.
            OSError: The disk is full; what was there is unchanged.
        """
        self.manifest = save_folder(
            Path(path),
            self.manifest,
            {"vectors": self._vectors.write, "documents": self._documents.copy_to},
            overwrite=overwrite,
        )

    @classmethod
    def load(cls, path: str | Path, encoder: Any | None = None, *, verify: bool = True) -> SearchIndex:
        """Open an index folder; vectors are mapped and texts read when they are needed.

        Args:
            path: The folder.
            encoder: The encoder it was built with, or its new place; by default the one the manifest names.
            verify: Compare checksums first, which reads every byte once. Without it only sizes are compared,
                and a damaged file may crash faiss.

        Returns:
            The index.

        Raises:
            InputError: No index, a damaged one, or another encoder than the one it was built with.
        """
        path = Path(path)

        def open_files(manifest: Manifest) -> tuple[Manifest, VectorIndex, DocumentStore]:
            vectors = VectorIndex.read(path / manifest.files["vectors"].name, manifest.kind, manifest.effort)
            if (len(vectors), vectors.dimension) != (manifest.vectors, manifest.dimension):
                raise InputError(f"the vectors of {path} are not those of its manifest", "build it again")
            return manifest, vectors, DocumentStore(path / manifest.files["documents"].name)

        manifest, vectors, documents = open_folder(path, open_files, verify=verify)
        return cls(manifest, vectors, documents, _matching(encoder, manifest, path))


def _resolve(encoder: Any) -> TextEncoder:
    # On the class: an object's fingerprint may take a while. What is an encoder already needs no torch.
    if hasattr(type(encoder), "fingerprint"):
        ready: TextEncoder = encoder
        return ready

    from sentemb.encoding import load_encoder

    return load_encoder(encoder)


def _matching(encoder: Any | None, manifest: Manifest, path: Path) -> TextEncoder:
    wanted = manifest.encoder
    if wanted.source is not None and (encoder is None or isinstance(encoder, (str, Path))):
        # The model may have moved; pooling and the other options of the build still apply.
        loaded = replace(wanted.source, model=str(encoder or wanted.source.model)).load()
    elif encoder is not None:
        loaded = _resolve(encoder)
    else:
        raise InputError(f"{path} does not say where its encoder {wanted.name} is", "pass the encoder")
    fingerprint = loaded.fingerprint
    if fingerprint != wanted.fingerprint:
        raise InputError(
            f"{path} was built with {wanted.name} ({wanted.fingerprint[:12]}), "
            f"the encoder given is {loaded.name} ({fingerprint[:12]})",
            "search with the encoder of the build, or build the index again",
        )
    return loaded
