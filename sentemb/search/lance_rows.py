"""Documents as rows of LanceDB: the columns of a table, and conditions on them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from sentemb.encoding.encoder import Vectors
from sentemb.search.documents import ChunkedDocument, Numbers, chunk_number, metadata_json
from sentemb.search.keywords import terms_of
from sentemb.search.manifest import Manifest
from sentemb.search.where import NotSqlError, Where, joined_sql, number, type_of

NAME, NOTE, FACTS = "sentemb", "sentemb_unfinished", b"sentemb.index"
# Columns of a field: its numbers, texts, booleans, and whether it has another value.
TYPES = {"n": pa.float64(), "s": pa.string(), "b": pa.bool_(), "o": pa.bool_()}
KINDS: dict[str, type | None] = {"n": float, "s": str, "b": bool, "o": None}


def schema_of(facts: Manifest) -> pa.Schema:
    """Return the columns of every index, with everything else that is known of it."""
    text, integer = pa.string(), pa.int64()
    columns = {
        "unit": text,  # the key of a row
        "key": text,
        "document": integer,
        "part": pa.int32(),
        "start": integer,
        "stop": integer,
        "truncated": pa.bool_(),
        "text": text,
        "metadata": text,
        "terms": text,
        "vector": pa.list_(pa.float32(), facts.dimension),
    }
    return pa.schema(columns, metadata={FACTS: facts.dump().encode()})


def table_of(facts: Manifest, documents: Sequence[ChunkedDocument], first: int, vectors: Vectors) -> pa.Table:
    """Return the rows of documents, counted from `first`, with a vector for each of their texts."""
    rows: list[dict[str, Any]] = []
    terms = terms_of([one.document.text for one in documents], facts.language)
    for number_of, (one, counts) in enumerate(zip(documents, terms, strict=True), start=first):
        key, text = key_of(one.document.id), one.document.text
        same = {"key": key, "document": number_of, "truncated": one.truncated}
        same |= _typed_fields(one.document.metadata)
        metadata = metadata_json(one.document) or "{}"
        whole = {"text": text, "metadata": metadata, "terms": " ".join(counts.elements())}
        for part, (start, stop) in enumerate(one.spans or ((None, None),)):
            own = {"unit": f"{key}#{part}", "part": part, "start": start, "stop": stop}
            rows.append(same | own | (whole if part == 0 else {}))
    schema = schema_of(facts)
    for name in dict.fromkeys(name for row in rows for name in row if name.startswith("meta_")):
        schema = schema.append(pa.field(name, TYPES[name.split("_")[1]]))
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).ravel())
    columns = {one.name: pa.array([row.get(one.name) for row in rows], one.type) for one in schema}
    columns["vector"] = pa.FixedSizeListArray.from_arrays(flat, facts.dimension)
    return pa.table(columns, schema=schema)


def _typed_fields(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a document's fields by the names of their columns."""
    found: dict[str, Any] = {}
    stack: list[tuple[str, Any]] = [(name, value) for name, value in metadata.items() if "." not in name]
    while stack:
        path, value = stack.pop()
        found[path] = value
        if isinstance(value, Mapping) and path.count(".") < 20:
            stack += [(f"{path}.{name}", one) for name, one in value.items() if "." not in name]
    found |= {name: value for name, value in metadata.items() if "." in name}
    typed: dict[str, Any] = {}
    for path, value in found.items():
        kind = next((kind for kind, one in KINDS.items() if one is type_of(value)), "o")
        if value is not None:
            typed[column_of(path, kind)] = True if kind == "o" else float(value) if kind == "n" else value
        if kind == "s" and (spelled := number(value)) is not None:  # compared with numbers too
            typed[column_of(path, "n")] = spelled
    return typed


def fit_columns(table: Any, rows: pa.Table) -> pa.Table:
    """Return rows with the columns of a table, which gets those of new fields first."""
    if new := [one for one in rows.schema if one.name not in table.schema.names]:
        table.add_columns(pa.schema(new))
    names = set(rows.schema.names)
    columns = [rows[one.name] if one.name in names else pa.nulls(len(rows), one.type) for one in table.schema]
    return pa.table(columns, schema=table.schema)


def column_of(field: str, kind: str) -> str:
    """Return the column of a field's values of a type: `n`umbers, `s`trings, `b`ooleans or `o`thers."""
    is_plain = re.fullmatch(r"[a-z][a-z0-9_]{0,40}", field)
    return f"meta_{kind}_{field if is_plain else '_' + blake2b(field.encode(), digest_size=8).hexdigest()}"


def key_of(identifier: Any) -> str:
    """Return an id as a text: 1 and "1" are different ids."""
    return f"{'i' if isinstance(identifier, int) else 's'}:{identifier}"


def id_of(key: str) -> str | int:
    """Return the id of a key."""
    return int(key[2:]) if key.startswith("i:") else key[2:]


def chunks_of(rows: pa.Table) -> Numbers:
    """Return the numbers of the chunks in rows."""
    found: Numbers = chunk_number(rows["document"].to_numpy(), rows["part"].to_numpy().astype(np.int64))
    return found


def condition_of(where: Where, columns: Collection[str]) -> str:
    """Return a filter as a condition on columns, or raise NotSqlError."""

    def exists(field: str) -> str:
        known = [column for kind in TYPES if (column := column_of(field, kind)) in columns]
        return joined_sql([f"{column} IS NOT NULL" for column in known], "OR")

    def compare(field: str, name: str, value: Any) -> str:
        if isinstance(value, list):
            return joined_sql([compare(field, "=", one) for one in value], "OR")
        if isinstance(value, datetime.datetime):
            raise NotSqlError
        kind = "b" if isinstance(value, bool) else "s" if isinstance(value, str) else "n"
        column = column_of(field, kind)
        if column not in columns:
            return "false"
        written = _quoted(value) if kind == "s" else str(value).lower() if kind == "b" else repr(float(value))
        return f"COALESCE({column} {name} {written}, false)"

    return where.as_sql(exists, compare)


def among(column: str, values: Iterable[Any]) -> str:
    """Return the condition that a column has one of some values."""
    listed = ",".join(str(value) if isinstance(value, int) else _quoted(value) for value in values)
    return f"{column} IN ({listed})" if listed else "false"


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def matrix(column: Any, dimension: int) -> Vectors:
    """Return a column of vectors as an array (n, dim)."""
    chunk = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    rows: Vectors = chunk.flatten().to_numpy(zero_copy_only=False).reshape(-1, dimension)
    return rows
