"""An index in LanceDB, on a disk or in object storage; the only file that imports it.

A document has one row, or one for each of its chunks; the first has its text, its metadata as JSON and
its terms. Every row has the fields of the metadata in columns of their types, by which LanceDB filters. A
change is one version of the table, which LanceDB writes whole or not at all. A table that is being filled has
a note beside it, and is not an index until that is gone.
"""

from __future__ import annotations

import contextlib
import datetime
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sentemb._files import writing
from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.search.chunks import ChunkedDocument
from sentemb.search.conditions import required
from sentemb.search.documents import LARGE_ID, Document, as_documents, next_free_id
from sentemb.search.encoded import Progress
from sentemb.search.fields import Field
from sentemb.search.hybrid_weight import HybridWeight
from sentemb.search.keywords import QueryTerms
from sentemb.search.lancedb_rows import (
    FACTS,
    OVERFLOW,
    among,
    chunk_numbers,
    column_of,
    id_of,
    key_of,
    lance_filter,
    matrix_of,
    schema_of,
    table_of,
)
from sentemb.search.manifest import Manifest
from sentemb.search.passages import Span
from sentemb.search.plan import Kind
from sentemb.search.store import (
    Batches,
    Capability,
    Changed,
    Fetched,
    Prepare,
    Ranked,
    StoredDocument,
    best_documents,
    chunk_number,
    sample_of,
    unknown_id,
)
from sentemb.search.vectors import Numbers, exact_scores, normalize_for
from sentemb.search.where import Where, explain
from sentemb.search.writer import repeated_id

SCHEME = "lancedb:"
APPROXIMATE_FROM = 50_000
"""Rows from which on vectors get an approximate index; fewer are compared one by one."""
_NAME, _NOTE = "sentemb", "sentemb_unfinished"
_PROBES, _REFINED = 300, 5  # lists that are looked into, and candidates compared as a multiple of the limit
_RABITQ_BITS, _RABITQ_GROUP = 5, 8  # of a number of a vector; numbers that are coded together
_FEW = 20_000  # rows that meet a filter and are compared one by one
_BATCH, _AT_ONCE, _WIDER, _SPARE, _EQUAL = 1024, 8192, 4, 8, 2e-6
_KEPT = datetime.timedelta(hours=1)  # states that others may still read
_MOST_COLUMNS = 400


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

    capabilities: frozenset[Capability] = frozenset()

    def __init__(self, address: str) -> None:
        self.address = address
        self._database = _connect(address)
        there = _tables(self._database)
        if _NOTE in there:
            raise InputError(
                f"the index at {address} is not complete", "run the command that was writing it again"
            )
        if _NAME not in there:
            raise InputError(
                f"no index at {address}",
                "copy an index folder to it with `sentemb index move FOLDER --to lancedb:URI`",
            )
        self._table = self._database.open_table(_NAME)
        facts = (self._table.schema.metadata or {}).get(FACTS)
        if facts is None:
            raise InputError(
                f"the table at {address} is not a sentemb index", "check the address, or copy the index again"
            )
        self._facts = Manifest.parse(facts.decode(), address)
        self._latest: LanceSnapshot | None = None

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[LanceSnapshot]:
        """Read one version of the table."""
        version, latest = int(self._table.version), self._latest
        if latest is None or latest.version != version:
            table = self._database.open_table(_NAME)
            table.checkout(version)
            self._latest = latest = LanceSnapshot(table, version, self._facts, self.address)
        yield latest

    def add(self, items: Iterable[Any], prepare: Prepare, *, replacing: bool) -> Changed:
        """Add documents, all or none."""
        with self.snapshot() as now:
            following, next_id = now.next_numbers()
        places: dict[Any, str | None] = {}

        def claimed() -> Iterator[Document]:
            for document in as_documents(items, first=None if replacing else next_id):
                if document.id in places:
                    raise repeated_id(document, str(places[document.id]))
                places[document.id] = document.location
                yield document

        done: Counter[str] = Counter()
        tables, blank = [], []
        for documents, vectors in prepare(claimed()):
            keys = [key_of(one.document.id) for one in documents]
            if not replacing:
                self._refuse_known(documents, keys)
            blank += [key for key, one in zip(keys, documents, strict=True) if not one.texts]
            kept = [one for one in documents if one.texts]
            tables.append(table_of(self._facts, kept, following, normalize_for(self._facts.metric, vectors)))
            following += len(kept)
            done["added"] += len(kept)
            done["chunked"] += sum(one.chunked for one in kept)
            done["truncated"] += sum(one.truncated for one in kept)
        new = {key for table in tables for key in table["key"].to_pylist()}
        known = self._existing({*new, *blank}) if replacing else set()
        if new:
            rows = self._fitting(tables)
            with self._writing():
                if replacing:
                    merge = self._table.merge_insert("unit")
                    merge = merge.when_matched_update_all().when_not_matched_insert_all()
                    merge.when_not_matched_by_source_delete(among("key", sorted({*new, *blank}))).execute(
                        rows
                    )
                else:
                    self._table.add(rows)
        elif known:
            self._delete(known)
        replaced = len(new & known)
        return Changed(done["added"] - replaced, replaced, len(blank), done["chunked"], done["truncated"])

    def delete(self, ids: Sequence[str | int]) -> int:
        """Delete documents in one step; return how many of the ids existed."""
        existing = self._existing({key_of(one) for one in ids})
        if existing:
            self._delete(existing)
        return len(existing)

    def keep_weight(self, weight: HybridWeight | None) -> None:
        """Raise InputError: the weights are not kept."""
        raise InputError(f"{self.address} does not keep the weights of hybrid search")

    def compact(
        self,
        *,
        kind: Kind | Literal["auto"] | None = None,
        memory_budget: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Index what is not indexed yet, and drop the states of more than an hour ago."""
        with self._writing():
            _index(self._table, self._facts)
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

    def _refuse_known(self, documents: Sequence[ChunkedDocument], keys: Sequence[str]) -> None:
        existing = self._existing(keys)
        for one, key in zip(documents, keys, strict=True):
            if key in existing and one.texts:
                raise InputError(
                    f"{one.document.location}: the id {one.document.id!r} is already in the index",
                    "use update to replace the document",
                )

    def _existing(self, keys: Iterable[str]) -> set[str]:
        found = self._table.search().where(f"part = 0 AND {among('key', keys)}").select(["key"]).to_arrow()
        return set(found["key"].to_pylist())

    def _delete(self, keys: Iterable[str]) -> None:
        with self._writing():
            self._table.delete(among("key", sorted(keys)))

    def _fitting(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Return rows with the columns of the table, which gets those of new fields first."""
        with self._writing():
            return _fitted(self._table, tables)

    def _writing(self) -> contextlib.AbstractContextManager[None]:
        return writing(self.address.removeprefix(SCHEME))


class LanceSnapshot:
    """One version of a table; see `Snapshot`."""

    def __init__(self, table: Any, version: int, facts: Manifest, address: str) -> None:
        self._table, self.version, self._facts, self._address = table, version, facts, address
        self._columns = set(table.schema.names)

    @cached_property
    def manifest(self) -> Manifest:
        """The facts of the index, with the counts of this version."""
        count = self._table.count_rows
        return replace(
            self._facts,
            documents=int(count("part = 0")),
            vectors=int(count()),
            chunked=int(count("part = 0 AND start IS NOT NULL AND NOT cut")),
            truncated=int(count("part = 0 AND cut")),
        )

    def count(self, where: Where | None) -> int:
        """Return how many documents meet conditions."""
        if where is None:
            return self.manifest.documents
        return int(self._table.count_rows(f"part = 0 AND {self._condition(where)}"))

    def explain_no_match(self, where: Where) -> str | None:
        """Explain why no document can meet conditions."""
        if self.count(where):
            return None
        kinds: dict[str, type | None] = {"n": float, "s": str, "b": bool, "o": None}
        for test in required(where.tree):
            columns = {kind: column_of(test.field, kind) for kind in kinds}
            met = {
                kinds[kind]
                for kind, name in columns.items()
                if name in self._columns and self._table.count_rows(f"{name} IS NOT NULL")
            }
            needed = test.needs()
            if needed and (reason := explain(test, met, needed)):
                return reason
        return None

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
            found = self._search(query, limit, condition, total)
            chunks = chunk_numbers(found)
            # The scores of the vectors themselves, regardless of what LanceDB has rounded.
            scores = exact_scores(query, matrix_of(found["vector"], len(query)))
            order = np.lexsort((chunks, -scores))
            scores, chunks = scores[order], chunks[order]
            ranked = best_documents(scores, chunks, k, min_score)
            below = min_score is not None and bool((scores < min_score).any())
            told = len(ranked) == k and ranked[-1].score - float(scores[-1]) > _EQUAL
            if told or below or limit == total:
                return ranked
            limit = min(total, _WIDER * limit)

    def _search(self, query: Vectors, limit: int, condition: str | None, total: int) -> pa.Table:
        asked = self._table.search(query, vector_column_name="vector").distance_type(self._facts.metric)
        if condition is not None:
            asked = asked.where(condition, prefilter=True)
        if total <= _FEW or limit == total:
            asked = asked.bypass_vector_index()
        else:
            asked = asked.nprobes(_PROBES).refine_factor(_REFINED)
        return asked.limit(limit).select(["document", "part", "vector", "_distance"]).to_arrow()

    def keyword(
        self, queries: Sequence[QueryTerms], k: int, min_score: float | None, where: Where | None
    ) -> list[list[Ranked]]:
        """Return the documents that have terms of each query, best first, by LanceDB's BM25.

        Function words of a query do not count there, unless it has no other words.
        """
        from lancedb.query import MatchQuery

        self.manifest.keyword_language(self._address)
        matched: Any = MatchQuery  # its stubs call every option required
        condition = None if where is None else self._condition(where)
        k, least = min(k, self.count(where)), -np.inf if min_score is None else min_score
        ranked: list[list[Ranked]] = []
        for query in queries:
            if not query.content or not k:
                ranked.append([])
                continue
            asked = self._table.search(matched(" ".join(query.content), "terms"), query_type="fts")
            if condition is not None:
                asked = asked.where(condition, prefilter=True)
            found = asked.limit(k).select(["document", "_score"]).to_arrow()
            documents, scores = found["document"].to_numpy(), found["_score"].to_numpy()
            order = np.lexsort((documents, -scores))[:k]
            pairs = zip(scores[order].tolist(), documents[order].tolist(), strict=True)
            ranked.append([Ranked(score, number) for score, number in pairs if score >= least])
        return ranked

    def fetch(self, ranked: Iterable[Sequence[Ranked]]) -> Fetched:
        """Return the documents that were ranked, and where their chunks are."""
        numbers = {hit.document for row in ranked for hit in row}
        if not numbers:
            return Fetched({}, {})
        columns = ["document", "part", "key", "start", "stop", "text", "metadata"]
        rows = self._read(columns, among("document", numbers)).to_pylist()
        whole = {
            row["document"]: StoredDocument(id_of(row["key"]), row["text"], self._metadata(row))
            for row in rows
            if row["part"] == 0
        }
        parts = [row for row in rows if row["start"] is not None]
        spans = {chunk_number(row["document"], row["part"]): Span(row["start"], row["stop"]) for row in parts}
        return Fetched(whole, spans)

    def get(self, ids: Sequence[str | int]) -> list[Document | None]:
        """Return the documents with some ids."""
        condition = f"part = 0 AND {among('key', map(key_of, ids))}"
        rows = self._read(["key", "text", "metadata"], condition).to_pylist() if ids else []
        found = {row["key"]: Document(row["text"], id_of(row["key"]), self._metadata(row)) for row in rows}
        return [found.get(key_of(one)) for one in ids]

    def numbers_of(self, ids: Iterable[str | int]) -> dict[str | int, int]:
        """Return the numbers of the documents with some ids, of those that exist."""
        keys = {key_of(one): one for one in ids}
        found = self._read(["key", "document"], f"part = 0 AND {among('key', keys)}")
        pairs = zip(found["key"].to_pylist(), found["document"].to_pylist(), strict=True)
        return {keys[key]: number for key, number in pairs}

    def vectors(self, ids: Sequence[str | int]) -> Vectors:
        """Return the vector of the first chunk of some documents, (n, dim)."""
        keys = [key_of(one) for one in ids]
        found = self._read(["key", "vector"], f"part = 0 AND {among('key', keys)}")
        places = {key: place for place, key in enumerate(found["key"].to_pylist())}
        for identifier, key in zip(ids, keys, strict=True):
            if key not in places:
                raise unknown_id(identifier)
        rows = matrix_of(found["vector"], self._facts.dimension)
        return rows[[places[key] for key in keys]]

    def sample(self, count: int) -> tuple[list[str], Vectors]:
        """Return some of the documents' first texts, always the same, and their vectors."""
        chosen = sample_of(self._ordered("part = 0"), count)
        rows = self._take(chosen, ["text", "start", "stop", "vector"])
        texts = [row["text"][row["start"] : row["stop"]] for row in rows.drop(["vector"]).to_pylist()]
        return texts, matrix_of(rows["vector"], self._facts.dimension)

    def rows(self, where: Where | None = None) -> Iterator[ChunkedDocument]:
        """Yield all documents, or those that meet conditions, in their order."""
        for documents, _ in self._batches(None if where is None else self._condition(where)):
            yield from documents

    def batches(self) -> Batches:
        """Yield all documents in their order with their vectors."""
        return self._batches(None)

    def fields(self) -> tuple[Field, ...]:
        """Raise InputError: the fields cannot be listed."""
        raise InputError(f"{self._address} cannot list the fields of its metadata")

    def next_numbers(self) -> tuple[int, int]:
        """Return the next number of a document, and the next integer as an id."""
        rows = self._read(["document", "key"], "part = 0")
        last = pc.max(rows["document"]).as_py()
        keys = pc.filter(rows["key"], pc.starts_with(rows["key"], "i:"))
        ids = np.sort(pc.cast(pc.utf8_slice_codeunits(keys, 2), pa.int64()).to_numpy())
        largest = ids[max(0, np.searchsorted(ids, LARGE_ID) - 1) :]
        return (1 if last is None else last + 1), next_free_id(largest.tolist(), 0)

    def _batches(self, condition: str | None) -> Batches:
        columns = ["document", "key", "part", "start", "stop", "cut", "text", "metadata", "vector"]
        ids = self._ordered(condition)
        pending: list[dict[str, Any]] = []
        for first in range(0, len(ids), _BATCH):
            table = self._take(ids[first : first + _BATCH], columns)
            rows = table.drop(["vector"]).to_pylist()
            for row, vector in zip(rows, matrix_of(table["vector"], self._facts.dimension), strict=True):
                pending.append(row | {"vector": vector})
            last = first + _BATCH >= len(ids)
            # The chunks of the last document may go on in the next batch.
            whole = [row for row in pending if last or row["document"] != pending[-1]["document"]]
            pending = pending[len(whole) :]
            if whole:
                yield self._documents(whole), np.stack([row["vector"] for row in whole])

    def _documents(self, rows: Sequence[Mapping[str, Any]]) -> list[ChunkedDocument]:
        spans: dict[int, list[Span]] = {}
        for row in rows:
            own = spans.setdefault(row["document"], [])
            own += [Span(row["start"], row["stop"])] if row["start"] is not None else []
        documents = []
        for row in rows:
            if row["part"] == 0:
                key = id_of(row["key"])
                document = Document(row["text"], key, self._metadata(row), f"document {key!r}")
                documents.append(ChunkedDocument(document, tuple(spans[row["document"]]), row["cut"]))
        return documents

    def _ordered(self, condition: str | None) -> Numbers:
        """Return LanceDB's ids of rows, in the order of the documents and their chunks."""
        table = self._read(["document", "part"], condition, numbered=True)
        order = pc.sort_indices(table, sort_keys=[("document", "ascending"), ("part", "ascending")])
        numbers: Numbers = table["_rowid"].take(order).to_numpy().astype(np.int64)
        return numbers

    def _take(self, ids: Numbers, columns: Sequence[str]) -> pa.Table:
        """Return rows by LanceDB's ids, in their order."""
        found = self._table.take_row_ids(ids.tolist()).select(list(columns)).with_row_id().to_arrow()
        # They come in the order of their ids.
        order = np.argsort(found["_rowid"].to_numpy())
        return found.take(order[np.argsort(np.argsort(ids))]).drop(["_rowid"])

    def _read(
        self, columns: Sequence[str], condition: str | None = None, *, numbered: bool = False
    ) -> pa.Table:
        asked = self._table.search().select(list(columns)).with_row_id(numbered)
        return (asked if condition is None else asked.where(condition)).to_arrow()

    def _condition(self, where: Where) -> str:
        """Return a filter as an expression of LanceDB."""
        try:
            return lance_filter(where.tree, self._columns)
        except NotImplementedError:  # such as dates: Python looks at the metadata of each document
            met: list[int] = []
            asked = self._table.search().select(["document", "metadata"]).where("part = 0")
            for batch in asked.to_batches(_AT_ONCE):
                pairs = zip(batch["document"].to_pylist(), batch["metadata"].to_pylist(), strict=True)
                met += [number for number, metadata in pairs if where.matches(metadata)]
            return among("document", met)

    def _metadata(self, row: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return dict(json.loads(row["metadata"]))
        except (ValueError, TypeError, RecursionError):
            raise InputError(
                f"{self._address}: the metadata of document {id_of(row['key'])!r} are damaged",
                "update the document, or build the index again",
            ) from None


def create(address: str, facts: Manifest, batches: Batches) -> None:
    """Make an index of documents; a failure leaves none, and after a kill it is not an index.

    Args:
        address: As of `LanceStore`.
        facts: What is known of the index.
        batches: Its documents with their vectors, which have the length that they are to have.

    Raises:
        InputError: There is an index already.
    """
    with writing(address.removeprefix(SCHEME)):
        database = _connect(address)
        there = _tables(database)
        if _NAME in there and _NOTE not in there:
            raise InputError(
                f"{address} already contains an index", "choose another place, or remove it first"
            )
        for name in (_NAME, _NOTE):
            database.drop_table(name, ignore_missing=True)
        database.create_table(_NOTE, schema=pa.schema([pa.field("note", pa.string())]))
        try:
            table = database.create_table(_NAME, schema=schema_of(facts))
            first = 1
            for documents, vectors in _joined(batches):
                table.add(_fitted(table, [table_of(facts, documents, first, vectors)]))
                first += len(documents)
            _index(table, facts)
            database.drop_table(_NOTE)
        except BaseException:
            for name in (_NAME, _NOTE):
                database.drop_table(name, ignore_missing=True)
            raise


def _joined(batches: Batches) -> Batches:
    """Yield larger batches: each is one version of the table."""
    documents: list[ChunkedDocument] = []
    vectors: list[Vectors] = []
    for some, rows in batches:
        documents += some
        vectors.append(rows)
        if len(documents) >= 16 * _BATCH:
            yield documents, np.concatenate(vectors)
            documents, vectors = [], []
    if documents:
        yield documents, np.concatenate(vectors)


def _fitted(table: Any, parts: Sequence[pa.Table]) -> pa.Table:
    """Return rows with the columns of a table, which gets those of new fields first."""
    rows = pa.concat_tables(parts, promote_options="default")
    there = set(table.schema.names)
    new = [name for name in rows.schema.names if name not in there]
    if len(there) + len(new) > _MOST_COLUMNS:
        rows, new = rows.drop(new), [] if OVERFLOW in there else [OVERFLOW]
    if new:
        types = {
            name: rows.schema.field(name).type if name in rows.schema.names else pa.bool_() for name in new
        }
        table.add_columns(pa.schema([pa.field(name, kind) for name, kind in types.items()]))
    schema = table.schema
    columns = [
        rows[name] if name in rows.schema.names else pa.nulls(len(rows), schema.field(name).type)
        for name in schema.names
    ]
    return pa.table(columns, schema=schema)


def _index(table: Any, facts: Manifest) -> None:
    """Make the indexes that do not exist: of terms, keys and fields, and of vectors where they are many."""
    from lancedb.index import FTS, BTree, IvfRq, IvfSq

    existing = {column for one in table.list_indices() for column in one.columns}
    rows = table.count_rows()
    wanted: dict[str, Any] = {}
    if rows:
        plain: dict[str, Any] = dict.fromkeys(
            ("stem", "lower_case", "remove_stop_words", "ascii_folding"), False
        )
        wanted["terms"] = FTS(base_tokenizer="whitespace", max_token_length=None, **plain)
        fields = [name for name in table.schema.names if name.startswith(("meta_n_", "meta_s_"))]
        wanted |= {name: BTree() for name in ("key", "document", *fields)}
    if rows >= APPROXIMATE_FROM:
        # Codes of a few bits a number find what a graph finds, and are built in seconds. RaBitQ cannot code
        # every length.
        odd = facts.dimension % _RABITQ_GROUP
        metric = facts.metric
        codes: Any = (
            IvfSq(distance_type=metric) if odd else IvfRq(distance_type=metric, num_bits=_RABITQ_BITS)
        )
        wanted["vector"] = codes
    for column, config in wanted.items():
        if column not in existing:
            table.create_index(column, config=config)


def _connect(address: str) -> Any:
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


def _tables(database: Any) -> set[str]:
    page = database.list_tables()
    found = set(page.tables)
    while page.page_token:
        page = database.list_tables(page_token=page.page_token)
        found.update(page.tables)
    return found
