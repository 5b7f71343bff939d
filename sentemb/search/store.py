"""Interface between an index and its storage: a folder, or LanceDB.

A store changes in transactions; a snapshot of it answers all requests from one state. Documents are numbered
in the order in which they were written; the number of a chunk contains the number of its document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, NamedTuple, Protocol

from sentemb.data.bm25 import Double
from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.search.documents import Batches, ChunkedDocument, Document, Numbers, Progress
from sentemb.search.keywords import QueryTerms
from sentemb.search.manifest import Abstention, HybridWeight, Manifest
from sentemb.search.passages import Span
from sentemb.search.where import Field, Where

Prepare = Callable[[Iterator[Document]], Batches]
"""Chunks documents and encodes them."""
BATCH = 1_024
"""Documents that are read at a time."""


class Changed(NamedTuple):
    """Counts of the changes that a call made to the documents of an index.

    Args:
        added: Documents with a new id.
        replaced: Documents that replaced an existing one with the same id.
        skipped: Blank documents. A blank document with an existing id removes the existing document.
        chunked: Added or replaced documents that are indexed in chunks.
        truncated: Added or replaced documents of which the model reads only the beginning.

    Example:
        >>> index = SearchIndex.build(["a cat sat", "birds fly"], "static-mini")
        >>> index.add([("id-20", "a dog runs")]).added
        1
    """

    added: int
    replaced: int
    skipped: int
    chunked: int = 0
    truncated: int = 0


class Ranked(NamedTuple):
    """A document by its number, its score, and the number of the chunk that has it, in a dense search."""

    score: float
    document: int
    chunk: int | None = None


class Fetched(NamedTuple):
    """Id, text and metadata of documents by number, and the spans of chunks that are not the whole text."""

    documents: dict[int, tuple[str | int, str, dict[str, Any]]]
    spans: dict[int, Span]


class Snapshot(Protocol):
    """One state of a store."""

    @property
    def manifest(self) -> Manifest:
        """The facts of the index, with the counts of this state."""

    def count(self, where: Where | None) -> int:
        """Return how many documents meet conditions."""

    def types_of(self, field: str) -> set[type | None]:
        """Return the types of a field's values; see `Where.explain_no_match`."""

    def candidates(
        self, queries: Vectors, k: int, min_score: float | None, where: Where | None
    ) -> list[list[Ranked]]:
        """Return the documents nearest to each query, best first."""

    def keyword(
        self, queries: Sequence[QueryTerms], k: int, min_score: float | None, where: Where | None
    ) -> list[list[Ranked]]:
        """Return the documents that have terms of each query, best first."""

    def coverage(self, query: QueryTerms, documents: Numbers) -> tuple[Double, float]:
        """Return the share of a query's words that documents have, by idf, and the highest possible BM25.

        Raises:
            InputError: The store does not know the weights of words.
        """

    def fetch(self, ranked: Iterable[Sequence[Ranked]]) -> Fetched:
        """Return the documents that were ranked, and where their chunks are."""

    def numbers_of(self, ids: Iterable[str | int]) -> dict[str | int, int]:
        """Return the numbers of the documents with some ids, of those that exist."""

    def chunks(self) -> Numbers:
        """Return the numbers of all chunks, rising."""

    def texts(self, chunks: Numbers) -> list[str]:
        """Return the texts of chunks, whose numbers rise."""

    def vectors(self, chunks: Numbers) -> Vectors:
        """Return the vectors (n, dim) of chunks, whose numbers rise."""

    def rows(self, where: Where | None = None) -> Iterator[ChunkedDocument]:
        """Yield all documents, or those that meet conditions, in their order."""

    def fields(self) -> tuple[Field, ...]:
        """Return the fields of the metadata."""


class Store(Protocol):
    """A place where an index lives."""

    @property
    def address(self) -> str:
        """Path or URI of the store."""

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """Read one state, regardless of concurrent writes."""

    def add(self, items: Iterable[Any], prepare: Prepare, *, replacing: bool) -> Changed:
        """Add documents, all or none; `replacing` puts them in the place of those with their ids."""

    def delete(self, ids: Sequence[str | int]) -> int:
        """Delete documents in one step; return how many of the ids existed."""

    def keep(self, **fitted: HybridWeight | Abstention | None) -> bool:
        """Keep fields of the manifest, `hybrid` or `abstention`; return False if the store does not."""

    def compact(self, progress: Progress) -> None:
        """Index what was written, and give the space of deleted documents back."""

    def info(self) -> dict[str, Any]:
        """Return what is known of the store itself, as JSON."""


def batches(snapshot: Snapshot) -> Batches:
    """Yield all documents in their order with their vectors, as they are compared."""
    rows, chunks = snapshot.rows(), snapshot.chunks()
    while documents := list(islice(rows, BATCH)):
        count = sum(len(one.texts) for one in documents)
        yield documents, snapshot.vectors(chunks[:count])
        chunks = chunks[count:]


def known_id(document: Document) -> InputError:
    """Return the error of an id that is in the index already."""
    return InputError(
        f"{document.location}: the id {document.id!r} is already in the index",
        "use update to replace the document",
    )
