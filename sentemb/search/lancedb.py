"""An index in LanceDB, on a disk or in object storage; the only file that imports it.

A document has one row, or one for each of its chunks; the first has its text, its metadata as JSON and
its terms. Every row has the fields of the metadata in columns of their types, by which LanceDB filters. A
change is one version of the table, which LanceDB writes whole or not at all. A table that is being filled has
a note next to it, which names the source, and is not an index until that is gone.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sentemb._files import writing
from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.search.documents import (
    LARGE_ID,
    Batches,
    ChunkedDocument,
    Document,
    Numbers,
    Progress,
    as_documents,
    chunk_number,
    documents_of,
    next_id_after,
    normalize_for,
)
from sentemb.search.keywords import QueryTerms
from sentemb.search.lance_rows import (
    FACTS,
    KINDS,
    NAME,
    NOTE,
    among,
    chunks_of,
    column_of,
    condition_of,
    fit_columns,
    id_of,
    key_of,
    matrix,
    table_of,
)
from sentemb.search.manifest import HybridWeight, Manifest
from sentemb.search.passages import Span
from sentemb.search.store import Changed, Fetched, Prepare, Ranked, known_id, repeated_id
from sentemb.search.vectors import best_documents, rank, score
from sentemb.search.where import Field, NotSqlError, Where, read_fields

SCHEME = "lancedb:"
APPROXIMATE_FROM = 50_000
"""Rows from which on vectors get an approximate index; fewer are compared one by one."""
_PROBES, _REFINED = 300, 5  # lists that are looked into, and candidates compared as a multiple of the limit
_RABITQ_BITS, _RABITQ_GROUP = 5, 8  # of a number of a vector; numbers that are coded together
_FEW = 20_000  # rows that meet a filter and are compared one by one
_BATCH, _WIDER, _SPARE, _EQUAL = 1024, 4, 8, 2e-6
_KEPT = datetime.timedelta(hours=1)  # states that others may still read
_TEXTS = ["key", "start", "stop", "truncated", "text", "metadata"]


class LanceStore:
    """A table of LanceDB that is open; see `Store`.

    Keyword scores are LanceDB's BM25, which counts deleted documents until they are merged away, and what was
    added since the last `compact` apart. Fitted weights are not kept. Of two processes that add at the same
    time each checks ids before it writes: let one process write.

    Args:
        address: `lancedb:` and a folder or a URI that LanceDB reads, such as `lancedb:s3://bucket/path`.

    Raises:
        InputError: There is no such index, or it is not complete.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._database = connect(address)
        tables = tables_of(self._database)
        if NOTE in tables:
            raise InputError(
                f"the index at {address} is not complete", "run the command that was writing it again"
            )
        if NAME not in tables:
            raise InputError(
                f"no index at {address}",
                "copy an index folder to it with `sentemb index move FOLDER --to lancedb:URI`",
            )
        self._table = self._database.open_table(NAME)
        facts = (self._table.schema.metadata or {}).get(FACTS)
        if facts is None:
            raise InputError(
                f"the table at {address} is not an index of this version of sentemb",
                "check the address, or copy the index again",
            )
        self._facts = Manifest.parse(facts.decode(), address)
        self._latest: LanceSnapshot | None = None

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[LanceSnapshot]:
        """Read one version of the table."""
        version, latest = int(self._table.version), self._latest
        if latest is None or latest.version != version:
            table = self._database.open_table(NAME)
            table.checkout(version)
            self._latest = latest = LanceSnapshot(table, version, self._facts, self.address)
        yield latest

    def add(self, items: Iterable[Any], prepare: Prepare, *, replacing: bool) -> Changed:
        """Add documents, all or none."""
        with self.snapshot() as before:
            following, next_id = before.next_numbers()
        places: dict[Any, str | None] = {}

        def claimed() -> Iterator[Document]:
            for document in as_documents(items, first=None if replacing else next_id):
                if document.id in places:
                    raise repeated_id(document, str(places[document.id]))
                places[document.id] = document.location
                yield document

        documents: list[ChunkedDocument] = []
        vectors, known = [], set()
        for some, rows in prepare(claimed()):
            existing = self._existing(key_of(one.document.id) for one in some)
            for one in some:
                if not replacing and one.texts and key_of(one.document.id) in existing:
                    raise known_id(one.document)
            documents += some
            vectors.append(normalize_for(self._facts.metric, rows))
            known |= existing
        kept = [one for one in documents if one.texts]
        blank = {key_of(one.document.id) for one in documents if not one.texts}
        with self._writing():
            if kept:
                rows = table_of(self._facts, kept, following, np.concatenate(vectors))
                rows = fit_columns(self._table, rows)
                if not replacing:
                    self._table.add(rows)
                else:
                    merge = self._table.merge_insert("unit").when_matched_update_all()
                    gone = among("key", {*rows["key"].to_pylist(), *blank})
                    merge = merge.when_not_matched_insert_all().when_not_matched_by_source_delete(gone)
                    merge.execute(rows)
            elif replacing and known:
                self._table.delete(among("key", known))
        replaced = len(known - blank) if replacing else 0
        long = sum(one.chunked for one in kept), sum(one.truncated for one in kept)
        return Changed(len(kept) - replaced, replaced, len(blank), *long)

    def delete(self, ids: Sequence[str | int]) -> int:
        """Delete documents in one step; return how many of the ids existed."""
        existing = self._existing({key_of(one) for one in ids})
        if existing:
            with self._writing():
                self._table.delete(among("key", existing))
        return len(existing)

    def keep_weight(self, weight: HybridWeight | None) -> bool:
        """Return False: fitted weights are not kept."""
        return False

    def compact(self, progress: Progress) -> None:
        """Index what is not indexed yet, and drop the states of more than an hour ago."""
        with self._writing():
            create_indexes(self._table, self._facts)
            self._table.optimize(cleanup_older_than=_KEPT)

    def info(self) -> dict[str, Any]:
        """Return the table's version and indexes, and what it cannot promise."""
        return {
            "version": int(self._table.version),
            "indexes": [one.index_type for one in self._table.list_indices()],
            "documents": int(self._table.count_rows("part = 0")),
            "not_promised": [
                "keyword scores ignore deleted documents only after compact",
                "ids are unique only with a single writer at a time",
            ],
        }

    def _existing(self, keys: Iterable[str]) -> set[str]:
        condition = f"part = 0 AND {among('key', keys)}"
        return set(self._table.search().where(condition).select(["key"]).to_arrow()["key"].to_pylist())

    def _writing(self) -> contextlib.AbstractContextManager[None]:
        return writing(self.address.removeprefix(SCHEME))


class LanceSnapshot:
    """One version of a table; see `Snapshot`."""

    def __init__(self, table: Any, version: int, facts: Manifest, address: str) -> None:
        self._table, self.version, self._facts, self._address = table, version, facts, address
        self._columns = set(table.schema.names)

    @functools.cached_property
    def manifest(self) -> Manifest:
        """The facts of the index, with the counts of this version."""
        count = self._table.count_rows
        return replace(
            self._facts,
            documents=int(count("part = 0")),
            vectors=int(count()),
            chunked=int(count("part = 0 AND start IS NOT NULL AND NOT truncated")),
            truncated=int(count("part = 0 AND truncated")),
        )

    def count(self, where: Where | None) -> int:
        """Return how many documents meet conditions."""
        if where is None:
            return self.manifest.documents
        return int(self._table.count_rows(f"part = 0 AND {self._condition(where)}"))

    def explain_no_match(self, where: Where) -> str | None:
        """Explain why no document can meet conditions."""

        def types_of(field: str) -> set[type | None]:
            columns = {kind: column for kind in KINDS if (column := column_of(field, kind)) in self._columns}
            return {KINDS[k] for k in columns if self._table.count_rows(f"{columns[k]} IS NOT NULL")}

        return None if self.count(where) else where.explain_no_match(types_of)

    def candidates(
        self, queries: Vectors, k: int, min_score: float | None, where: Where | None
    ) -> list[list[Ranked]]:
        """Return the documents nearest to each query, best first."""
        condition = None if where is None else self._condition(where)
        total = self.manifest.vectors if condition is None else int(self._table.count_rows(condition))
        k = min(k, self.count(where))
        return [self._nearest(query, k, min_score, condition, total) if k else [] for query in queries]

    def _nearest(
        self, query: Vectors, k: int, min_score: float | None, condition: str | None, total: int
    ) -> list[Ranked]:
        limit = min(total, (2 * k if self.manifest.chunked else k) + _SPARE)
        while True:
            search = self._table.search(query, vector_column_name="vector").distance_type(self._facts.metric)
            search = search if condition is None else search.where(condition, prefilter=True)
            if total <= _FEW or limit == total:
                search = search.bypass_vector_index()
            else:
                search = search.nprobes(_PROBES).refine_factor(_REFINED)
            found = search.limit(limit).select(["document", "part", "vector", "_distance"]).to_arrow()
            vectors, chunks = matrix(found["vector"], len(query)), chunks_of(found)[None]
            # The scores of the vectors themselves, regardless of what LanceDB has rounded.
            exact = score(query[None], np.arange(len(found))[None], vectors)
            scores, chunks = (some[0] for some in rank(exact, chunks, limit))
            ranked = best_documents(scores, chunks, k, min_score)
            is_below = min_score is not None and bool((scores < min_score).any())
            is_certain = len(ranked) == k and ranked[-1].score - float(scores[-1]) > _EQUAL
            if is_certain or is_below or limit == total:
                return ranked
            limit = min(total, _WIDER * limit)

    def keyword(
        self, queries: Sequence[QueryTerms], k: int, min_score: float | None, where: Where | None
    ) -> list[list[Ranked]]:
        """Return the documents that have terms of each query, best first, by LanceDB's BM25.

        Function words of a query do not count there, unless it has no other words.
        """
        from lancedb.query import MatchQuery

        self.manifest.check_keywords(self._address)
        match: Any = MatchQuery  # its stubs call every option required
        condition = None if where is None else self._condition(where)
        k, least = min(k, self.count(where)), -np.inf if min_score is None else min_score
        ranked: list[list[Ranked]] = []
        for query in queries:
            ranked.append([])
            if query.content and k:
                search = self._table.search(match(" ".join(query.content), "terms"), query_type="fts")
                if condition is not None:
                    search = search.where(condition, prefilter=True)
                found = search.limit(k).select(["document", "_score"]).to_arrow()
                pairs = zip(found["_score"].to_pylist(), found["document"].to_pylist(), strict=True)
                best = sorted(pairs, key=lambda pair: (-pair[0], pair[1]))
                ranked[-1] = [Ranked(*pair) for pair in best[:k] if pair[0] >= least]
        return ranked

    def fetch(self, ranked: Iterable[Sequence[Ranked]]) -> Fetched:
        """Return the documents that were ranked, and where their chunks are."""
        numbers = {hit.document for row in ranked for hit in row}
        rows = self._read(_TEXTS, among("document", numbers)).to_pylist()
        firsts = [row for row in rows if not row["part"]]
        chunks = [row for row in rows if row["start"] is not None]
        return Fetched(
            {row["document"]: (id_of(row["key"]), row["text"], self._metadata(row)) for row in firsts},
            {chunk_number(row["document"], row["part"]): Span(row["start"], row["stop"]) for row in chunks},
        )

    def numbers_of(self, ids: Iterable[str | int]) -> dict[str | int, int]:
        """Return the numbers of the documents with some ids, of those that exist."""
        keys = {key_of(one): one for one in ids}
        rows = self._read(["key"], f"part = 0 AND {among('key', keys)}").to_pylist()
        return {keys[row["key"]]: row["document"] for row in rows}

    def chunks(self) -> Numbers:
        """Return the numbers of all chunks, rising."""
        return chunks_of(self._read([], None))

    def texts(self, chunks: Numbers) -> list[str]:
        """Return the texts of chunks, whose numbers rise."""
        documents, spans = self.fetch([[Ranked(0, one) for one in documents_of(chunks).tolist()]])
        pairs = zip(chunks.tolist(), documents_of(chunks).tolist(), strict=True)
        return [documents[document][1][slice(*spans.get(chunk, (None, None)))] for chunk, document in pairs]

    def vectors(self, chunks: Numbers) -> Vectors:
        """Return the vectors (n, dim) of chunks, whose numbers rise."""
        table = self._read(["vector"], among("document", documents_of(chunks).tolist()))
        return matrix(table["vector"], self._facts.dimension)[np.isin(chunks_of(table), chunks)]

    def rows(self, where: Where | None = None) -> Iterator[ChunkedDocument]:
        """Yield all documents, or those that meet conditions, in their order."""
        for documents, _ in self.batches(where):
            yield from documents

    def batches(self, where: Where | None = None) -> Batches:
        """Yield all documents, or those that meet conditions, in their order with their vectors."""
        condition = "true" if where is None else self._condition(where)
        numbers = self._read([], f"part = 0 AND {condition}")["document"].to_pylist()
        for start in range(0, len(numbers), _BATCH):
            some = numbers[start : start + _BATCH]
            within = f"document >= {some[0]} AND document <= {some[-1]} AND {condition}"
            table = self._read([*_TEXTS, "vector"], within)
            rows = groupby(table.drop(["vector"]).to_pylist(), key=lambda row: row["document"])
            yield (
                [self._chunked([*parts]) for _, parts in rows],
                matrix(table["vector"], self._facts.dimension),
            )

    def fields(self) -> tuple[Field, ...]:
        """Return the fields of the metadata."""
        with contextlib.closing(sqlite3.connect("")) as database:
            database.execute("CREATE TABLE documents (number, metadata)")
            database.executemany("INSERT INTO documents VALUES (?, ?)", self._metadata_rows())
            return read_fields(database)

    def _metadata_rows(self) -> Iterator[tuple[int, str]]:
        found = self._table.search().select(["document", "metadata"]).where("part = 0")
        for batch in found.to_batches(_BATCH):
            yield from ((row["document"], row["metadata"]) for row in batch.to_pylist())

    def next_numbers(self) -> tuple[int, int]:
        """Return the next number of a document, and the next integer as an id."""
        rows = self._read(["key"], "part = 0")
        keys = pc.filter(rows["key"], pc.starts_with(rows["key"], "i:"))
        ids = np.sort(pc.cast(pc.utf8_slice_codeunits(keys, 2), pa.int64()).to_numpy())
        next_id = 0
        for identifier in ids[max(0, np.searchsorted(ids, LARGE_ID) - 1) :].tolist():
            next_id = next_id_after(identifier, next_id)
        return max(rows["document"].to_pylist(), default=0) + 1, next_id

    def _chunked(self, parts: Sequence[Mapping[str, Any]]) -> ChunkedDocument:
        """Return the document of some rows."""
        first, key = parts[0], id_of(parts[0]["key"])
        spans = tuple(Span(row["start"], row["stop"]) for row in parts if row["start"] is not None)
        document = Document(first["text"], key, self._metadata(first), f"document {key!r}")
        return ChunkedDocument(document, spans, first["truncated"])

    def _read(self, columns: Sequence[str], condition: str | None) -> pa.Table:
        """Return columns of rows with document and part, in the order of these."""
        search = self._table.search().select(["document", "part", *columns])
        found = (search if condition is None else search.where(condition)).to_arrow()
        return found.sort_by([("document", "ascending"), ("part", "ascending")])

    def _condition(self, where: Where) -> str:
        """Return a filter as an expression of LanceDB."""
        try:
            return condition_of(where, self._columns)
        except NotSqlError:  # such as dates: SQLite looks at the metadata of each document
            return among("document", where.matching(self._metadata_rows()))

    def _metadata(self, row: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return dict(json.loads(row["metadata"]))
        except (ValueError, TypeError, RecursionError):
            raise InputError(
                f"{self._address}: the metadata of document {id_of(row['key'])!r} are damaged",
                "update the document, or build the index again",
            ) from None


def create_indexes(table: Any, facts: Manifest) -> None:
    """Make the indexes that do not exist: of terms, keys and fields, and of vectors where they are many."""
    from lancedb.index import FTS, BTree, IvfRq, IvfSq

    existing = {column for one in table.list_indices() for column in one.columns}
    rows = table.count_rows()
    indexes: dict[str, Any] = {}
    if rows:
        fields = [name for name in table.schema.names if name.startswith(("meta_n_", "meta_s_"))]
        indexes |= {name: BTree() for name in ("key", "document", *fields)}
        no: Any = dict.fromkeys(("stem", "lower_case", "remove_stop_words", "ascii_folding"), False)
        indexes["terms"] = FTS(base_tokenizer="whitespace", max_token_length=None, **no)
    if rows >= APPROXIMATE_FROM:
        # Codes of a few bits a number find what a graph finds, and are built in seconds. RaBitQ cannot code
        # every length.
        is_odd = facts.dimension % _RABITQ_GROUP
        codes: Any = IvfSq if is_odd else functools.partial(IvfRq, num_bits=_RABITQ_BITS)
        indexes["vector"] = codes(distance_type=facts.metric)
    for column in indexes.keys() - existing:
        table.create_index(column, config=indexes[column])


def connect(address: str) -> Any:
    """Return the database at an address."""
    place = address.removeprefix(SCHEME)
    if not address.startswith(SCHEME) or not place:
        raise InputError(
            f"{address} is not a LanceDB address", "write it like lancedb:FOLDER or lancedb:s3://BUCKET/PATH"
        )
    import lancedb

    try:
        # Other processes' changes are seen at once.
        return lancedb.connect(place, read_consistency_interval=datetime.timedelta(0))
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(f"LanceDB cannot open {place}: {error}") from error


def tables_of(database: Any) -> set[str]:
    """Return the names of its tables."""
    page = database.list_tables()
    found = set(page.tables)
    while page.page_token:
        page = database.list_tables(page_token=page.page_token)
        found.update(page.tables)
    return found
