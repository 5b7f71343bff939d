"""An index in LanceDB behind the calls of `SearchIndex`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sentemb.encoding.encoder import TextEncoder, Vectors
from sentemb.encoding.roles import for_role
from sentemb.errors import InputError
from sentemb.search.documents import LARGE_ID, Document, as_documents, next_free_id
from sentemb.search.encoders import encoder_of
from sentemb.search.fields import Field
from sentemb.search.hybrid_weight import HybridWeight
from sentemb.search.index import SearchIndex
from sentemb.search.lancedb_table import among, batch_of, key_of, schema_of
from sentemb.search.lancedb_view import LanceView, open_lance_view
from sentemb.search.open_index import checked_ids
from sentemb.search.plan import Kind
from sentemb.search.prepared import Prepared, Truncate
from sentemb.search.ready import ReadyVectors
from sentemb.search.rows import given_twice
from sentemb.search.shards import Progress, encode_checked
from sentemb.search.truncation import Truncation
from sentemb.search.vectors import comparable
from sentemb.search.view import View
from sentemb.search.where import Where
from sentemb.search.writer import Changed

_CHUNK = 1024
_NOT_HERE = "copy the index to a folder with `sentemb index move`, and run this there"


class LanceIndex(SearchIndex):
    """Documents in a LanceDB table, on a disk or in object storage, found as in an index folder.

    `SearchIndex.open("lancedb:URI")` opens one. What differs from a folder:

    * Keyword scores are LanceDB's BM25, which counts deleted documents until they are merged away, and what
      was added since the last `compact` apart.
    * Each document has a vector of its own, also where texts are equal.
    * The weight of hybrid search and the fields of the metadata are not kept.
    * Of two processes that add at the same time, each checks ids before it writes: let one process write.
    * The id of the last document is given again where that was deleted.

    Args:
        address: `lancedb:` and a folder or URI.
        encoder: The encoder, as for `SearchIndex.load`.

    Raises:
        InputError: There is no such index, or it was built with another encoder.
    """

    def __init__(self, address: str, encoder: Any | None = None) -> None:
        lance = open_lance_view(address)
        view = cast(View, lance)  # answers what searches ask of one
        super().__init__(view, encoder_of(encoder, lance.table.facts.encoder, address))
        self.table = lance.table

    @property
    def view(self) -> LanceView:
        """The state of now."""
        return cast(LanceView, self._current())

    def stats(self) -> dict[str, Any]:
        """The table's version and indexes, and what it cannot promise."""
        return self.table.stats() | {
            "documents": len(self),
            "not_promised": [
                "keyword scores ignore deleted documents only after compact",
                "ids are unique only with a single writer at a time",
            ],
        }

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Refuse: the table is where the index lives."""
        raise InputError(
            f"{self.table.address} cannot be saved to another place: a LanceDB index saves every change",
            _NOT_HERE,
        )

    def delete(self, ids: Iterable[str | int]) -> int:
        """Delete documents, as `SearchIndex.delete` does."""
        keys = [key_of(one) for one in checked_ids(ids)]
        there = self.table.there(keys)
        if there:
            self.table.delete(sorted(there))
        return len(there)

    def get(self, ids: Iterable[str | int]) -> list[Document | None]:
        """The documents with some ids, as `SearchIndex.get` gives them."""
        wanted = checked_ids(ids)
        numbers = self.view.numbers_of(wanted) or {}
        condition = among("document", numbers.values())
        found = {
            prepared.document.id: Document(
                prepared.document.text, prepared.document.id, prepared.document.metadata
            )
            for prepared, _ in self.view.prepared(condition=condition)
        }
        return [found.get(one) for one in wanted]

    def documents(self, where: Mapping[str, Any] | None = None) -> list[Document]:
        """All documents, or those that meet conditions, in their order."""
        conditions = None if where is None else Where(where)
        return [prepared.document for prepared, _ in self.view.prepared(conditions)]

    def fields(self) -> tuple[Field, ...]:
        """Refuse: the types of metadata are not kept."""
        raise InputError(f"{self.table.address} cannot list the fields of its metadata", _NOT_HERE)

    def compact(
        self,
        *,
        kind: Kind | Literal["auto"] | None = None,
        memory_budget: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Index what was written and give the space of deleted documents back; LanceDB chooses the kind."""
        if kind is not None or memory_budget is not None:
            raise InputError("LanceDB chooses the kind of its index itself", "remove kind and memory_budget")
        self.table.optimise()

    def _keep(self, weight: HybridWeight | None) -> None:
        self._measured = [weight]

    def _add(
        self,
        documents: Iterable[Any],
        vectors: Any | None,
        truncate: Truncate | None,
        progress: Progress | None,
        *,
        replacing: bool,
    ) -> Changed:
        facts = self.table.facts
        ready = None if vectors is None else ReadyVectors(vectors, facts.dimension)
        of_documents = for_role(self._encoder, "document")
        truncation = Truncation(of_documents, truncate or facts.truncate, facts.overlap)
        counter = _Counter(*self._next())
        given = counter.checked(as_documents(documents, first=None if replacing else counter.next_id))
        prepared = truncation.prepared(given) if ready is None else map(Prepared, given)
        blank: list[str] = []

        def batches() -> Iterator[pa.RecordBatch]:
            place = 0
            while chunk := list(islice(prepared, _CHUNK)):
                places = range(place, place + len(chunk))
                place += len(chunk)
                pairs = [pair for pair in zip(places, chunk, strict=True) if pair[1].document.text.strip()]
                blank.extend(key_of(one.document.id) for one in chunk if not one.document.text.strip())
                if not replacing:
                    self._refuse_known(chunk)
                if pairs:
                    kept = [one for _, one in pairs]
                    rows = (
                        _encoded(of_documents, kept) if ready is None else ready.at([at for at, _ in pairs])
                    )
                    yield batch_of(facts, kept, counter.number, comparable(rows, facts.metric))
                    counter.count(kept)
                if progress is not None:
                    progress("encode", place, 0)
            if ready is not None:
                ready.check_count(place)

        if replacing:
            known = self._replace(pa.Table.from_batches(list(batches()), schema_of(facts)), blank)
        else:
            known = 0
            made = batches()
            # Without a row there is nothing to write.
            if (first := next(made, None)) is not None:
                self.table.add(chain([first], made))
        return Changed(counter.added - known, known, len(blank), counter.split, counter.cut)

    def _replace(self, rows: pa.Table, blank: Sequence[str]) -> int:
        keys = set(rows["key"].to_pylist())
        there = self.table.there([*keys, *blank])
        if len(rows):
            self.table.replace(sorted(keys | set(blank)), rows)
        elif there:
            self.table.delete(sorted(there))
        return len(keys & there)

    def _refuse_known(self, chunk: Sequence[Prepared]) -> None:
        there = self.table.there([key_of(one.document.id) for one in chunk])
        for one in chunk:
            if key_of(one.document.id) in there:
                raise InputError(
                    f"{one.document.location}: the id {one.document.id!r} is already in the index",
                    "use update to replace the document",
                )

    def _next(self) -> tuple[int, int]:
        """The next number of a document, and the next integer as an id."""
        rows = self.table.read(["document", "key"], "part = 0")
        last = pc.max(rows["document"]).as_py()
        keys = pc.filter(rows["key"], pc.starts_with(rows["key"], "i:"))
        ids = np.sort(pc.cast(pc.utf8_slice_codeunits(keys, 2), pa.int64()).to_numpy())
        largest = ids[max(0, np.searchsorted(ids, LARGE_ID) - 1) :]
        return (0 if last is None else last + 1), next_free_id(largest.tolist(), self.table.facts.next_id)


class _Counter:
    """Counts the documents of a call, and refuses an id that is given twice."""

    def __init__(self, number: int, next_id: int) -> None:
        self.number, self.next_id = number, next_id
        self.added = self.split = self.cut = 0
        self._places: dict[Any, str | None] = {}

    def checked(self, documents: Iterator[Document]) -> Iterator[Document]:
        for document in documents:
            if document.id in self._places:
                raise given_twice(document, str(self._places[document.id]))
            self._places[document.id] = document.location
            yield document

    def count(self, kept: Sequence[Prepared]) -> None:
        self.number += len(kept)
        self.added += len(kept)
        self.split += sum(one.split for one in kept)
        self.cut += sum(one.cut for one in kept)


def _encoded(encoder: TextEncoder, documents: Sequence[Prepared]) -> Vectors:
    """A vector of each text; equal texts are encoded once."""
    texts = [text for one in documents for text in one.texts]
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    vectors = encode_checked(encoder, list(places))
    rows: Vectors = vectors[np.array([places[text] for text in texts], dtype=np.int64)]
    return rows
