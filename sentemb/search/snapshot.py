"""One state of an index folder: the part in memory, and a transaction that reads the rest."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sentemb.encoding.encoder import TextEncoder, Vectors
from sentemb.errors import InputError
from sentemb.search.documents import (
    Batches,
    ChunkedDocument,
    Document,
    Numbers,
    chunk_number,
    documents_of,
    encode_checked,
    normalize_for,
)
from sentemb.search.fields import Field, read_fields
from sentemb.search.folder import CHUNKED, REBUILD, TRUNCATED, checksum_of, unseal
from sentemb.search.keywords import Keywords, QueryTerms
from sentemb.search.manifest import Manifest
from sentemb.search.passages import Span
from sentemb.search.store import Fetched, Ranked
from sentemb.search.vectors import (
    BLOCK,
    Alive,
    ExactNeighbours,
    VectorIndex,
    best_documents,
    candidates_for,
    rank,
    score,
    score_unique,
)
from sentemb.search.where import Where, stored_types

_FILTERS = 16  # whose matches are kept, a byte for each vector and document
_SPARE = 8  # further vectors that a search looks at, to see whether equal scores follow the last
_EQUAL = 2e-6
_MOST_EQUAL = 4_096  # vectors with equal scores that an approximate search looks for
_BATCH = 1_024
_HELD = 64_000_000  # floats of vectors that are not in the cache and are kept once a search has read them
_CHUNKS = f"""
SELECT number << 20 AS id FROM documents WHERE form <> {CHUNKED}
UNION ALL SELECT chunks.id FROM chunks JOIN documents ON documents.number = chunks.id >> 20
WHERE documents.form = {CHUNKED} ORDER BY 1
"""
_TEXTS = f"""
SELECT documents.text, documents.form = {CHUNKED}, chunks.start, chunks.stop FROM json_each(?) AS chosen
JOIN documents ON documents.number = chosen.value >> 20 LEFT JOIN chunks ON chunks.id = chosen.value
ORDER BY chosen.value
"""
_COLUMNS = "number, id, text, metadata, form"
_SOME = "IN (SELECT value FROM json_each(?))"


def read_chunks(connection: sqlite3.Connection) -> Numbers:
    """Return the numbers of all chunks of a database, rising."""
    return np.fromiter((number for (number,) in connection.execute(_CHUNKS)), dtype=np.int64)


def read_texts(connection: sqlite3.Connection, chunks: Numbers) -> list[str]:
    """Return the texts of chunks, whose numbers rise."""
    rows = connection.execute(_TEXTS, (str(chunks.tolist()),))
    return [text[start:stop] if has_spans else text for text, has_spans, start, stop in rows]


def read_vectors(connection: sqlite3.Connection, chunks: Numbers, facts: Manifest, database: Path) -> Vectors:
    """Return the vectors (n, dim) of chunks from a database, whose numbers rise."""
    query = f"SELECT vector FROM vectors WHERE id {_SOME} ORDER BY id"
    rows = [row for (row,) in connection.execute(query, (str(chunks.tolist()),))]
    found = unseal(rows, facts.dimension)
    if found is None or len(found) != len(chunks):
        raise InputError(f"the vectors in {database} are damaged", REBUILD)
    return found


class Part(NamedTuple):
    """The documents and vectors of a state that meet a filter."""

    documents: int
    mask: NDArray[np.bool_] | None  # which documents, by their numbers; None for all
    alive: Alive | None  # which vectors of the cache; None for all
    living: int  # number of these vectors
    recent: Numbers  # numbers of the chunks that are not in the cache, rising
    reason: str | None = None  # why no document can meet the filter


@dataclass(eq=False)
class State:
    """The part of one version of the database that is in memory."""

    version: int
    manifest: Manifest
    cache: VectorIndex | None
    place: int  # up to where the deleted documents are known
    last: int  # the largest number of a chunk that is known
    whole: Part
    vectors: Vectors | None  # of `whole.recent`; None until a search reads them, or if they are too many
    parts: dict[str, Part] = field(default_factory=dict)
    keywords: Keywords = field(default_factory=Keywords)


class LocalSnapshot:
    """One state of a folder; see `Snapshot`."""

    def __init__(
        self,
        database: Path,
        connection: sqlite3.Connection,
        state: State,
        encoder: Callable[[], TextEncoder] | None,
    ) -> None:
        self._database = database
        self._encoder = encoder
        self.connection = connection
        self.state = state
        self.manifest = state.manifest

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
            mask = np.zeros(max(found, default=-1) + 2, dtype=np.bool_)  # the last one stands for all others
            mask[found] = True
            _, _, alive, living, recent, _ = state.whole
            if state.cache is not None:
                met = mask[np.minimum(state.cache.owners, len(mask) - 1)]
                alive = Alive(met if alive is None else met & alive.mask)
                living = len(alive.places)
            recent = recent[mask[np.minimum(documents_of(recent), len(mask) - 1)]]
            reason = None
            if not found:
                reason = where.explain_no_match(lambda name: stored_types(self.connection, name))
            part = Part(len(found), mask, alive, living, recent, reason)
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
                is_enough = min_score is not None and scores[row, -1] < min_score
                if len(ranked[query]) < k and not is_enough:
                    short.append(query)
            if count == total:
                break
            left, count = np.array(short, dtype=np.int64), min(total, 4 * count)
        return ranked

    def _nearest(self, part: Part, queries: Vectors, count: int) -> tuple[Vectors, Numbers]:
        """Return the nearest chunks with their exact scores; of equal ones the first comes first."""
        cache, total = self.state.cache, part.living + len(part.recent)
        size = min(total, count + _SPARE)
        is_exact = cache is None or cache.kind == "flat"
        has_codes = cache is not None and not cache.keeps_vectors
        while True:
            found = []
            if cache is not None and part.living:
                most = candidates_for(self.manifest.rescored, size) if has_codes else size
                places = cache.search(queries, min(most, part.living), part.alive)
                numbers = cache.numbers[places]
                if has_codes:
                    numbers[places < 0] = -1
                    found.append((score_unique(queries, numbers, self.vectors), numbers))
                else:
                    found.append((score(queries, places, cache.vectors), numbers))
            if len(part.recent):
                nearest = ExactNeighbours(queries, min(size, len(part.recent)))
                for start in range(0, len(part.recent), BLOCK):
                    some = part.recent[start : start + BLOCK]
                    nearest.add(self.vectors(some), some)
                numbers = nearest.numbers()
                found.append((score_unique(queries, numbers, self.vectors), numbers))
            scores, numbers = found[0] if len(found) == 1 else map(np.hstack, zip(*found, strict=True))
            scores, numbers = rank(scores, numbers, size)
            if has_codes or size == total or (size >= _MOST_EQUAL + count and not is_exact):
                break
            if (scores[:, count - 1] - scores[:, -1] > _EQUAL).all():
                break
            size = min(total, 4 * size)
        return scores[:, :count], numbers[:, :count]

    def vectors(self, chunks: Numbers) -> Vectors:
        """Return the vectors (n, dim) of chunks, whose numbers rise."""
        state, cache = self.state, self.state.cache
        split = 0 if cache is None else int(np.searchsorted(chunks, cache.last, side="right"))
        early, late = chunks[:split], chunks[split:]
        parts = []
        if cache is not None and split:
            if cache.keeps_vectors:
                parts.append(cache.vectors[cache.places(early)])
            elif state.manifest.keeps_vectors:
                parts.append(self.stored(early))
            else:
                vectors = encode_checked(self.documents_encoder(), self.texts(early))
                parts.append(normalize_for(state.manifest.metric, vectors))
        if len(late) or not split:
            held, size = state.vectors, len(state.whole.recent) * state.manifest.dimension
            if held is None and size <= _HELD:
                held = state.vectors = self.stored(state.whole.recent)
            recent = self.stored(late) if held is None else held[np.searchsorted(state.whole.recent, late)]
            parts.append(recent)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def documents_encoder(self) -> TextEncoder:
        """Return the encoder of documents."""
        if self._encoder is None:
            place = self._database.parent
            raise InputError(
                f"{place} does not keep vectors, and its encoder is not known", "pass the encoder"
            )
        return self._encoder()

    def stored(self, chunks: Numbers) -> Vectors:
        """Return the vectors (n, dim) of chunks from the database, whose numbers rise."""
        return read_vectors(self.connection, chunks, self.manifest, self._database)

    def has_vectors_of(self, chunks: Numbers) -> bool:
        """Return whether the vectors are those of some chunks, whose numbers rise."""
        whole, cache = self.state.whole, self.state.cache
        numbers = whole.recent
        if cache is not None:
            cached = cache.numbers if whole.alive is None else cache.numbers[whole.alive.places]
            numbers = np.concatenate([numbers, cached])
        if self.manifest.keeps_vectors:
            stored = self.connection.execute("SELECT id FROM vectors ORDER BY id")
            if not np.array_equal(np.fromiter((number for (number,) in stored), dtype=np.int64), chunks):
                return False
        return np.array_equal(np.sort(numbers), chunks)

    def is_sound(self, row: Sequence[Any]) -> bool:
        """Return whether a row of the documents and its chunks have their checksum."""
        number, identifier, text, metadata, form, checksum = row
        spans = self._spans(number) if form else ()
        if not isinstance(text, str) or not isinstance(metadata, str | None) or bool(form) is not bool(spans):
            return False
        return bool(checksum_of(identifier, text, metadata, spans) == checksum)

    def keyword(
        self, queries: Sequence[QueryTerms], k: int, min_score: float | None, where: Where | None
    ) -> list[list[Ranked]]:
        """Return the documents that have terms of each query, best first."""
        self.manifest.check_keywords(self._database.parent)
        mask = self._part(where).mask
        least = -np.inf if min_score is None else min_score
        found = (self.state.keywords.rank(self.connection, query, k, mask) for query in queries)
        return [[Ranked(*pair) for pair in pairs if pair[0] >= least] for pairs in found]

    def fetch(self, ranked: Iterable[Sequence[Ranked]]) -> Fetched:
        """Return the documents that were ranked, and where their chunks are."""
        hits = [hit for row in ranked for hit in row]
        chosen = str(list({hit.document for hit in hits}))
        query = f"SELECT {_COLUMNS} FROM documents WHERE number {_SOME}"
        rows = self.connection.execute(query, (chosen,)).fetchall()
        metadata = self._all_metadata([row[3] for row in rows])
        documents = {row[0]: (row[1], row[2], extra) for row, extra in zip(rows, metadata, strict=True)}
        if not any(row[4] for row in rows):
            return Fetched(documents, {})
        chunks = str(list({hit.chunk for hit in hits if hit.chunk is not None}))
        spans = self.connection.execute(f"SELECT id, start, stop FROM chunks WHERE id {_SOME}", (chunks,))
        return Fetched(documents, {number: Span(start, stop) for number, start, stop in spans})

    def numbers_of(self, ids: Iterable[str | int]) -> dict[str | int, int]:
        """Return the numbers of the documents with some ids, of those that exist."""
        query = "SELECT number FROM documents WHERE id = ?"
        rows = ((key, self.connection.execute(query, (key,)).fetchone()) for key in ids)
        return {key: row[0] for key, row in rows if row is not None}

    def chunks(self) -> Numbers:
        """Return the numbers of all chunks, rising."""
        return read_chunks(self.connection)

    def texts(self, chunks: Numbers) -> list[str]:
        """Return the texts of chunks, whose numbers rise."""
        return read_texts(self.connection, chunks)

    def rows(self, where: Where | None = None) -> Iterator[ChunkedDocument]:
        """Yield all documents, or those that meet conditions, in their order."""
        condition, parameters = "1", []
        if where is not None:
            where.add_functions(self.connection)
            condition, parameters = where.sql, where.parameters
        query = f"SELECT {_COLUMNS} FROM documents WHERE {condition} ORDER BY number"
        for number, key, text, metadata, form in self.connection.execute(query, parameters):
            document = Document(text, key, self._metadata(metadata), f"document {key!r}")
            yield ChunkedDocument(document, self._spans(number) if form else (), form == TRUNCATED)

    def batches(self) -> Batches:
        """Yield all documents in their order with their vectors."""
        rows, chunks = self.rows(), self.chunks()
        while documents := list(islice(rows, _BATCH)):
            count = sum(len(one.texts) for one in documents)
            yield documents, self.vectors(chunks[:count])
            chunks = chunks[count:]

    def fields(self) -> tuple[Field, ...]:
        """Return the fields of the metadata."""
        self.connection.execute("PRAGMA query_only=0")  # it takes a temporary table
        try:
            return read_fields(self.connection)
        finally:
            self.connection.execute("PRAGMA query_only=1")

    def _spans(self, number: int) -> tuple[Span, ...]:
        """Return where the chunks of a document are."""
        bounds = chunk_number(number, 0), chunk_number(number + 1, 0) - 1
        query = "SELECT start, stop FROM chunks WHERE id BETWEEN ? AND ? ORDER BY id"
        return tuple(Span(*row) for row in self.connection.execute(query, bounds))

    def _all_metadata(self, extras: list[str | None]) -> list[dict[str, Any]]:
        """Read the metadata of several documents at once, which takes a fifth of the time."""
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            found = json.loads(f"[{','.join([extra or '{}' for extra in extras])}]")
            if len(found) == len(extras) and all(type(one) is dict for one in found):
                return list(found)
        return [self._metadata(extra) for extra in extras]

    def _metadata(self, extra: str | None) -> dict[str, Any]:
        try:
            return dict(json.loads(extra)) if extra else {}
        except (ValueError, TypeError, RecursionError):
            raise InputError(f"the metadata in {self._database} are damaged", REBUILD) from None
