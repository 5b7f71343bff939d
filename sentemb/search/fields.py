"""Fields of document metadata with their types and values, from which users build filters."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any, Literal

from sentemb.search.where import moment, number

FieldType = Literal["text", "number", "date", "boolean"]

VALUES = FIELDS = 50
"""Values of a field and fields that are listed, those of most documents."""
_LONGEST = 200  # characters of a value

# Every value of every field at the top of the metadata, with its documents.
_COUNTED = f"""
CREATE TEMP TABLE counted AS SELECT
    key AS field,
    CASE WHEN type IN ('true', 'false') THEN 'boolean' WHEN type = 'text' THEN 'text' ELSE 'number' END
        AS kind,
    CASE WHEN type = 'text' AND length(value) > {_LONGEST} THEN NULL ELSE value END AS value,
    COUNT(*) AS documents
FROM documents, json_each(documents.metadata)
WHERE type IN ('text', 'integer', 'real', 'true', 'false') AND key NOT LIKE '$%'
GROUP BY 1, 2, 3
"""
_FIELDS = f"""
SELECT field, kind, SUM(documents) AS documents, COUNT(*), MIN(value IS NOT NULL), MIN(value), MAX(value),
    MIN(CAST(value AS REAL)), MAX(CAST(value AS REAL))
FROM counted GROUP BY field, kind ORDER BY documents DESC, field LIMIT {2 * FIELDS}
"""
_VALUES = f"""
SELECT value, documents FROM counted WHERE field = ? AND kind = ? AND value IS NOT NULL
ORDER BY documents DESC, value LIMIT {VALUES}
"""


@dataclass(frozen=True, slots=True)
class Field:
    """A field at the top of the metadata.

    Args:
        name: Its name.
        type: What most of its values are: `number` also for texts that spell numbers, `date` for texts in ISO
            8601.
        documents: How many documents have a value of this type.
        values: The values of most documents, 50 at most, each with the number of its documents.
        complete: Whether these are all values.
        least: The smallest value; None of booleans and long texts.
        most: The largest value.

    Example:
        >>> [field.name for field in SearchIndex.load("index").fields()]
        ['lang', 'year']
    """

    name: str
    type: FieldType
    documents: int
    values: tuple[tuple[Any, int], ...]
    complete: bool
    least: Any = None
    most: Any = None


def read_fields(connection: sqlite3.Connection) -> tuple[Field, ...]:
    """Return the fields of the documents of a database, those of most documents first.

    Args:
        connection: The database, in a transaction that may write temporary tables.
    """
    found: dict[str, Field] = {}
    before = connection.text_factory
    connection.text_factory = lambda text: text.decode("utf-8", "replace")  # metadata may hold surrogates
    connection.execute(_COUNTED)
    try:
        for row in connection.execute(_FIELDS).fetchall():
            if row[0] not in found and len(found) < FIELDS:
                found[row[0]] = _field(row, connection.execute(_VALUES, row[:2]).fetchall())
    finally:
        connection.execute("DROP TABLE temp.counted")
        connection.text_factory = before
    return tuple(found.values())


def _field(row: tuple[Any, ...], values: list[tuple[Any, int]]) -> Field:
    name, kind, documents, different, is_short, least, most, *spelled = row
    complete = bool(is_short) and different <= VALUES
    if kind == "boolean":
        return Field(name, kind, documents, tuple((bool(value), count) for value, count in values), complete)
    if kind == "text" and is_short and all(number(value) is not None for value, _ in values):
        least, most = (int(one) if one.is_integer() else one for one in spelled)
        kind = "number"
    elif kind == "text" and is_short and all(moment(value) is not None for value, _ in values):
        kind = "date"
    return Field(name, kind, documents, tuple(values), complete, least, most)
