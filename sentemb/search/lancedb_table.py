"""Documents in a table of LanceDB; the only file that imports it.

A document has one row, or one for each of its passages; the first has its text, metadata and terms. A change
is one version of the table, which LanceDB writes whole or not at all. A table that is being filled has a note
beside it, and is no index until that is gone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from sentemb._files import writing
from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.search.address import SCHEME, in_lancedb
from sentemb.search.keywords import terms_of
from sentemb.search.manifest import Manifest
from sentemb.search.plan import Metric
from sentemb.search.prepared import Prepared
from sentemb.search.rows import metadata_json
from sentemb.search.vectors import Numbers

APPROXIMATE_FROM = 50_000
"""Rows from which on vectors get an approximate index; fewer are compared one by one."""
_NAME, _NOTE = "sentemb", "sentemb_unfinished"
_FACTS = b"sentemb"
_PROBES = 300  # lists that are looked into, of a thousand for a million rows
_REFINED = 5  # candidates that are compared by their whole vectors, as a multiple of the limit
_RABITQ_BITS, _RABITQ_GROUP = 5, 8  # of a number of a vector; numbers that are coded together
_AT_ONCE = 8192  # rows that are read
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
        try:
            facts = json.loads(self._table.schema.metadata[_FACTS])
            self.facts: Manifest = _MANIFEST.validate_python(facts)
        except (KeyError, TypeError, ValueError, ValidationError):
            raise InputError(
                f"the table at {address} is not a sentemb index", "check the address, or copy the index again"
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
        yield from (query if condition is None else query.where(condition)).to_batches(_AT_ONCE)

    def read(
        self, columns: Sequence[str], condition: str | None = None, *, numbered: bool = False
    ) -> pa.Table:
        """The same as one table in memory, with LanceDB's ids of the rows as `_rowid` where wanted."""
        query = self._table.search().select(list(columns)).with_row_id(numbered)
        return (query if condition is None else query.where(condition)).to_arrow()

    def rows(self, ids: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Rows by LanceDB's ids, in their order."""
        found = self._table.take_row_ids(list(ids)).select(list(columns)).with_row_id().to_arrow()
        # They come in the order of their ids.
        order = np.argsort(found["_rowid"].to_numpy())
        return found.take(order[np.argsort(np.argsort(ids))]).drop(["_rowid"])

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
        with self._writing():
            streamed(self._schema, batches, self._table.add)

    def replace(self, keys: Sequence[str], rows: pa.Table) -> None:
        """Put rows in the place of those of some documents, in one version."""
        merge = self._table.merge_insert("unit").when_matched_update_all().when_not_matched_insert_all()
        with self._writing():
            merge.when_not_matched_by_source_delete(among("key", keys)).execute(rows)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete the rows of some documents, in one version."""
        with self._writing():
            self._table.delete(among("key", keys))

    def optimise(self) -> None:
        """Index what is not indexed yet, and drop the states of more than an hour ago."""
        with self._writing():
            _index(self._table)
            self._table.optimize(cleanup_older_than=_KEPT)

    def stats(self) -> dict[str, Any]:
        """What LanceDB knows of the table."""
        return {"version": self.version, "indexes": [one.index_type for one in self._table.list_indices()]}

    @property
    def _schema(self) -> pa.Schema:
        return schema_of(self.facts)

    def _writing(self) -> contextlib.AbstractContextManager[None]:
        return writing(self.address.removeprefix(SCHEME))


class Filling:
    """A table that is being filled, by one process or several; it is no index until `finish`.

    Args:
        address: As of `LanceTable`.
        facts: What is known of the index.
        what: Tells what it is filled with: only who fills it with the same may resume an unfinished table.

    Raises:
        InputError: There is a finished index, or an unfinished one of something else.
    """

    def __init__(self, address: str, facts: Manifest, what: str) -> None:
        self._database = _connect(address)
        self._facts = facts
        there = _tables(self._database)
        if _NAME in there and _NOTE not in there:
            raise InputError(
                f"{address} already contains an index", "choose another place, or remove it first"
            )
        begun = _noted(self._database) if _NOTE in there else None
        if begun not in (None, what):
            raise InputError(
                f"{address} contains an incomplete index of other data",
                "complete it with the command that started it, or remove it",
            )
        self.resumed = begun is not None and _NAME in there
        if begun is None:
            note = pa.schema([pa.field("note", pa.string())], metadata={_FACTS: what.encode()})
            self._database.drop_table(_NOTE, ignore_missing=True)
            self._database.create_table(_NOTE, schema=note)
        if not self.resumed:
            self.restart()

    def restart(self) -> None:
        """Begin with no rows."""
        self._database.drop_table(_NAME, ignore_missing=True)
        self._database.create_table(_NAME, schema=schema_of(self._facts))

    def counts(self, ends: Sequence[int]) -> list[int]:
        """How many documents there are between bounds of their numbers, which rise from the first end on."""
        found = np.zeros(len(ends), dtype=np.int64)
        query = self._database.open_table(_NAME).search().select(["document"])
        for batch in query.to_batches(_AT_ONCE):
            parts = np.searchsorted(ends, batch["document"].to_numpy(), side="right")
            found += np.bincount(parts, minlength=len(ends))
        counts: list[int] = found.tolist()
        return counts

    def remove(self, start: int, stop: int) -> None:
        """Take the documents with some numbers out."""
        self._database.open_table(_NAME).delete(f"document >= {start} AND document < {stop}")

    def finish(self) -> None:
        """Index the rows; from here on it is an index."""
        _index(self._database.open_table(_NAME))
        self._database.drop_table(_NOTE)

    def drop(self) -> None:
        """Leave nothing."""
        for name in (_NAME, _NOTE):
            self._database.drop_table(name, ignore_missing=True)


def fill(address: str, facts: Manifest, batches: Iterable[pa.RecordBatch]) -> None:
    """Add rows to a table that is being filled, in one version."""
    with writing(address.removeprefix(SCHEME)):
        streamed(schema_of(facts), batches, _connect(address).open_table(_NAME).add)


def create(address: str, facts: Manifest, batches: Iterable[pa.RecordBatch]) -> None:
    """Make a table of rows and index it; a failure leaves none, and after a kill it is no index."""
    with writing(address.removeprefix(SCHEME)):
        filling = Filling(address, facts, "move")
        try:
            if filling.resumed:
                filling.restart()
            fill(address, facts, batches)
            filling.finish()
        except BaseException:
            filling.drop()
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
            whole = [one.document.text, metadata_json(one.document) or "{}", _spelled(counts)]
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
    from lancedb.index import FTS, BTree

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
        wanted["vector"] = _vector_index(facts["dimension"], facts["metric"])
    for column, config in wanted.items():
        if column not in there:
            table.create_index(column, config=config)
    return table


def _vector_index(dimension: int, metric: Metric) -> Any:
    """Codes of a few bits a number, whose best are compared by their whole vectors.

    They find what a graph finds, and are built in seconds where it takes minutes. RaBitQ cannot code every
    length.
    """
    from lancedb.index import IvfRq, IvfSq

    if dimension % _RABITQ_GROUP:
        return IvfSq(distance_type=metric)
    return IvfRq(distance_type=metric, num_bits=_RABITQ_BITS)


def _connect(address: str) -> Any:
    place = address.removeprefix(SCHEME)
    if not in_lancedb(address) or not place:
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


def _noted(database: Any) -> str | None:
    """What a table is being filled with; None where a kill left no whole note, and so no rows either."""
    try:
        metadata = database.open_table(_NOTE).schema.metadata
    except (OSError, RuntimeError, ValueError):
        return None
    return str((metadata or {}).get(_FACTS, b"").decode())
