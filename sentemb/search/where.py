"""Metadata of documents: filters of what a search may find, and the fields to make filters from."""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import operator
import re
import reprlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, NamedTuple

from sentemb.errors import InputError

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_OPERATORS = (*_COMPARE, "in", "not in", "exists")
_JUNCTIONS = ("$and", "$or", "$not")
MOST_NESTED = 20
"""How deep conditions may be nested; parsers of SQL have a stack of 100."""
_HINT = f"a condition is a value or one of {', '.join(_OPERATORS)} with a value"
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_NAMES: dict[type | None, str] = {
    str: "a string",
    float: "a number",
    bool: "a boolean",
    None: "not comparable",
}
# What SQLite calls the types of JSON.
_TYPES: dict[str, type | None] = {"text": str, "integer": float, "real": float, "true": bool, "false": bool}
# Characters that JSON writes in another way, which SQLite does not find in the name of a field.
_MOST_VALUES = 30_000  # parameters that SQLite takes
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f\ud800-\udfff]')


FieldType = Literal["text", "number", "date", "boolean"]

VALUES = FIELDS = 50
"""Values of a field and fields that are listed, those of most documents."""
_LONGEST = 200  # characters of a value

# The fields at the top of the metadata, each with its values, those of most documents first.
_FIELDS = f"""
WITH counted AS MATERIALIZED (
    SELECT key AS field,
        CASE WHEN type IN ('true', 'false') THEN 'boolean' WHEN type = 'text' THEN 'text' ELSE 'number' END
            AS kind,
        CASE WHEN type = 'text' AND length(value) > {_LONGEST} THEN NULL ELSE value END AS value,
        COUNT(*) AS documents
    FROM documents, json_each(documents.metadata)
    WHERE type IN ('text', 'integer', 'real', 'true', 'false') AND key NOT LIKE '$%'
    GROUP BY 1, 2, 3
), fields AS (
    SELECT field, kind, SUM(documents) AS total, COUNT(*), MIN(value IS NOT NULL), MIN(value), MAX(value),
        MIN(CAST(value AS REAL)), MAX(CAST(value AS REAL))
    FROM counted GROUP BY field, kind ORDER BY total DESC, field LIMIT {2 * FIELDS}
), ranked AS (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY field, kind ORDER BY documents DESC, value) AS place
    FROM counted WHERE value IS NOT NULL
)
SELECT fields.*, ranked.value, ranked.documents FROM fields LEFT JOIN ranked
ON ranked.field = fields.field AND ranked.kind = fields.kind AND place <= {VALUES}
ORDER BY total DESC, fields.field, fields.kind, place
"""


class _Comparison(NamedTuple):
    field: str
    name: str
    value: Any


class _Junction(NamedTuple):
    """Conditions that all hold, of which one holds, or which do not all hold."""

    name: str
    parts: tuple[_Comparison | _Junction, ...]


class NotSqlError(Exception):
    """A store cannot compare so; `Where.matching` can."""


class Where:
    """Conditions that all hold.

    A comparison holds for no document without the field, or with a null or a value of another type; `$not`
    of it holds for them. Numbers, texts and truth values are types. Texts are compared by their characters;
    a number also with the number that a text spells, since tables such as CSV hold nothing but texts; a date
    or datetime of Python with the moment that a text in ISO 8601 names, where one without a time zone is
    taken to be in that of the other.

    Args:
        conditions: By field, or by its path (`author.name`): a value, or operators (`=`, `!=`, `<`, `<=`,
            `>`, `>=`, `in`, `not in`, `exists`) with a value each; `in` and `not in` take a list, `exists` a
            truth value. Besides, `$and` and `$or` with a list of conditions, and `$not` with conditions.

    Raises:
        InputError: An operator does not exist, or a value has none of these types.

    Example:
        >>> Where({"year": {">=": 2020}}).matches('{"year": 2021}')
        True
    """

    def __init__(self, conditions: Mapping[str, Any]) -> None:
        self._tree = _read_conditions(conditions)
        self.key = str(self._tree)
        """The same for the same conditions."""
        self._parameters: list[Any] = []
        self._sql = self.as_sql(_exists, self._compared)

    def matches(self, metadata: str | None) -> bool:
        """Return whether a document with this metadata, as JSON, meets all conditions."""
        # SQLite finds fields by their names as they are written.
        plain = None if metadata is None else json.dumps(json.loads(metadata), ensure_ascii=False)
        return bool(self.matching([(0, plain)]))

    def matching(self, rows: Iterable[tuple[int, str | None]]) -> list[int]:
        """Return the numbers of the documents, given with their metadata, that meet all conditions."""
        with contextlib.closing(sqlite3.connect("")) as connection:
            connection.execute("CREATE TABLE documents (number, metadata)")
            connection.executemany("INSERT INTO documents VALUES (?, ?)", rows)
            # What is damaged is reported when the document is read.
            connection.execute("DELETE FROM documents WHERE metadata NOT NULL AND NOT json_valid(metadata)")
            return self.numbers(connection)

    def numbers(self, connection: sqlite3.Connection) -> list[int]:
        """Return the numbers of the documents of a database that meet all conditions, in their order."""
        add_functions(connection)
        query = f"SELECT number FROM documents WHERE {self._sql} ORDER BY number"
        return [number for (number,) in connection.execute(query, self._parameters)]

    def as_sql(self, exists: Callable[[str], str], compare: Callable[[str, str, Any], str]) -> str:
        """Write the conditions as SQL. `exists` writes that a field exists, `compare` how it compares.

        The operators of `compare` are those of SQL; `in` has a list. Both may raise NotSqlError.
        """

        def write(one: _Comparison | _Junction) -> str:
            if isinstance(one, _Junction):
                joined = joined_sql([write(part) for part in one.parts], "OR" if one.name == "$or" else "AND")
                return f"NOT {joined}" if one.name == "$not" else joined
            if one.name == "exists":
                return exists(one.field) if one.value else f"NOT {exists(one.field)}"
            if one.name == "not in":
                return f"({exists(one.field)} AND NOT {compare(one.field, 'in', one.value)})"
            return compare(one.field, one.name, one.value)

        return write(self._tree)

    def explain_no_match(self, types_of: Callable[[str], set[type | None]]) -> str | None:
        """Explain why no document can meet the conditions; return None if only their values do not.

        `types_of` returns the types of a field's values; None stands for all that cannot be compared.
        """
        for field, name, value in _required(self._tree):
            if name in ("exists", "not in"):
                continue
            values = value if name == "in" else [value]
            needed = {str if isinstance(one, datetime.datetime) else type_of(one) for one in values}
            met = types_of(field) if needed else set()
            if not needed or met & needed:
                continue
            if not met:
                return f"none of the documents has the field {field!r}"
            kinds, wanted = (" or ".join(sorted(_NAMES[one] for one in some)) for some in (met, needed))
            return f"{field} is {kinds} in every document, but the condition needs {wanted}"
        return None

    def _compared(self, field: str, name: str, value: Any) -> str:
        kind, found = _field(field)
        if isinstance(value, list):
            texts = [one for one in value if type_of(one) is str]
            numbers = [one for one in value if type_of(one) is float]
            others = [self._compared(field, "=", one) for one in value if type_of(one) not in (str, float)]
            some, listed = (
                f"IN (SELECT value FROM json_each({self._parameter(json.dumps(one))}))"
                for one in (texts, numbers)
            )
            test = (
                f"CASE WHEN {kind} IN ('integer', 'real') THEN {found} {listed} "
                f"WHEN {kind} = 'text' THEN {found} {some} OR spelled_number({found}) {listed} END"
            )
            return joined_sql([f"COALESCE({test}, 0)", *others], "OR")
        if isinstance(value, datetime.datetime):
            moment = self._parameter(value.isoformat())
            test = f"{kind} = 'text' AND compare_moment({found}, '{name}', {moment})"
        elif isinstance(value, bool):
            test = f"{kind} = '{str(value is (name == '=')).lower()}'"
        elif isinstance(value, str):
            test = f"{kind} = 'text' AND {found} {name} {self._parameter(value)}"
        else:
            if not -(2**63) <= value < 2**63:
                value = float(max(-(2**1000), min(value, 2**1000)))
            number = self._parameter(value)
            test = (
                f"CASE WHEN {kind} IN ('integer', 'real') THEN {found} {name} {number} "
                f"WHEN {kind} = 'text' THEN spelled_number({found}) {name} {number} END"
            )
        return f"COALESCE({test}, 0)"

    def _parameter(self, value: Any) -> str:
        self._parameters.append(value)
        if len(self._parameters) > _MOST_VALUES:
            raise InputError(f"where has more than {_MOST_VALUES:,} values", "write a list of values with in")
        return f"?{len(self._parameters)}"


def joined_sql(conditions: Sequence[str], word: str) -> str:
    """Join conditions by AND or OR, as a tree: databases do not nest expressions a thousand deep."""
    if len(conditions) < 2:
        return conditions[0] if conditions else "false"
    half = len(conditions) // 2
    return f"({joined_sql(conditions[:half], word)} {word} {joined_sql(conditions[half:], word)})"


def stored_types(connection: sqlite3.Connection, field: str) -> set[type | None]:
    """Return the types of a field's values in a database; see `Where.explain_no_match`."""
    add_functions(connection)
    kind, value = _field(field)
    spelled = f"{kind} = 'text' AND spelled_number({value}) IS NOT NULL"
    met: set[type | None] = set()
    for found, is_number in connection.execute(f"SELECT DISTINCT {kind}, {spelled} FROM documents"):
        if found not in (None, "null"):
            met |= {_TYPES.get(found), *([float] if is_number else [])}
    return met


def add_functions(connection: sqlite3.Connection) -> None:
    """Define the functions that conditions on a database use."""
    # SQLite may call it with what a condition before it excludes.
    spelled = lambda value: number(value) if isinstance(value, str) else None  # noqa: E731
    connection.create_function("spelled_number", 1, spelled, deterministic=True)
    connection.create_function("compare_moment", 3, _compare_moment, deterministic=True)


def _compare_moment(found: Any, name: str, value: str) -> bool:
    when, limit = moment(found), datetime.datetime.fromisoformat(value)
    if when is None:
        return False
    if when.tzinfo is None:
        when = when.replace(tzinfo=limit.tzinfo)
    elif limit.tzinfo is None:
        limit = limit.replace(tzinfo=when.tzinfo)
    return _COMPARE[name](when, limit)


def _exists(field: str) -> str:
    return f"COALESCE({_field(field)[0]} <> 'null', 0)"


def _field(name: str) -> tuple[str, str]:
    """Return the type and the value of a field as expressions of SQLite."""
    whole = _path([name])
    if "." not in name:
        return f"json_type(metadata, {whole})", f"json_extract(metadata, {whole})"
    parts = _path(name.split("."))
    there = f"json_type(metadata, {whole}) IS NOT NULL"
    kind, value = (
        f"(CASE WHEN {there} THEN {function}(metadata, {whole}) ELSE {function}(metadata, {parts}) END)"
        for function in ("json_type", "json_extract")
    )
    return kind, value


def _path(names: Sequence[str]) -> str:
    path = "$" + "".join(f'."{name}"' for name in names)
    return "'" + path.replace("'", "''") + "'"


def value_of(fields: Mapping[str, Any], name: str) -> Any:
    """Return the value of a field, which may be named by its path (`author.name`); None without one."""
    if name in fields or "." not in name:
        return fields.get(name)
    found: Any = fields
    for part in name.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found


def type_of(value: Any) -> type | None:
    """Return what a value may be compared with; None for what cannot be compared."""
    if isinstance(value, (bool, str, datetime.datetime)):
        return bool if isinstance(value, bool) else str if isinstance(value, str) else datetime.datetime
    # A whole number may be too large for `isfinite`.
    return float if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)) else None


def moment(text: Any) -> datetime.datetime | None:
    """Return the moment that a text in ISO 8601 names, from its year to at least its day, or None."""
    if not isinstance(text, str) or len(text) < 10 or text[4] != "-" or text[7] != "-":
        return None
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return None


def number(text: str) -> float | None:
    """Return the number that a text spells with digits and a point, or None."""
    return float(text) if _NUMBER.fullmatch(text) else None


def read_where(conditions: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read conditions such as `year>=2020` and `lang=en`; a text that looks like a number needs quotes."""
    where: dict[str, dict[str, Any]] = {}
    for condition in conditions:
        match = re.fullmatch(r"([^<>=!]+)(>=|<=|!=|=|<|>)(.+)", condition, flags=re.DOTALL)
        if match is None:
            raise InputError(f"--where {condition} is not a condition", "write it like year>=2020 or lang=en")
        field, name, text = match.groups()
        if name in where.setdefault(field, {}):
            raise InputError(f"--where {condition}: {field}{name} occurs twice", "remove one of them")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        where[field][name] = value if type_of(value) else text
    return where


def _read_conditions(conditions: Any, depth: int = 0) -> _Junction:
    if depth > MOST_NESTED:
        raise InputError(f"where: conditions are nested more than {MOST_NESTED} levels deep", "flatten them")
    if not isinstance(conditions, Mapping) or not conditions:
        raise InputError(
            f"where must be a dict of conditions, not {reprlib.repr(conditions)}",
            'pass conditions such as {"year": {">=": 2020}}',
        )
    parts: list[_Comparison | _Junction] = []
    for name, value in conditions.items():
        if name == "$not":
            parts.append(_Junction(name, (_read_conditions(value, depth + 1),)))
        elif name in _JUNCTIONS:
            if isinstance(value, (str, Mapping)) or not isinstance(value, Sequence) or not value:
                raise InputError(
                    f"where, {name}: {reprlib.repr(value)} is not a list of conditions",
                    "pass a list with at least one condition",
                )
            parts.append(_Junction(name, tuple(_read_conditions(one, depth + 1) for one in value)))
        elif not isinstance(name, str):
            raise InputError(f"where: the field {name!r} is not a string")
        elif _ESCAPED.search(name):
            raise InputError(
                f"where: the field {name!r} contains a quote, a backslash or a control character",
                "filter by another field",
            )
        elif name.startswith("$"):
            raise InputError(
                f"where: unknown operator {name!r}", f"write {', '.join(_JUNCTIONS)}, or the name of a field"
            )
        else:
            parts += _comparisons(name, value)
    return _Junction("$and", tuple(parts))


def _comparisons(field: str, value: Any) -> Iterator[_Comparison]:
    operations = value if isinstance(value, Mapping) else {"=": value}
    if not operations:
        raise InputError(f"where, {field}: the condition is empty", _HINT)
    for name, operand in operations.items():
        if name not in _OPERATORS:
            raise InputError(f"where, {field}: unknown operator {name!r}", _HINT)
        is_list = name in ("in", "not in")
        if is_list and not isinstance(operand, (list, tuple, set, frozenset)):
            raise InputError(
                f"where, {field}: {name} needs a list, not {reprlib.repr(operand)}", "pass a list of values"
            )
        values = []
        for one in operand if is_list else [operand]:
            if isinstance(one, datetime.date) and not isinstance(one, datetime.datetime):
                one = datetime.datetime.combine(one, datetime.time())
            kind = type_of(one)
            is_ordered = name in ("<", "<=", ">", ">=")
            if kind is None or (kind is bool and is_ordered) or (name == "exists" and kind is not bool):
                raise InputError(f"where, {field}: {name} cannot compare with {reprlib.repr(one)}", _HINT)
            values.append(one)
        yield _Comparison(field, name, values if is_list else values[0])


def _required(condition: _Junction) -> Iterator[_Comparison]:
    """Yield the comparisons without which it cannot hold."""
    for part in condition.parts if condition.name == "$and" else ():
        if isinstance(part, _Comparison):
            yield part
        else:
            yield from _required(part)


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
    """Return the fields of the documents of a database, those of most documents first."""
    before = connection.text_factory
    connection.text_factory = lambda text: text.decode("utf-8", "replace")  # metadata may hold surrogates
    try:
        rows = connection.execute(_FIELDS).fetchall()
    finally:
        connection.text_factory = before
    found: dict[str, Field] = {}
    for facts, group in groupby(rows, key=lambda row: row[:9]):
        if facts[0] not in found and len(found) < FIELDS:
            found[facts[0]] = _summary(facts, [row[9:] for row in group if row[10] is not None])
    return tuple(found.values())


def _summary(row: tuple[Any, ...], values: list[tuple[Any, int]]) -> Field:
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
