"""One state of an index folder: what memory holds of it, and a transaction that reads the rest."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sentemb.encoding.encoder import TextEncoder, Vectors
from sentemb.errors import InputError
from sentemb.search.chunks import ChunkedDocument
from sentemb.search.documents import Document
from sentemb.search.encoded import encode_checked
from sentemb.search.fields import Field, read_fields
from sentemb.search.folder import REBUILD
from sentemb.search.keywords import Keywords, QueryTerms
from sentemb.search.manifest import Manifest
from sentemb.search.passages import Span
from sentemb.search.recall import ExactNeighbours
from sentemb.search.rescoring import candidates, rescore
from sentemb.search.store import (
    Batches,
    Fetched,
    Ranked,
    StoredDocument,
    best_documents,
    chunk_number,
    documents_of,
    sample_of,
    unknown_id,
)
from sentemb.search.vectors import Numbers, VectorIndex, normalize_for
from sentemb.search.where import Where
from sentemb.search.writer import CHUNKED, TRUNCATED, unseal

_FILTERS = 16  # whose matches are kept, a byte for each vector and document
_SPARE = 8  # further vectors that a search looks at, to see whether equal scores follow the last
_EQUAL = 2e-6
_MOST_EQUAL = 4_096  # vectors with equal scores that an approximate search looks for
_BATCH = 1_024
_CHUNKS = f"""
SELECT number << 20 AS id FROM documents WHERE form <> {CHUNKED}
UNION ALL SELECT chunks.id FROM chunks JOIN documents ON documents.number = chunks.id >> 20
WHERE documents.form = {CHUNKED} ORDER BY 1
"""
_TEXTS = f"""
SELECT documents.text, documents.form = {CHUNKED}, chunks.start, chunks.stop FROM json_each(?) AS wanted
JOIN documents ON documents.number = wanted.value >> 20 LEFT JOIN chunks ON chunks.id = wanted.value
ORDER BY wanted.value
"""
_COLUMNS = "number, id, text, metadata, form"


class Source(Protocol):
    """The store of a snapshot."""

    folder: Path
    database: Path

    def documents_encoder(self) -> TextEncoder:
        """Return the encoder of documents."""
        ...


class Part(NamedTuple):
    """What a filter leaves of a state."""

    documents: int
    among: NDArray[np.bool_] | None  # which documents, by their numbers; None for all
    alive: NDArray[np.bool_] | None  # which vectors of the cache, by their places; None for all
    living: int
    recent: Numbers  # numbers of the chunks that are not in the cache, rising
    vectors: Vectors  # theirs
    reason: str | None = None  # why no document can meet the filter


@dataclass(eq=False)
class State:
    """What memory holds of one version of the database."""

    version: int
    manifest: Manifest
    cache: VectorIndex | None
    place: int  # up to where the deleted documents are known
    last: int  # the largest number of a chunk that is known
    whole: Part
    parts: dict[str, Part] = field(default_factory=dict)
    keywords: Keywords = field(default_factory=Keywords)

    @cached_property
    def owners(self) -> Numbers:
        """The documents of the cache's vectors."""
        return owners_of(self.cache)


def owners_of(cache: VectorIndex | None) -> Numbers:
    """Return the documents of the vectors of a cache."""
    return np.empty(0, dtype=np.int64) if cache is None else documents_of(cache.numbers)


class LocalSnapshot:
    """One state of a folder; see `Snapshot`."""

    def __init__(self, store: Source, connection: sqlite3.Connection, state: State) -> None:
        self._store = store
        self.connection = connection
        self.state = state

    @property
    def manifest(self) -> Manifest:
        """The facts of the index, with the counts of this state."""
        return self.state.manifest

    def count(self, where: Where | None) -> int:
        """Return how many documents meet conditions."""
        return self._part(where).documents

    def explain_no_match(self, where: Where) -> str | None:
        """Explain why no document can meet conditions."""
        return self._part(where).reason

    def _part(self, where: Where | None) -> Part:
        state = self.state
        if where is None:
            return state.whole
        part = state.parts.get(where.key)
        if part is None:
            where.add_functions(self.connection)
            query = f"SELECT number FROM documents WHERE {where.sql}"
            found = [number for (number,) in self.connection.execute(query, where.parameters)]
            among = np.zeros(max(found, default=-1) + 1, dtype=np.bool_)
            among[found] = True
            _, _, alive, living, recent, vectors, _ = state.whole
            if state.cache is not None:
                met = _among(among, state.owners)
                alive = met if alive is None else met & alive
                living = int(alive.sum())
            kept = _among(among, documents_of(recent))
            reason = None if found else where.explain_no_match(self.connection)
            part = Part(len(found), among, alive, living, recent[kept], vectors[kept], reason)
            if len(state.parts) >= _FILTERS:
                state.parts.clear()
            state.parts[where.key] = part
        return part

    def candidates(
        self, queries: Vectors, k: int, min_score: float | None, where: Where | None
    ) -> list[list[Ranked]]:
        """Return the documents nearest to each query, best first."""
        part = self._part(where)
        k = min(k, part.documents)
        ranked: list[list[Ranked]] = [[] for _ in queries]
        if k == 0:
            return ranked
        total = part.living + len(part.recent)
        # As many chunks as so many documents have on average, and more where a few documents have them all.
        count = min(total, -(-k * total // part.documents))
        left = np.arange(len(queries))
        while len(left):
            scores, chunks = self._nearest(part, queries[left], count)
            short = []
            for row, query in enumerate(left.tolist()):
                ranked[query] = best_documents(scores[row], chunks[row], k, min_score)
                enough = min_score is not None and scores[row, -1] < min_score
                short.append(len(ranked[query]) < k and not enough)
            if count == total:
                break
            left, count = left[short], min(total, 4 * count)
        return ranked

    def _nearest(self, part: Part, queries: Vectors, count: int) -> tuple[Vectors, Numbers]:
        """Return the nearest chunks with their exact scores; of equal ones the first comes first."""
        cache, total = self.state.cache, part.living + len(part.recent)
        wanted = min(total, count + _SPARE)
        exact = cache is None or cache.kind == "flat"
        while True:
            found = []
            if cache is not None and part.living:
                most = wanted if cache.keeps_vectors else candidates(self.manifest.rescored, wanted)
                places = cache.search(queries, min(most, part.living), part.alive, part.living)[1]
                found.append(np.where(places >= 0, cache.numbers[places], -1))
            if len(part.recent):
                nearest = ExactNeighbours(queries, min(wanted, len(part.recent)))
                nearest.add(part.vectors, part.recent)
                found.append(nearest.numbers())
            scores, chunks = rescore(queries, np.concatenate(found, axis=1), self.exact, wanted)
            coded = cache is not None and not cache.keeps_vectors
            if coded or wanted == total or (wanted >= _MOST_EQUAL + count and not exact):
                break
            if (scores[:, count - 1] - scores[:, -1] > _EQUAL).all():
                break
            wanted = min(total, 4 * wanted)
        return scores[:, :count], chunks[:, :count]

    def exact(self, chunks: Numbers) -> Vectors:
        """Return the vectors (n, dim) of chunks, whose numbers rise."""
        state = self.state
        recent, cache = state.whole.recent, state.cache
        split = 0 if cache is None else int(np.searchsorted(chunks, cache.last, side="right"))
        late = state.whole.vectors[np.searchsorted(recent, chunks[split:])]
        if not split:
            return late
        assert cache is not None
        if cache.keeps_vectors:
            early = cache.rows(cache.places(chunks[:split]))
        elif state.manifest.keeps_vectors:
            early = self.stored(chunks[:split])
        else:
            again = encode_checked(self._store.documents_encoder(), self.texts_of(chunks[:split]))
            early = normalize_for(state.manifest.metric, again)
        return early if not len(late) else np.concatenate([early, late])

    def stored(self, chunks: Numbers) -> Vectors:
        """Return the vectors (n, dim) of chunks from the database, whose numbers rise."""
        query = "SELECT vector FROM vectors WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
        rows = [row for (row,) in self.connection.execute(query, (json.dumps(chunks.tolist()),))]
        found = unseal(rows, self.manifest.dimension)
        if found is None or len(found) != len(chunks):
            raise InputError(f"the vectors in {self._store.database} are damaged", REBUILD)
        return found

    def texts_of(self, chunks: Numbers) -> list[str]:
        """Return the texts of chunks, whose numbers rise."""
        rows = self.connection.execute(_TEXTS, (json.dumps(chunks.tolist()),))
        return [text[start:stop] if parted else text for text, parted, start, stop in rows]

    def all_chunks(self) -> Numbers:
        """Return the numbers of all chunks, rising."""
        return np.array([number for (number,) in self.connection.execute(_CHUNKS)], dtype=np.int64)

    def chunks_are_known(self, chunks: Numbers) -> bool:
        """Return whether the vectors are those of some chunks, whose numbers rise."""
        state = self.state
        known = [state.whole.recent]
        if state.cache is not None:
            numbers = state.cache.numbers
            known.append(numbers if state.whole.alive is None else numbers[state.whole.alive])
        if state.manifest.keeps_vectors:
            stored = [number for (number,) in self.connection.execute("SELECT id FROM vectors ORDER BY id")]
            if stored != chunks.tolist():
                return False
        return np.array_equal(np.sort(np.concatenate(known)), chunks)

    def keyword(
        self, queries: Sequence[QueryTerms], k: int, min_score: float | None, where: Where | None
    ) -> list[list[Ranked]]:
        """Return the documents that have terms of each query, best first."""
        self.manifest.keyword_language(self._store.folder)
        among = self._part(where).among
        least = -np.inf if min_score is None else min_score
        ranked = []
        for query in queries:
            postings = self.state.keywords.read(self.connection, query)
            found = self.state.keywords.rank(query, postings, k, among=among)
            hits = zip(found.scores.tolist(), found.documents.tolist(), strict=True)
            ranked.append([Ranked(score, number) for score, number in hits if score >= least])
        return ranked

    def fetch(self, ranked: Iterable[Sequence[Ranked]]) -> Fetched:
        """Return the documents that were ranked, and where their chunks are."""
        hits = [hit for row in ranked for hit in row]
        wanted = json.dumps(sorted({hit.document for hit in hits}))
        query = f"SELECT {_COLUMNS} FROM documents WHERE number IN (SELECT value FROM json_each(?))"
        rows = self.connection.execute(query, (wanted,)).fetchall()
        metadata = self._all_metadata([row[3] for row in rows])
        documents = {
            row[0]: StoredDocument(row[1], row[2], extra) for row, extra in zip(rows, metadata, strict=True)
        }
        if not any(row[4] for row in rows):
            return Fetched(documents, {})
        chunks = json.dumps(sorted({hit.chunk for hit in hits if hit.chunk is not None}))
        query = "SELECT id, start, stop FROM chunks WHERE id IN (SELECT value FROM json_each(?))"
        spans = self.connection.execute(query, (chunks,))
        return Fetched(documents, {number: Span(start, stop) for number, start, stop in spans})

    def get(self, ids: Sequence[str | int]) -> list[Document | None]:
        """Return the documents with some ids."""
        found: list[Document | None] = []
        for identifier in ids:
            row = self.connection.execute(
                "SELECT text, metadata FROM documents WHERE id = ?", (identifier,)
            ).fetchone()
            found.append(None if row is None else Document(row[0], identifier, self._metadata(row[1])))
        return found

    def numbers_of(self, ids: Iterable[str | int]) -> dict[str | int, int]:
        """Return the numbers of the documents with some ids, of those that exist."""
        query = "SELECT number FROM documents WHERE id = ?"
        rows = ((key, self.connection.execute(query, (key,)).fetchone()) for key in ids)
        return {key: row[0] for key, row in rows if row is not None}

    def vectors(self, ids: Sequence[str | int]) -> Vectors:
        """Return the vector of the first chunk of some documents, (n, dim)."""
        numbers = self.numbers_of(ids)
        for identifier in ids:
            if identifier not in numbers:
                raise unknown_id(identifier)
        chunks = np.array([chunk_number(numbers[key], 0) for key in ids], dtype=np.int64)
        unique, places = np.unique(chunks, return_inverse=True)
        return self.exact(unique)[places]

    def sample(self, count: int) -> tuple[list[str], Vectors]:
        """Return some of the encoded texts, always the same, and their vectors."""
        whole, cache = self.state.whole, self.state.cache
        early = np.empty(0, dtype=np.int64)
        if cache is not None:
            early = np.sort(cache.numbers if whole.alive is None else cache.numbers[whole.alive])
        chosen = sample_of(np.concatenate([early, whole.recent]), count)
        return self.texts_of(chosen), self.exact(chosen)

    def rows(self, where: Where | None = None) -> Iterator[ChunkedDocument]:
        """Yield all documents, or those that meet conditions, in their order."""
        query, parameters = f"SELECT {_COLUMNS} FROM documents", []
        if where is not None:
            where.add_functions(self.connection)
            query, parameters = f"{query} WHERE {where.sql}", where.parameters
        for number, key, text, metadata, form in self.connection.execute(
            f"{query} ORDER BY number", parameters
        ):
            document = Document(text, key, self._metadata(metadata), f"document {key!r}")
            yield ChunkedDocument(document, self.spans(number) if form else (), form == TRUNCATED)

    def batches(self) -> Batches:
        """Yield all documents in their order with their vectors."""
        rows = self.rows()
        chunks = iter(self.all_chunks().tolist())
        while documents := list(islice(rows, _BATCH)):
            count = sum(len(one.texts) for one in documents)
            yield documents, self.exact(np.fromiter(islice(chunks, count), dtype=np.int64, count=count))

    def fields(self) -> tuple[Field, ...]:
        """Return the fields of the metadata."""
        self.connection.execute("PRAGMA query_only=0")  # it takes a temporary table
        try:
            return read_fields(self.connection)
        finally:
            self.connection.execute("PRAGMA query_only=1")

    def spans(self, number: int) -> tuple[Span, ...]:
        """Return where the chunks of a document are."""
        bounds = (chunk_number(number, 0), chunk_number(number + 1, 0) - 1)
        query = "SELECT start, stop FROM chunks WHERE id BETWEEN ? AND ? ORDER BY id"
        return tuple(Span(start, stop) for start, stop in self.connection.execute(query, bounds))

    def _all_metadata(self, extras: list[str | None]) -> list[dict[str, Any]]:
        """Read the metadata of several documents at once, which takes a fifth of the time."""
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            found = json.loads(f"[{','.join(extra or '{}' for extra in extras)}]")
            if len(found) == len(extras) and all(type(one) is dict for one in found):
                return list(found)
        return [self._metadata(extra) for extra in extras]

    def _metadata(self, extra: str | None) -> dict[str, Any]:
        try:
            return dict(json.loads(extra)) if extra else {}
        except (ValueError, TypeError, RecursionError):
            raise InputError(f"the metadata in {self._store.database} are damaged", REBUILD) from None


def _among(among: NDArray[np.bool_], documents: Numbers) -> NDArray[np.bool_]:
    """Return which documents are among some."""
    met = np.zeros(len(documents), dtype=np.bool_)
    inside = documents < len(among)
    met[inside] = among[documents[inside]]
    return met
