"""One state of an index in LanceDB, which answers what searches ask of a `View`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.search.documents import Document
from sentemb.search.keywords import QueryTerms
from sentemb.search.lancedb_table import LanceTable, among, id_of, key_of
from sentemb.search.manifest import Manifest
from sentemb.search.prepared import Prepared, Span
from sentemb.search.store import StoredDocument
from sentemb.search.vectors import Numbers
from sentemb.search.view import Encode, Fetched, Ranked
from sentemb.search.where import Where

_LISTED = 10_000  # documents that a condition of LanceDB names; of more, the nearest are filtered here
_FILTERS = 16
_WIDER = 4
_CHUNK = 1024


class LancePart(NamedTuple):
    """What a filter leaves of an index: documents in order, or None for all."""

    documents: int
    among: Numbers | None = None
    reason: str | None = None  # why no document can meet the filter


@dataclass(frozen=True, eq=False)
class LanceView:
    """An index in LanceDB at one moment.

    Args:
        table: Its table.
        version: The number of the state.
        parts: What the latest filters have left.
    """

    table: LanceTable
    version: int
    parts: dict[str, LancePart] = field(default_factory=dict)

    @property
    def language(self) -> str:
        """The language whose rules cut texts to words."""
        return self.table.facts.keyword_language(self.table.address)

    @cached_property
    def manifest(self) -> Manifest:
        """Its facts, with the counts of this moment."""
        count = self.table.count
        return replace(
            self.table.facts,
            documents=count("part = 0"),
            vectors=count(),
            split=count("part = 0 AND start IS NOT NULL AND NOT cut"),
            cut=count("part = 0 AND cut"),
        )

    def newest(self) -> LanceView:
        """The state of now."""
        version = self.table.version
        return self if version == self.version else LanceView(self.table, version)

    def part(self, where: Where | None) -> LancePart | None:
        """The documents that meet conditions; None where they have changed."""
        if where is None:
            return LancePart(self.manifest.documents)
        part = self.parts.get(where.key)
        if part is None:
            numbers: list[int] = []
            for batch in self.table.scan(["document", "metadata"], "part = 0"):
                rows = zip(batch["document"].to_pylist(), batch["metadata"].to_pylist(), strict=True)
                numbers += [number for number, metadata in rows if where.matches(metadata)]
            if self._changed():
                return None
            reason = None if numbers else where.explain_no_match()
            part = LancePart(len(numbers), np.sort(np.array(numbers, dtype=np.int64)), reason)
            if len(self.parts) >= _FILTERS:
                self.parts.clear()
            self.parts[where.key] = part
        return part

    def rank(
        self, queries: Vectors, k: int, min_score: float | None, where: Where | None, encode: Encode
    ) -> list[list[Ranked]] | None:
        """The documents nearest to each query, best first; None where they have changed since this view."""
        part = self.part(where)
        if part is None:
            return None
        ranked = [self._nearest(query, min(k, part.documents), min_score, part) for query in queries]
        return None if self._changed() else ranked

    def rank_by_keywords(
        self, queries: Sequence[QueryTerms], k: int, min_score: float | None, where: Where | None
    ) -> list[list[Ranked]] | None:
        """The documents with terms of each query, best first, by LanceDB's BM25; None as for `rank`.

        Function words of a query do not count there, unless it has no other words.
        """
        part = self.part(where)
        if part is None:
            return None
        least = -np.inf if min_score is None else min_score
        ranked = []
        for query in queries:
            documents, scores = self._holding(query.content, min(k, part.documents), part)
            order = np.lexsort((documents, -scores))[:k]
            pairs = zip(scores[order].tolist(), documents[order].tolist(), strict=True)
            ranked.append([Ranked(score, number) for score, number in pairs if score >= least])
        return None if self._changed() else ranked

    def fetch(self, ranked: list[list[Ranked]]) -> Fetched | None:
        """The documents that were ranked; None as for `rank`."""
        columns = ["document", "part", "key", "start", "stop", "text", "metadata"]
        numbers = {hit.document for row in ranked for hit in row}
        rows = self.table.read(columns, among("document", numbers)).to_pylist() if numbers else []
        if self._changed():
            return None
        whole = {
            row["document"]: StoredDocument(id_of(row["key"]), row["text"], self._metadata(row))
            for row in rows
            if row["part"] == 0
        }
        spans: dict[tuple[int, int | None], Span] = {
            (row["document"], row["part"]): Span(row["start"], row["stop"])
            for row in rows
            if row["start"] is not None
        }
        return Fetched(whole, spans)

    def vectors_by_id(self, ids: Sequence[str | int], encode: Encode) -> Vectors | None:
        """The vectors (n, dim) of some documents; None as for `rank`."""
        keys = [key_of(one) for one in ids]
        found = self.table.read(["key", "vector"], f"part = 0 AND {among('key', keys)}")
        places = {key: place for place, key in enumerate(found["key"].to_pylist())}
        for identifier, key in zip(ids, keys, strict=True):
            if key not in places:
                raise InputError(f"the index does not contain a document with the id {identifier!r}")
        return _matrix(found["vector"], self.manifest.dimension)[[places[key] for key in keys]]

    def numbers_of(self, ids: Iterable[str | int]) -> dict[str | int, int] | None:
        """The numbers of the documents with some ids that there are; None as for `rank`."""
        keys = {key_of(one): one for one in ids}
        found = self.table.read(["key", "document"], f"part = 0 AND {among('key', keys)}")
        pairs = zip(found["key"].to_pylist(), found["document"].to_pylist(), strict=True)
        return None if self._changed() else {keys[key]: number for key, number in pairs}

    def sample(self, count: int, encode: Encode) -> tuple[list[str], Vectors] | None:
        """Some of the documents' first texts, always the same, and their vectors (n, dim)."""
        ids = self._ordered("part = 0")
        chosen = ids[np.sort(np.random.default_rng(0).permutation(len(ids))[:count])]
        rows = self.table.rows(chosen.tolist(), ["text", "start", "stop", "vector"])
        texts = [row["text"][row["start"] : row["stop"]] for row in rows.drop(["vector"]).to_pylist()]
        return None if self._changed() else (texts, _matrix(rows["vector"], self.manifest.dimension))

    def prepared(
        self, where: Where | None = None, *, condition: str | None = None
    ) -> Iterator[tuple[Prepared, Vectors]]:
        """All documents in their order, or those that meet conditions, with a vector for each text."""
        columns = ["document", "key", "start", "stop", "cut", "text", "metadata", "vector"]
        ids = self._ordered(condition)
        held: list[dict[str, Any]] = []
        for first in range(0, len(ids), _CHUNK):
            rows = self.table.rows(ids[first : first + _CHUNK].tolist(), columns)
            vectors = _matrix(rows["vector"], self.manifest.dimension)
            for row, vector in zip(rows.drop(["vector"]).to_pylist(), vectors, strict=True):
                if held and held[0]["document"] != row["document"]:
                    yield from self._whole(held, where)
                    held = []
                held.append(row | {"vector": vector})
        if held:
            yield from self._whole(held, where)

    def _ordered(self, condition: str | None = None) -> Numbers:
        """LanceDB's ids of all rows, in the order of the documents and their parts."""
        table = self.table.read(["document", "part"], condition, numbered=True)
        order = pc.sort_indices(table, sort_keys=[("document", "ascending"), ("part", "ascending")])
        numbers: Numbers = table["_rowid"].take(order).to_numpy().astype(np.int64)
        return numbers

    def _nearest(self, query: Any, k: int, least: float | None, part: LancePart) -> list[Ranked]:
        if k == 0:
            return []
        rows = self.manifest.vectors
        wanted = min(rows, k if not self.manifest.split else 2 * k)
        listed = part.among is not None and len(part.among) <= _LISTED
        if part.among is not None and not listed:
            wanted = min(rows, -(-2 * k * self.manifest.documents // len(part.among)))
        while True:
            # Where the nearest were not enough, all that meet the filter are compared.
            every = part.among is not None and (listed or wanted == rows)
            condition = among("document", part.among.tolist()) if every and part.among is not None else None
            if condition is None and wanted == rows:
                condition = "true"
            found = self.table.nearest(query, wanted, ["document", "part", "vector"], condition)
            # The scores of the vectors themselves, whatever LanceDB has rounded.
            scores = _matrix(found["vector"], self.manifest.dimension) @ query
            ranked = _best(found, scores, least, part)[:k]
            enough = least is not None and bool((scores < least).any())
            if len(ranked) == k or enough or wanted == rows:
                return ranked
            wanted = min(rows, _WIDER * wanted)

    def _holding(self, terms: Any, k: int, part: LancePart) -> tuple[Numbers, Any]:
        if not terms or k == 0:
            return np.empty(0, dtype=np.int64), np.empty(0)
        if part.among is None or len(part.among) <= _LISTED:
            condition = None if part.among is None else among("document", part.among.tolist())
            return self.table.holding(terms, k, condition)
        wanted = k
        while True:
            documents, scores = self.table.holding(terms, wanted, None)
            kept = np.isin(documents, part.among)
            if kept.sum() >= k or len(documents) < wanted:
                return documents[kept], scores[kept]
            wanted *= _WIDER

    def _whole(self, rows: list[dict[str, Any]], where: Where | None) -> Iterator[tuple[Prepared, Vectors]]:
        first = rows[0]
        if where is not None and not where.matches(first["metadata"]):
            return
        identifier = id_of(first["key"])
        document = Document(
            first["text"], identifier, self._metadata(first), location=f"document {identifier!r}"
        )
        spans = tuple(Span(row["start"], row["stop"]) for row in rows if row["start"] is not None)
        yield Prepared(document, spans, cut=first["cut"]), np.stack([row["vector"] for row in rows])

    def _metadata(self, row: dict[str, Any]) -> dict[str, Any]:
        try:
            return dict(json.loads(row["metadata"]))
        except (ValueError, TypeError, RecursionError):
            raise InputError(
                f"{self.table.address}: the metadata of document {id_of(row['key'])!r} are damaged",
                "update the document, or build the index again",
            ) from None

    def _changed(self) -> bool:
        return self.table.version != self.version


def _best(found: pa.Table, scores: Any, least: float | None, part: LancePart) -> list[Ranked]:
    """The documents of rows, each by the best of them; of equal ones the first comes first."""
    documents, parts = found["document"].to_numpy(), found["part"].to_numpy()
    best: dict[int, Ranked] = {}
    for row in np.lexsort((parts, documents, -scores)).tolist():
        number = int(documents[row])
        if least is not None and scores[row] < least:
            break
        if part.among is None or _holds(part.among, number):
            best.setdefault(number, Ranked(float(scores[row]), number, int(parts[row])))
    return list(best.values())


def open_lance_view(address: str) -> LanceView:
    """Open an index in LanceDB."""
    table = LanceTable(address)
    return LanceView(table, table.version)


def _holds(numbers: Numbers, number: int) -> bool:
    place = int(np.searchsorted(numbers, number))
    return place < len(numbers) and int(numbers[place]) == number


def _matrix(column: Any, dimension: int) -> Vectors:
    chunk = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    rows: Vectors = chunk.flatten().to_numpy(zero_copy_only=False).reshape(-1, dimension)
    return rows
