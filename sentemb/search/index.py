"""A searchable corpus."""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from sentemb.encoding.encoder import TextEncoder, Vectors
from sentemb.errors import InputError
from sentemb.search.build import build_in
from sentemb.search.compaction import compact
from sentemb.search.documents import Document, check_id
from sentemb.search.encoders import matching, resolve
from sentemb.search.folder import save_folder
from sentemb.search.manifest import EncoderFacts, Manifest, Role
from sentemb.search.plan import Kind, Metric
from sentemb.search.ready import ReadyVectors
from sentemb.search.segments import Segments
from sentemb.search.shards import Progress, encode_checked
from sentemb.search.source import EncoderSource
from sentemb.search.vectors import comparable
from sentemb.search.view import View, open_view
from sentemb.search.where import Where
from sentemb.search.work import SHARDS, locked
from sentemb.search.writer import Changed, Writer, change


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

    def __init__(self, view: View, encoder: TextEncoder) -> None:
        self._view = view
        self._encoder = encoder
        self._lock = threading.Lock()

    @property
    def manifest(self) -> Manifest:
        """What is known of the index, now."""
        return self._current().manifest

    def _current(self) -> View:
        with self._lock:
            self._view = self._view.newest()
            return self._view

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
        loaded = resolve(encoder)
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
        index = cls(View(manifest, Segments.of(vectors), store), loaded)
        if work_dir is None:
            for shard in folder.glob(SHARDS):
                shard.unlink()
            weakref.finalize(index, shutil.rmtree, folder, ignore_errors=True)
        return index

    def __len__(self) -> int:
        return self.manifest.documents

    @overload
    def search(  # type: ignore[overload-overlap]  # a string is a sequence of strings too
        self,
        queries: str,
        k: int = 10,
        *,
        min_score: float | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> list[Hit]: ...

    @overload
    def search(
        self,
        queries: Sequence[str],
        k: int = 10,
        *,
        min_score: float | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> list[list[Hit]]: ...

    def search(
        self,
        queries: str | Sequence[str],
        k: int = 10,
        *,
        min_score: float | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> list[Hit] | list[list[Hit]]:
        """Find the documents nearest to each query.

        Args:
            queries: One query or several.
            k: How many documents for each; all of them where there are fewer.
            min_score: Leave out documents that score less; by default nothing is left out.
            where: Find only documents whose metadata meet all of these conditions, such as
                `{"year": {">=": 2020}, "lang": "en"}`; see `Where`. There are `k` hits if so many do.

        Returns:
            The hits, best first, documents with the same text in the order they were given; for several
            queries a list of them for each.

        Raises:
            InputError: `k` is not positive, a query is blank or no string, or a condition is none.
        """
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise InputError(f"k must be a positive integer, not {k!r}", "ask for at least one hit")
        conditions = None if where is None else Where(where)
        texts = [queries] if isinstance(queries, str) else list(queries)
        for position, text in enumerate(texts):
            if not isinstance(text, str) or not text.strip():
                raise InputError(
                    f"query {position} is {'blank' if text == '' or isinstance(text, str) else 'no string'}"
                )
        if not texts:
            return []
        vectors = comparable(self._encoder.encode(texts), self._view.manifest.metric)
        found = None
        while found is None:  # the documents have changed between the vectors and the texts
            found = self._current().find(vectors, int(k), min_score, conditions)
        hits = [
            [Hit(document.id, score, document.text, document.metadata) for score, document in row]
            for row in found
        ]
        return hits[0] if isinstance(queries, str) else hits

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
        with self._lock:
            self._view = self._view.newest()
            saved = _write(self._view, Path(path), overwrite=overwrite)
            if self._view.folder is None:
                self._view = replace(self._view, manifest=saved)

    def add(
        self,
        documents: Iterable[Any],
        vectors: Any | None = None,
        *,
        progress: Progress | None = None,
    ) -> Changed:
        """Add documents, which are found once this returns.

        The documents of one call are added together or not at all. An index that was loaded changes in its
        folder, where every process that has it open finds the new state; one that was built changes in memory
        until it is saved. Another writer of the same folder waits.

        Args:
            documents: As for `build`; a document without an id gets the next integer.
            vectors: Their vectors, float (n, dim), from the encoder of the index; by default they are
                encoded. A text that the index has already keeps the vector it has.
            progress: Called with `("encode", done, 0)`.

        Returns:
            The counts.

        Raises:
            InputError: An id is in the index already or occurs twice, a document or a vector is not valid, or
                the folder holds another index by now.
        """
        return self._add(documents, vectors, progress, replacing=False)

    def update(
        self,
        documents: Iterable[Any],
        vectors: Any | None = None,
        *,
        progress: Progress | None = None,
    ) -> Changed:
        """Put documents in the place of those with their ids; documents with new ids are added.

        Args:
            documents: As for `add`. What is replaced moves to the end. A blank document removes the one that
                has its id.
            vectors: As for `add`.
            progress: As for `add`.

        Returns:
            The counts.

        Raises:
            InputError: As for `add`, except that ids may be in the index.
        """
        return self._add(documents, vectors, progress, replacing=True)

    def _add(
        self, documents: Iterable[Any], vectors: Any | None, progress: Progress | None, *, replacing: bool
    ) -> Changed:
        ready = None if vectors is None else ReadyVectors(vectors, self._view.manifest.dimension)

        def encode(positions: Sequence[int], texts: Sequence[str]) -> Vectors:
            return encode_checked(self._encoder, texts) if ready is None else ready.at(positions)

        def work(writer: Writer) -> Changed:
            report = progress or (lambda stage, done, total: None)
            done = writer.add(documents, encode, replacing=replacing, progress=report)
            if ready is not None:
                ready.check_count(sum(done))
            return done

        return change(self._folder(), self._view.manifest.line, work)

    def delete(self, ids: Iterable[str | int]) -> int:
        """Delete documents, which are not found any more once this returns.

        Args:
            ids: Their ids; ids that the index does not have are passed over. 1 and "1" are different ids.

        Returns:
            How many documents were deleted.

        Raises:
            InputError: What was given is no id, or the folder holds another index by now.
        """
        wanted = _ids(ids)
        return change(self._folder(), self._view.manifest.line, lambda writer: writer.delete(wanted))

    def get(self, ids: Iterable[str | int]) -> list[Document | None]:
        """The documents with some ids, in their order; None for an id that the index does not have."""
        wanted, store = _ids(ids), self._current().store
        with store.reading():
            return [store.get(identifier) for identifier in wanted]

    def count(self) -> int:
        """How many documents there are, as `len` does."""
        return len(self)

    def compact(
        self,
        *,
        kind: Kind | Literal["auto"] | None = None,
        memory_budget: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Make the index that `build` makes of the documents of now, with the vectors that it has.

        Changes are kept beside the faiss index until then, where searching them is exact but takes time with
        every vector; this merges them and gives the space of deleted documents back. Searches go on
        meanwhile.

        Args:
            kind: As for `build`; by default the kind that was asked for, if any. One that was chosen by size
                is chosen again, unless it is `ivfpq`, which is made of the rounded vectors that it keeps.
            memory_budget: As for `build`; an IVF-PQ index keeps its size per vector by default.
            progress: Called with `(stage, done, total)`.

        Raises:
            InputError: An IVF-PQ index without re-ranking codes, which keeps too little of its vectors, or
                nothing fits the budget.
        """
        compact(self._folder(), kind=kind, memory_budget=memory_budget, progress=progress)

    def _folder(self) -> Path:
        """Where the index changes; one that was only built gets a folder for as long as it lives."""
        with self._lock:
            if self._view.folder is None:
                folder = Path(tempfile.mkdtemp(prefix="sentemb-index-"))
                weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
                _write(self._view, folder / "index", overwrite=False)
                self._view = open_view(folder / "index", verify=False)
            folder_of: Path = self._view.folder  # type: ignore[assignment]  # it was given one above
            return folder_of

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
        view = open_view(Path(path), verify=verify)
        return cls(view, matching(encoder, view.manifest, Path(path)))


def _ids(ids: Iterable[str | int]) -> list[str | int]:
    if isinstance(ids, (str, bytes, int)):
        raise InputError(f"ids must be a collection, not the single value {ids!r}", "pass a list")
    wanted = list(ids)
    for position, identifier in enumerate(wanted):
        check_id(identifier, f"id {position}")
    return wanted


def _write(view: View, path: Path, *, overwrite: bool) -> Manifest:
    documents: Role = "documents" if view.manifest.living is None else "living"
    writers = {"vectors": view.segments.base.write, documents: view.store.copy_to}
    return save_folder(path, view.manifest, writers, overwrite=overwrite)
