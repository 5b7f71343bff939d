"""The rows of an index in LanceDB: its columns, the typed ones of the metadata, and filters on them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from sentemb.encoding.encoder import Vectors
from sentemb.search.chunks import ChunkedDocument
from sentemb.search.conditions import Comparison, Junction, number, type_of
from sentemb.search.keywords import terms_of
from sentemb.search.manifest import Manifest
from sentemb.search.store import chunk_number
from sentemb.search.vectors import Numbers
from sentemb.search.writer import metadata_json

FACTS = b"sentemb"
TYPES = {"n": pa.float64(), "s": pa.string(), "b": pa.bool_(), "o": pa.bool_()}
"""Columns of a field: its numbers, texts, booleans, and whether it has another value."""
OVERFLOW = "meta_more"
"""A column that says that not every field has one."""


def schema_of(facts: Manifest) -> pa.Schema:
    """Return the columns of every index, with everything else that is known of it."""
    return pa.schema(
        [
            pa.field("unit", pa.string(), nullable=False),  # the key of a row: the document's, and the part
            pa.field("key", pa.string(), nullable=False),
            pa.field("document", pa.int64(), nullable=False),
            pa.field("part", pa.int32(), nullable=False),
            pa.field("start", pa.int64()),
            pa.field("stop", pa.int64()),
            pa.field("cut", pa.bool_(), nullable=False),
            pa.field("text", pa.string()),
            pa.field("metadata", pa.string()),
            pa.field("terms", pa.string()),
            pa.field("vector", pa.list_(pa.float32(), facts.dimension)),
        ],
        metadata={FACTS: facts.dump().encode()},
    )


def table_of(facts: Manifest, documents: Sequence[ChunkedDocument], first: int, vectors: Vectors) -> pa.Table:
    """Return the rows of documents, counted from `first`, with a vector for each of their texts."""
    schema = schema_of(facts)
    names = [name for name in schema.names if name != "vector"]
    columns: dict[str, list[Any]] = {name: [] for name in names}
    values: list[dict[str, Any]] = []
    terms = terms_of([one.document.text for one in documents], facts.language)
    for number_of, (one, counts) in enumerate(zip(documents, terms, strict=True), start=first):
        key, fields = key_of(one.document.id), typed_fields(one.document.metadata)
        for part, (start, stop) in enumerate(one.spans or ((None, None),)):
            row = [f"{key}#{part}", key, number_of, part, start, stop, one.truncated]
            spelled = " ".join(term for term, count in counts.items() for _ in range(count))
            whole = [one.document.text, metadata_json(one.document) or "{}", spelled]
            for name, value in zip(names, row + (whole if part == 0 else [None] * 3), strict=True):
                columns[name].append(value)
            values.append(fields)
    arrays = [pa.array(columns[name], schema.field(name).type) for name in names]
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).ravel())
    table = pa.table([*arrays, pa.FixedSizeListArray.from_arrays(flat, facts.dimension)], schema=schema)
    for name in dict.fromkeys(name for fields in values for name in fields):
        kind = TYPES[name.split("_")[1]]
        table = table.append_column(name, pa.array([fields.get(name) for fields in values], kind))
    return table


def typed_fields(metadata: Mapping[str, Any]) -> dict[str, Any]:
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
        kind = type_of(value)
        if value is None:
            continue
        if kind is bool:
            typed[column_of(path, "b")] = value
        elif kind is float:
            typed[column_of(path, "n")] = float(value)
        elif kind is str:
            typed[column_of(path, "s")] = value
            if (spelled := number(value)) is not None:  # compared with numbers too
                typed[column_of(path, "n")] = spelled
        else:
            typed[column_of(path, "o")] = True
    return typed


def column_of(field: str, kind: str) -> str:
    """Return the column of a field's values of a type: `n`umbers, `s`trings, `b`ooleans or `o`thers."""
    plain = re.fullmatch(r"[a-z][a-z0-9_]{0,40}", field)
    return f"meta_{kind}_{field if plain else '_' + blake2b(field.encode(), digest_size=8).hexdigest()}"


def lance_filter(junction: Junction, columns: Container[str]) -> str:
    """Return conditions as an expression of LanceDB.

    Args:
        junction: The conditions.
        columns: The columns of the table.

    Raises:
        NotImplementedError: Only Python can check them.
    """
    parts = [
        _comparison(part, columns) if isinstance(part, Comparison) else lance_filter(part, columns)
        for part in junction.parts
    ]
    joined = f"({(' OR ' if junction.name == '$or' else ' AND ').join(parts)})"
    return f"(NOT {joined})" if junction.name == "$not" else joined


def _comparison(test: Comparison, columns: Container[str]) -> str:
    if OVERFLOW in columns:
        raise NotImplementedError
    known = [name for kind in TYPES if (name := column_of(test.field, kind)) in columns]
    exists = f"({' OR '.join(f'{name} IS NOT NULL' for name in known) or 'false'})"
    if test.name == "exists":
        return exists if test.value else f"(NOT {exists})"
    if test.name not in ("in", "not in"):
        return _compared(test.field, test.name, test.value, columns)
    equal = " OR ".join(_compared(test.field, "=", one, columns) for one in test.value) or "false"
    return f"({equal})" if test.name == "in" else f"({exists} AND NOT ({equal}))"


def _compared(field: str, name: str, wanted: Any, columns: Container[str]) -> str:
    if isinstance(wanted, datetime.datetime):
        raise NotImplementedError
    kind = "b" if isinstance(wanted, bool) else "s" if isinstance(wanted, str) else "n"
    column = column_of(field, kind)
    if column not in columns:
        return "false"
    value = quoted(wanted) if kind == "s" else str(wanted).lower() if kind == "b" else repr(float(wanted))
    return f"COALESCE({column} {name} {value}, false)"


def key_of(identifier: Any) -> str:
    """Return an id as a text: 1 and "1" are different ids."""
    return f"{'i' if isinstance(identifier, int) else 's'}:{identifier}"


def id_of(key: str) -> str | int:
    """Return the id that a key stands for."""
    return int(key[2:]) if key.startswith("i:") else key[2:]


def among(column: str, values: Iterable[Any]) -> str:
    """Return the condition that a column has one of some values."""
    listed = ",".join(str(value) if isinstance(value, int) else quoted(value) for value in values)
    return f"{column} IN ({listed})" if listed else "false"


def quoted(value: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def chunk_numbers(rows: pa.Table) -> Numbers:
    """Return the numbers of the chunks of rows."""
    pairs = zip(rows["document"].to_pylist(), rows["part"].to_pylist(), strict=True)
    return np.array([chunk_number(*pair) for pair in pairs], dtype=np.int64)


def matrix_of(column: Any, dimension: int) -> Vectors:
    """Return a column of vectors as an array (n, dim)."""
    chunk = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    rows: Vectors = chunk.flatten().to_numpy(zero_copy_only=False).reshape(-1, dimension)
    return rows
