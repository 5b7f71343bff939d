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
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sentemb._files import writing
from sentemb.encoding.encoder import Vectors
from sentemb.encoding.shards import refuse_repeated_ids
from sentemb.errors import InputError
from sentemb.search.documents import (
    LARGE_ID,
    ChunkedDocument,
    Document,
    Numbers,
    Progress,
    as_documents,
    chunk_number,
    documents_of,
    metadata_json,
    next_id_after,
    normalize_for,
)
from sentemb.search.keywords import QueryTerms, terms_of
from sentemb.search.manifest import Abstention, HybridWeight, Manifest
from sentemb.search.passages import Span
from sentemb.search.store import BATCH, Changed, Fetched, Prepare, Ranked, known_id
from sentemb.search.vectors import nearest_documents, rank, score
from sentemb.search.where import Field, NotSqlError, Where, joined_sql, number, read_fields, type_of

SCHEME = "lancedb:"
NAME, NOTE, _FACTS = "sentemb", "sentemb_unfinished", b"sentemb.index"
APPROXIMATE_FROM = 50_000
"""Rows from which on vectors get an approximate index; fewer are compared one by one."""
_PROBES, _REFINED = 300, 5  # lists that are looked into, and candidates compared as a multiple of the limit
_RABITQ_BITS, _RABITQ_GROUP = 5, 8  # of a number of a vector; numbers that are coded together
_FEW = 20_000  # rows that meet a filter and are compared one by one
_KEPT = datetime.timedelta(hours=1)  # states that others may still read
_TEXTS = ["key", "start", "stop", "truncated", "text", "metadata"]
# Columns of a field: its numbers, texts, booleans, and whether it has another value.
_COLUMNS = {"n": pa.float64(), "s": pa.string(), "b": pa.bool_(), "o": pa.bool_()}
_KINDS: dict[type | None, str] = {float: "n", str: "s", bool: "b", None: "o"}


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
        facts = (self._table.schema.metadata or {}).get(_FACTS)
        if facts is None:
            raise InputError(
                f"the table at {address} is not an index of this version of sentemb",
                "check the address, or copy the index again",
            )
        self._facts = Manifest.parse(facts.decode(), address)
        self._latest: _LanceSnapshot | None = None

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[_LanceSnapshot]:
        """Read one version of the table."""
        version, latest = int(self._table.version), self._latest
        if latest is None or latest.version != version:
            table = self._database.open_table(NAME)
            table.checkout(version)
            self._latest = latest = _LanceSnapshot(table, version, self._facts, self.address)
        yield latest

    def add(self, items: Iterable[Any], prepare: Prepare, *, replacing: bool) -> Changed:
        """Add documents, all or none."""
        with self.snapshot() as before:
            following, next_id = before.next_numbers()
        new = refuse_repeated_ids(as_documents(items, first=None if replacing else next_id))
        documents: list[ChunkedDocument] = []
        vectors, known = [], set()
        for some, rows in prepare(new):
            existing = {*before.numbers_of(one.document.id for one in some)}  # type: ignore[misc]
            for one in some:
                if not replacing and one.texts and one.document.id in existing:
                    raise known_id(one.document)
            documents += some
            vectors.append(normalize_for(self._facts.metric, rows))
            known |= existing
        kept = [one for one in documents if one.texts]
        blank = {one.document.id for one in documents if not one.texts}
        with self._writing():
            if kept:
                rows = table_of(self._facts, kept, following, np.concatenate(vectors))
                rows = fit_columns(self._table, rows)
                if not replacing:
                    self._table.add(rows)
                else:
                    merge = self._table.merge_insert("unit").when_matched_update_all()
                    gone = _among("key", {*rows["key"].to_pylist(), *map(_key_of, blank)})
                    merge = merge.when_not_matched_insert_all().when_not_matched_by_source_delete(gone)
                    merge.execute(rows)
            elif replacing and known:
                self._table.delete(_among("key", map(_key_of, known)))
        replaced = len(known - blank) if replacing else 0
        long = sum(one.chunked for one in kept), sum(one.truncated for one in kept)
        return Changed(len(kept) - replaced, replaced, len(blank), *long)

    def delete(self, ids: Sequence[str | int]) -> int:
        """Delete documents in one step; return how many of the ids existed."""
        with self.snapshot() as now:
            existing = now.numbers_of(ids)
        if existing:
            with self._writing():
                self._table.delete(_among("key", map(_key_of, existing)))
        return len(existing)

    def keep(self, **fitted: HybridWeight | Abstention | None) -> bool:
        """Return False: what is fitted is not kept."""
        return False

    def compact(self, progress: Progress) -> None:
        """Index what is not indexed yet, and drop the states of more than an hour ago."""
        with self._writing():
            create_indexes(self._table, self._facts)
            self._table.optimize(cleanup_older_than=_KEPT)

    def info(self) -> dict[str, Any]:
        """Return the table's version, indexes and size."""
        return {
            "version": int(self._table.version),
            "indexes": [one.index_type for one in self._table.list_indices()],
            "documents": int(self._table.count_rows("part = 0")),
        }

    def _writing(self) -> contextlib.AbstractContextManager[None]:
        return writing(self.address.removeprefix(SCHEME))


class _LanceSnapshot:
    """One version of a table; `Snapshot` describes its methods."""

    def __init__(self, table: Any, version: int, facts: Manifest, address: str) -> None:
        self._table, self.version, self._facts, self._address = table, version, facts, address
        self._columns = set(table.schema.names)

    @functools.cached_property
    def manifest(self) -> Manifest:
        count = self._table.count_rows
        return replace(
            self._facts,
            documents=int(count("part = 0")),
            vectors=int(count()),
            chunked=int(count("part = 0 AND start IS NOT NULL AND NOT truncated")),
            truncated=int(count("part = 0 AND truncated")),
        )

    def count(self, where: Where | None) -> int:
        if where is None:
            return self.manifest.documents
        return int(self._table.count_rows(f"part = 0 AND {self._condition(where)}"))

    def types_of(self, field: str) -> set[type | None]:
        columns = {type_: _column_of(field, kind) for type_, kind in _KINDS.items()}
        known = [(type_, column) for type_, column in columns.items() if column in self._columns]
        return {type_ for type_, column in known if self._table.count_rows(f"{column} IS NOT NULL")}

    def candidates(
        self, queries: Vectors, k: int, min_score: float | None, where: Where | None
    ) -> list[list[Ranked]]:
        condition = None if where is None else self._condition(where)
        total = self.manifest.vectors if condition is None else int(self._table.count_rows(condition))
        k = min(k, self.count(where))

        def find(query: Vectors, limit: int) -> tuple[Vectors, Numbers]:
            search = self._table.search(query[0], vector_column_name="vector")
            search = search.distance_type(self._facts.metric)
            search = search if condition is None else search.where(condition, prefilter=True)
            if total <= _FEW or limit == total:
                search = search.bypass_vector_index()
            else:
                search = search.nprobes(_PROBES).refine_factor(_REFINED)
            found = search.limit(limit).select(["document", "part", "vector", "_distance"]).to_arrow()
            # The scores of the vectors themselves, regardless of what LanceDB has rounded.
            exact = score(query, np.arange(len(found))[None], self._matrix(found))
            return rank(exact, _chunks_of(found)[None], limit)

        expected = 2 * k if self.manifest.chunked else k
        alone = (query[None] for query in queries)
        return [nearest_documents(query, k, min_score, expected, total, total, find)[0] for query in alone]

    def keyword(
        self, queries: Sequence[QueryTerms], k: int, min_score: float | None, where: Where | None
    ) -> list[list[Ranked]]:
        # Function words of a query do not count here, unless it has no other words.
        from lancedb.query import MatchQuery

        match: Any = MatchQuery  # its stubs call every option required
        condition = None if where is None else self._condition(where)
        k, least = min(k, self.count(where)), -np.inf if min_score is None else min_score
        ranked: list[list[Ranked]] = [[] for _ in queries]
        for own, query in zip(ranked, queries, strict=True):
            if query.content and k:
                search = self._table.search(match(" ".join(query.content), "terms"), query_type="fts")
                search = search if condition is None else search.where(condition, prefilter=True)
                found = search.limit(k).select(["document", "_score"]).to_arrow()
                pairs = zip(found["_score"].to_pylist(), found["document"].to_pylist(), strict=True)
                best = sorted(pairs, key=lambda pair: (-pair[0], pair[1]))
                own += [Ranked(*pair) for pair in best[:k] if pair[0] >= least]
        return ranked

    def coverage(self, query: QueryTerms, documents: Numbers) -> tuple[NDArray[np.float64], float]:
        raise InputError(
            f"{self._address}: LanceDB does not tell how rare words are, which the evidence of hits needs",
            "copy the index to a folder with `sentemb index move`, and calibrate it there",
        )

    def fetch(self, ranked: Iterable[Sequence[Ranked]]) -> Fetched:
        numbers = {hit.document for row in ranked for hit in row}
        rows = self._read(_TEXTS, _among("document", numbers)).to_pylist()
        firsts = [row for row in rows if not row["part"]]
        chunks = [row for row in rows if row["start"] is not None]
        return Fetched(
            {row["document"]: (_id_of(row["key"]), row["text"], self._metadata(row)) for row in firsts},
            {chunk_number(row["document"], row["part"]): Span(row["start"], row["stop"]) for row in chunks},
        )

    def numbers_of(self, ids: Iterable[str | int]) -> dict[str | int, int]:
        keys = {_key_of(one): one for one in ids}
        rows = self._read(["key"], f"part = 0 AND {_among('key', keys)}").to_pylist()
        return {keys[row["key"]]: row["document"] for row in rows}

    def chunks(self) -> Numbers:
        return _chunks_of(self._read([], None))

    def texts(self, chunks: Numbers) -> list[str]:
        documents, spans = self.fetch([[Ranked(0, one) for one in documents_of(chunks).tolist()]])
        pairs = zip(chunks.tolist(), documents_of(chunks).tolist(), strict=True)
        return [documents[document][1][slice(*spans.get(chunk, (None, None)))] for chunk, document in pairs]

    def vectors(self, chunks: Numbers) -> Vectors:
        table = self._read(["vector"], _among("document", np.unique(documents_of(chunks)).tolist()))
        return self._matrix(table)[np.isin(_chunks_of(table), chunks)]

    def rows(self, where: Where | None = None) -> Iterator[ChunkedDocument]:
        condition = "true" if where is None else self._condition(where)
        numbers = self._read([], f"part = 0 AND {condition}")["document"].to_pylist()
        for start in range(0, len(numbers), BATCH):
            some = numbers[start : start + BATCH]
            within = f"document >= {some[0]} AND document <= {some[-1]} AND {condition}"
            rows = self._read(_TEXTS, within).to_pylist()
            for _, own in groupby(rows, key=lambda row: row["document"]):
                parts = [*own]
                first, key = parts[0], _id_of(parts[0]["key"])
                spans = tuple(Span(row["start"], row["stop"]) for row in parts if row["start"] is not None)
                document = Document(first["text"], key, self._metadata(first), f"document {key!r}")
                yield ChunkedDocument(document, spans, first["truncated"])

    def fields(self) -> tuple[Field, ...]:
        with contextlib.closing(sqlite3.connect("")) as database:
            database.execute("CREATE TABLE documents (number, metadata)")
            database.executemany("INSERT INTO documents VALUES (?, ?)", self._metadata_rows())
            return read_fields(database)

    def next_numbers(self) -> tuple[int, int]:
        """Return the next number of a document, and the next integer as an id."""
        rows = self._read(["key"], "part = 0")
        keys = pc.filter(rows["key"], pc.starts_with(rows["key"], "i:"))
        ids = np.sort(pc.cast(pc.utf8_slice_codeunits(keys, 2), pa.int64()).to_numpy())
        next_id = 0
        for identifier in ids[max(0, np.searchsorted(ids, LARGE_ID) - 1) :].tolist():
            next_id = next_id_after(identifier, next_id)
        return max(rows["document"].to_pylist(), default=0) + 1, next_id

    def _read(self, columns: Sequence[str], condition: str | None) -> pa.Table:
        """Return columns of rows with document and part, in the order of these."""
        search = self._table.search().select(["document", "part", *columns])
        found = (search if condition is None else search.where(condition)).to_arrow()
        return found.sort_by([("document", "ascending"), ("part", "ascending")])

    def _metadata_rows(self) -> Iterator[tuple[int, str]]:
        found = self._table.search().select(["document", "metadata"]).where("part = 0")
        for batch in found.to_batches(BATCH):
            yield from ((row["document"], row["metadata"]) for row in batch.to_pylist())

    def _matrix(self, table: pa.Table) -> Vectors:
        """Return the vectors of rows as an array (n, dim)."""
        flat = table["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        vectors: Vectors = flat.reshape(-1, self._facts.dimension)
        return vectors

    def _metadata(self, row: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return dict(json.loads(row["metadata"]))
        except (ValueError, TypeError, RecursionError):
            raise InputError(
                f"{self._address}: the metadata of document {_id_of(row['key'])!r} are damaged",
                "update the document, or build the index again",
            ) from None

    def _condition(self, where: Where) -> str:
        """Return a filter as an expression of LanceDB."""
        columns = self._columns

        def exists(field: str) -> str:
            known = [column for kind in _COLUMNS if (column := _column_of(field, kind)) in columns]
            return joined_sql([f"{column} IS NOT NULL" for column in known], "OR")

        def compare(field: str, name: str, value: Any) -> str:
            if isinstance(value, list):
                return joined_sql([compare(field, "=", one) for one in value], "OR")
            if isinstance(value, datetime.datetime):
                raise NotSqlError
            kind = _KINDS[type_of(value)]
            column = _column_of(field, kind)
            if column not in columns:
                return "false"
            written = _quoted(value) if kind == "s" else str(value).lower() if kind == "b" else float(value)
            return f"COALESCE({column} {name} {written!s}, false)"

        try:
            return where.as_sql(exists, compare)
        except NotSqlError:  # such as dates: SQLite looks at the metadata of each document
            return _among("document", where.matching(self._metadata_rows()))


def schema_of(facts: Manifest) -> pa.Schema:
    """Return the columns of every index, with everything else that is known of it."""
    text, integer, vector = pa.string(), pa.int64(), pa.list_(pa.float32(), facts.dimension)
    place = [("unit", text), ("key", text), ("document", integer), ("part", pa.int32())]  # `unit` is unique
    span = [("start", integer), ("stop", integer), ("truncated", pa.bool_())]
    content = [("text", text), ("metadata", text), ("terms", text), ("vector", vector)]
    return pa.schema(place + span + content, metadata={_FACTS: facts.dump().encode()})


def table_of(facts: Manifest, documents: Sequence[ChunkedDocument], first: int, vectors: Vectors) -> pa.Table:
    """Return the rows of documents, counted from `first`, with a vector for each of their texts."""
    rows: list[dict[str, Any]] = []
    terms = terms_of([one.document.text for one in documents], facts.language)
    for place, (one, counts) in enumerate(zip(documents, terms, strict=True), start=first):
        key, text, fields = _key_of(one.document.id), one.document.text, one.document.metadata
        same = {"key": key, "document": place, "truncated": one.truncated} | _typed_fields(fields)
        metadata = metadata_json(one.document) or "{}"
        whole = {"text": text, "metadata": metadata, "terms": " ".join(counts.elements())}
        for part, (start, stop) in enumerate(one.spans or ((None, None),)):
            own = {"unit": f"{key}#{part}", "part": part, "start": start, "stop": stop}
            rows.append(same | own | (whole if part == 0 else {}))
    schema = schema_of(facts)
    for name in dict.fromkeys(name for row in rows for name in row if name.startswith("meta_")):
        schema = schema.append(pa.field(name, _COLUMNS[name.split("_")[1]]))
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).ravel())
    columns = {one.name: pa.array([row.get(one.name) for row in rows], one.type) for one in schema}
    columns["vector"] = pa.FixedSizeListArray.from_arrays(flat, facts.dimension)
    return pa.table(columns, schema=schema)


def fit_columns(table: Any, rows: pa.Table) -> pa.Table:
    """Return rows with the columns of a table, which gets those of new fields first."""
    if new := [one for one in rows.schema if one.name not in table.schema.names]:
        table.add_columns(pa.schema(new))
    names = set(rows.schema.names)
    columns = [rows[one.name] if one.name in names else pa.nulls(len(rows), one.type) for one in table.schema]
    return pa.table(columns, schema=table.schema)


def _typed_fields(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a document's fields by the names of their columns."""
    found = dict(_paths(metadata)) | {name: value for name, value in metadata.items() if "." in name}
    typed: dict[str, Any] = {}
    for path, value in found.items():
        kind = _KINDS.get(type_of(value), "o")
        if value is not None:
            typed[_column_of(path, kind)] = True if kind == "o" else float(value) if kind == "n" else value
        if kind == "s" and (spelled := number(value)) is not None:  # compared with numbers too
            typed[_column_of(path, "n")] = spelled
    return typed


def _paths(fields: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of fields and of what is nested in them, by their paths."""
    for name, value in fields.items():
        if "." not in name:
            yield before + name, value
            if isinstance(value, Mapping) and before.count(".") < 20:
                yield from _paths(value, f"{before}{name}.")


def _column_of(field: str, kind: str) -> str:
    is_plain = re.fullmatch(r"[a-z][a-z0-9_]{0,40}", field)
    return f"meta_{kind}_{field if is_plain else '_' + blake2b(field.encode(), digest_size=8).hexdigest()}"


def _key_of(identifier: Any) -> str:
    """Return an id as a text: 1 and "1" are different ids."""
    return f"{'i' if isinstance(identifier, int) else 's'}:{identifier}"


def _id_of(key: str) -> str | int:
    return int(key[2:]) if key.startswith("i:") else key[2:]


def _chunks_of(rows: pa.Table) -> Numbers:
    found: Numbers = chunk_number(rows["document"].to_numpy(), rows["part"].to_numpy().astype(np.int64))
    return found


def _among(column: str, values: Iterable[Any]) -> str:
    """Return the condition that a column has one of some values."""
    listed = ",".join(str(value) if isinstance(value, int) else _quoted(value) for value in values)
    return f"{column} IN ({listed})" if listed else "false"


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


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
