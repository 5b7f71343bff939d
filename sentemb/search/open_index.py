"""An index that is open: its state of now, and the changes to it."""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from sentemb.encoding.encoder import TextEncoder, Vectors
from sentemb.encoding.roles import for_role
from sentemb.errors import InputError
from sentemb.search.compaction import compact
from sentemb.search.documents import Document, check_id
from sentemb.search.encoders import AdaptedEncoder, of_documents
from sentemb.search.fields import Field, fields_of
from sentemb.search.folder import changing, save_folder
from sentemb.search.hybrid_weight import HybridWeight
from sentemb.search.manifest import Manifest, Role
from sentemb.search.plan import Kind
from sentemb.search.prepared import Prepared, Truncate
from sentemb.search.ready import ReadyVectors
from sentemb.search.shards import Progress, encode_checked
from sentemb.search.truncation import Truncation
from sentemb.search.view import Part, View, open_view
from sentemb.search.where import Where
from sentemb.search.writer import Changed, Writer, change


class OpenIndex:
    """The documents and vectors of `SearchIndex`, which adds building, loading and searching."""

    def __init__(self, view: View, encoder: TextEncoder) -> None:
        self._view = view
        self._encoder = encoder
        self._lock = threading.Lock()

    @property
    def manifest(self) -> Manifest:
        """What is known of the index, now."""
        return self._current().manifest

    @property
    def encoder(self) -> TextEncoder:
        """The encoder of documents and queries."""
        return self._encoder

    def _current(self) -> View:
        with self._lock:
            self._view = self._view.newest()
            return self._view

    def __len__(self) -> int:
        return self.manifest.documents

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
        truncate: Truncate | None = None,
        progress: Progress | None = None,
    ) -> Changed:
        """Add documents, which are found once this returns.

        The documents of one call are added together or not at all. An index that was loaded changes in its
        folder, where every process that has it open finds the new state; one that was built changes in memory
        until it is saved. Another writer of the same folder waits.

        Args:
            documents: As for `build`; a document without an id gets the next integer.
            vectors: Their vectors, float (n, dim), from the encoder of the index's documents; by default they
                are encoded. A text that the index has already keeps the vector it has.
            truncate: What becomes of texts that are longer than the model reads, as for `build`; by default
                what the index was built with. Documents with vectors are indexed as they are.
            progress: Called with `("encode", done, 0)`.

        Returns:
            The counts.

        Raises:
            InputError: An id is in the index already or occurs twice, a document or a vector is not valid, or
                the folder holds another index by now.
        """
        return self._add(documents, vectors, truncate, progress, replacing=False)

    def update(
        self,
        documents: Iterable[Any],
        vectors: Any | None = None,
        *,
        truncate: Truncate | None = None,
        progress: Progress | None = None,
    ) -> Changed:
        """Put documents in the place of those with their ids; documents with new ids are added.

        Args:
            documents: As for `add`, each with an id. What is replaced moves to the end. A blank document
                removes the one that has its id.
            vectors: As for `add`.
            truncate: As for `add`.
            progress: As for `add`.

        Returns:
            The counts.

        Raises:
            InputError: As for `add`, except that ids may be in the index.
        """
        return self._add(documents, vectors, truncate, progress, replacing=True)

    def _ready(self, vectors: Any, queries: int) -> Vectors:
        adapted = self._encoder if isinstance(self._encoder, AdaptedEncoder) else None
        dimension = adapted.queries.dimension if adapted else self._view.manifest.dimension
        ready = ReadyVectors(vectors, dimension, "query")
        ready.check_count(queries)
        rows = ready.at(range(queries))
        return adapted.mapped(rows) if adapted else rows

    def _add(
        self,
        documents: Iterable[Any],
        vectors: Any | None,
        truncate: Truncate | None,
        progress: Progress | None,
        *,
        replacing: bool,
    ) -> Changed:
        facts = self._view.manifest
        ready = None if vectors is None else ReadyVectors(vectors, facts.dimension)
        encoder = self._encoder if ready else for_role(self._encoder, "document")
        truncation = Truncation(encoder, truncate or facts.truncate, facts.overlap)

        def prepare(given: Iterator[Document]) -> Iterator[Prepared]:
            return truncation.prepared(given) if ready is None else map(Prepared, given)

        def encode(positions: Sequence[int], texts: Sequence[str]) -> Vectors:
            return encode_checked(encoder, texts) if ready is None else ready.at(positions)

        def work(writer: Writer) -> Changed:
            report = progress or (lambda stage, done, total: None)
            done = writer.add(documents, prepare, encode, replacing=replacing, progress=report)
            if ready is not None:
                ready.check_count(done.given)
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
        wanted = checked_ids(ids)
        return change(self._folder(), self._view.manifest.line, lambda writer: writer.delete(wanted))

    def get(self, ids: Iterable[str | int]) -> list[Document | None]:
        """The documents with some ids, in their order; None for an id that the index does not have."""
        wanted, store = checked_ids(ids), self._current().store
        with store.reading():
            return [store.get(identifier) for identifier in wanted]

    def documents(self, where: Mapping[str, Any] | None = None) -> list[Document]:
        """All documents, or those that meet conditions, in the order in which they were given.

        Args:
            where: As for `search`.

        Returns:
            The documents.

        Raises:
            InputError: A condition is none.
        """
        stored = self._current().store.prepared(None if where is None else Where(where))
        return [prepared.document for prepared in stored]

    def count(self, where: Mapping[str, Any] | None = None) -> int:
        """How many documents there are, or how many meet conditions.

        Args:
            where: As for `search`.

        Returns:
            The number.

        Raises:
            InputError: A condition is none.
        """
        return len(self) if where is None else self._part(Where(where)).documents

    def explain_no_match(self, where: Mapping[str, Any]) -> str | None:
        """Explain why no document can meet conditions.

        Args:
            where: As for `search`.

        Returns:
            One sentence, if no document has a required field or all have other types in it; else None.

        Raises:
            InputError: A condition is not valid.
        """
        return self._part(Where(where)).reason

    def _part(self, where: Where) -> Part:
        """Return the documents that meet conditions."""
        while (part := self._current().part(where)) is None:
            pass  # the documents have changed between the view and the filter
        return part

    def fields(self) -> tuple[Field, ...]:
        """The fields of the documents' metadata with their types and values, to make filters from.

        All metadata are read; searches go on meanwhile.

        Returns:
            The fields at the top of the metadata, those of most documents first.
        """
        while True:
            store = self._current().store
            try:
                return fields_of(store)
            except InputError:
                if self._current().store is store:
                    raise

    def vectors(self, ids: Iterable[str | int]) -> Vectors:
        """The vectors of some documents, as the index has them.

        Args:
            ids: Their ids.

        Returns:
            float32 (n, dim), in the order of `ids`; of length 1 where the metric is `cosine`, and rounded
            where the index is IVF-PQ that does not rank by texts. Of a document in passages it is that of the
            first.

        Raises:
            InputError: The index does not have such a document, or keeps no vectors.
        """
        wanted = checked_ids(ids)
        encode = of_documents(self._encoder)
        while (found := self._current().vectors_by_id(wanted, encode)) is None:
            pass
        return found

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
                is chosen again, unless it is `ivfpq`, whose codes stay where its lists still suit.
            memory_budget: As for `build`; an IVF-PQ index keeps its size per vector by default.
            progress: Called with `(stage, done, total)`.

        Raises:
            InputError: An IVF-PQ index of an earlier version without re-ranking codes, which keeps too little
                of its vectors, or nothing fits the budget.
        """
        compact(
            self._folder(),
            lambda: for_role(self._encoder, "document"),
            kind=kind,
            memory_budget=memory_budget,
            progress=progress,
        )

    def _keep(self, weight: HybridWeight | None) -> None:
        """Write a weight into the manifest, in one step."""
        with self._lock:
            if self._view.folder is None:
                self._view = replace(self._view, manifest=replace(self._view.manifest, hybrid=weight))
                return
            path, line = self._view.folder, self._view.manifest.line
        with changing(path):
            manifest = Manifest.read(path)
            if manifest.line != line:
                raise InputError(f"{path} was replaced by another index after it was opened", "open it again")
            if manifest.hybrid != weight:
                replace(manifest, hybrid=weight).write(path)

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


def checked_ids(ids: Iterable[str | int]) -> list[str | int]:
    """The ids as a list, each of which can be one."""
    if isinstance(ids, (str, bytes, int)):
        raise InputError(f"ids must be a collection, not the single value {ids!r}", "pass a list")
    wanted = list(ids)
    for position, identifier in enumerate(wanted):
        check_id(identifier, f"id {position}")
    return wanted


def _write(view: View, path: Path, *, overwrite: bool) -> Manifest:
    documents: Role = "documents" if view.manifest.living is None else "living"
    writers = {"vectors": view.segments.base.write, documents: view.store.copy_to}
    if view.adapter is not None:
        writers["adapter"] = view.adapter.write
    return save_folder(path, view.manifest, writers, overwrite=overwrite)
