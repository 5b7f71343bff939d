"""Documents in a table of LanceDB; the only file that imports it.

A document has one row, or one for each of its passages; the first has its text, metadata and terms. A change
is one version of the table, which LanceDB writes whole or not at all.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.search.address import SCHEME, in_lancedb
from sentemb.search.keywords import terms_of
from sentemb.search.manifest import Manifest
from sentemb.search.prepared import Prepared
from sentemb.search.vectors import Numbers

APPROXIMATE_FROM = 50_000
"""Rows from which on vectors get an approximate index; fewer are compared one by one."""
_NAME = "sentemb"
_FACTS = b"sentemb"
_PROBES = 40
_REFINED = 10  # candidates that are compared by their whole vectors, as a multiple of the limit
_KEPT = datetime.timedelta(hours=1)  # states that others may still read
_MANIFEST = TypeAdapter(Manifest)
Result = TypeVar("Result")


class LanceTable:
    """An open table.

    Args:
        address: `lancedb:` and a folder or a URI that LanceDB reads, such as `lancedb:s3://bucket/path`.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._database = _connect(address)
        if not _has_table(self._database):
            raise InputError(
                f"no index at {address}", "`sentemb index move FOLDER --to lancedb:URI` makes one of a folder"
            )
        self._table = self._database.open_table(_NAME)
        try:
            facts = json.loads(self._table.schema.metadata[_FACTS])
            self.facts: Manifest = _MANIFEST.validate_python(facts)
        except (KeyError, TypeError, ValueError, ValidationError):
            raise InputError(
                f"the table at {address} is no index of sentemb", "move the index again"
            ) from None

    @property
    def version(self) -> int:
        """The number of the newest state."""
        return int(self._table.version)

    def count(self, condition: str | None = None) -> int:
        """How many rows there are."""
        return int(self._table.count_rows(condition))

    def scan(self, columns: Sequence[str], condition: str | None = None) -> Iterator[pa.RecordBatch]:
        """Some columns of the rows, in no particular order."""
        query = self._table.search().select(list(columns))
        yield from (query if condition is None else query.where(condition)).to_batches(8192)

    def read(
        self, columns: Sequence[str], condition: str | None = None, *, numbered: bool = False
    ) -> pa.Table:
        """The same as one table in memory, with LanceDB's ids of the rows as `_rowid` where wanted."""
        query = self._table.search().select(list(columns)).with_row_id(numbered)
        return (query if condition is None else query.where(condition)).to_arrow()

    def rows(self, ids: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Rows by LanceDB's ids, in their order."""
        return self._table.take_row_ids(list(ids)).select(list(columns)).to_arrow()

    def nearest(self, vector: Any, limit: int, columns: Sequence[str], condition: str | None) -> pa.Table:
        """The rows nearest to a vector; with a condition all that meet it are compared."""
        query = self._table.search(vector, vector_column_name="vector").distance_type(self.facts.metric)
        if condition is None:
            query = query.nprobes(_PROBES).refine_factor(_REFINED)
        else:
            query = query.where(condition, prefilter=True).bypass_vector_index()
        return query.limit(limit).select([*columns, "_distance"]).to_arrow()

    def holding(self, terms: Iterable[str], limit: int, condition: str | None) -> tuple[Numbers, Any]:
        """Documents that have any of some terms, with LanceDB's BM25, best first."""
        from lancedb.query import MatchQuery

        matched: Any = MatchQuery  # its stubs call every option required
        query = self._table.search(matched(" ".join(terms), "terms"), query_type="fts")
        if condition is not None:
            query = query.where(condition, prefilter=True)
        found = query.limit(limit).select(["document", "_score"]).to_arrow()
        return found["document"].to_numpy(), found["_score"].to_numpy()

    def there(self, keys: Iterable[str]) -> set[str]:
        """Which of some documents there are."""
        return set(self.read(["key"], f"part = 0 AND {among('key', keys)}")["key"].to_pylist())

    def add(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Add rows in one version."""
        streamed(self._schema, batches, self._table.add)

    def replace(self, keys: Sequence[str], rows: pa.Table) -> None:
        """Put rows in the place of those of some documents, in one version."""
        merge = self._table.merge_insert("unit").when_matched_update_all().when_not_matched_insert_all()
        merge.when_not_matched_by_source_delete(among("key", keys)).execute(rows)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete the rows of some documents, in one version."""
        self._table.delete(among("key", keys))

    def optimise(self) -> None:
        """Index what is not indexed yet, and drop the states of more than an hour ago."""
        _index(self._table)
        self._table.optimize(cleanup_older_than=_KEPT)

    def stats(self) -> dict[str, Any]:
        """What LanceDB knows of the table."""
        return {"version": self.version, "indexes": [one.index_type for one in self._table.list_indices()]}

    @property
    def _schema(self) -> pa.Schema:
        return schema_of(self.facts)


def create(address: str, facts: Manifest, batches: Iterable[pa.RecordBatch]) -> None:
    """Make a table of rows and index it; a failure leaves none."""
    database = _connect(address)
    if _has_table(database):
        raise InputError(f"{address} already holds an index", "move to another place, or remove it first")
    schema = schema_of(facts)
    try:
        _index(streamed(schema, batches, lambda reader: database.create_table(_NAME, reader, schema=schema)))
    except BaseException:
        database.drop_table(_NAME, ignore_missing=True)
        raise


def streamed(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], write: Callable[[pa.RecordBatchReader], Result]
) -> Result:
    """Write batches as they come; an error in making them is raised as it was."""
    problem: list[BaseException] = []

    def guarded() -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except BaseException as error:
            problem.append(error)
            raise

    try:
        return write(pa.RecordBatchReader.from_batches(schema, guarded()))
    except BaseException:
        if problem:
            raise problem[0] from None
        raise


def schema_of(facts: Manifest) -> pa.Schema:
    """The columns of an index, with everything else that is known of it."""
    return pa.schema(
        [
            pa.field("unit", pa.string(), nullable=False),  # the key of a row: the document's, and the part
            pa.field("key", pa.string(), nullable=False),
            pa.field("document", pa.int64(), nullable=False),  # documents are counted in their order
            pa.field("part", pa.int32(), nullable=False),
            pa.field("start", pa.int64()),
            pa.field("stop", pa.int64()),
            pa.field("cut", pa.bool_(), nullable=False),
            pa.field("text", pa.string()),
            pa.field("metadata", pa.string()),
            pa.field("terms", pa.string()),
            pa.field("vector", pa.list_(pa.float32(), facts.dimension)),
        ],
        metadata={_FACTS: json.dumps(dataclasses.asdict(facts)).encode()},
    )


def batch_of(facts: Manifest, documents: Sequence[Prepared], first: int, vectors: Vectors) -> pa.RecordBatch:
    """The rows of some documents, counted from `first`, with a vector for each of their texts."""
    columns: dict[str, list[Any]] = {name: [] for name in schema_of(facts).names if name != "vector"}
    terms = terms_of([one.document.text for one in documents], facts.language or "und")
    for number, (one, counts) in enumerate(zip(documents, terms, strict=True), start=first):
        key = key_of(one.document.id)
        spans = one.spans or ((None, None),)
        for part, (start, stop) in enumerate(spans):
            row = [f"{key}#{part}", key, number, part, start, stop, one.cut]
            whole = [one.document.text, json.dumps(dict(one.document.metadata)), _spelled(counts)]
            for name, value in zip(columns, row + (whole if part == 0 else [None] * 3), strict=True):
                columns[name].append(value)
    schema = schema_of(facts)
    arrays = [pa.array(columns[name], schema.field(name).type) for name in columns]
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).ravel())
    arrays.append(pa.FixedSizeListArray.from_arrays(flat, facts.dimension))
    return pa.record_batch(arrays, schema=schema)


def key_of(identifier: Any) -> str:
    """An id as a text: 1 and "1" are different ids."""
    return f"{'i' if isinstance(identifier, int) else 's'}:{identifier}"


def id_of(key: str) -> str | int:
    """The id that a key stands for."""
    return int(key[2:]) if key.startswith("i:") else key[2:]


def among(column: str, values: Iterable[Any]) -> str:
    """The condition that a column has one of some values."""
    listed = ",".join(
        str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'" for value in values
    )
    return f"{column} IN ({listed})" if listed else "false"


def _spelled(counts: Counter[str]) -> str:
    return " ".join(term for term, count in counts.items() for _ in range(count))


def _index(table: Any) -> Any:
    """Make the indexes that are not there: of terms, of keys, and of vectors where they are many."""
    from lancedb.index import FTS, BTree, IvfHnswSq

    facts = json.loads(table.schema.metadata[_FACTS])
    there = {column for one in table.list_indices() for column in one.columns}
    rows = table.count_rows()
    wanted: dict[str, Any] = {}
    if rows:
        plain: dict[str, Any] = {
            "stem": False,
            "lower_case": False,
            "remove_stop_words": False,
            "ascii_folding": False,
        }
        wanted["terms"] = FTS(base_tokenizer="whitespace", max_token_length=None, **plain)
        wanted |= {"key": BTree(), "document": BTree()}
    if rows >= APPROXIMATE_FROM:
        wanted["vector"] = IvfHnswSq(distance_type=facts["metric"])
    for column, config in wanted.items():
        if column not in there:
            table.create_index(column, config=config)
    return table


def _connect(address: str) -> Any:
    place = address.removeprefix(SCHEME)
    if not in_lancedb(address) or not place:
        raise InputError(
            f"{address} is no place of LanceDB", "write it like lancedb:FOLDER or lancedb:s3://B/P"
        )
    import lancedb

    try:
        # Other processes' changes are seen at once.
        return lancedb.connect(place, read_consistency_interval=datetime.timedelta(0))
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(f"LanceDB cannot open {place}: {error}") from error


def _has_table(database: Any) -> bool:
    page = database.list_tables()
    while _NAME not in page.tables and page.page_token:
        page = database.list_tables(page_token=page.page_token)
    return _NAME in page.tables
