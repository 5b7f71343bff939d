"""Filters: which documents a search may find, by their metadata."""

from __future__ import annotations

import datetime
import json
import math
import operator
import re
import reprlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sentemb.errors import InputError

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_LISTED = ("in", "not in")
_OPERATORS = (*_COMPARE, *_LISTED, "exists")
_JUNCTIONS = ("$and", "$or", "$not")
MOST_NESTED = 50
"""How deep conditions may be nested; whatever reads them calls itself for each level."""
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
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f\ud800-\udfff]')
_MOST_VALUES = 500  # of all lists of a filter, as parameters of SQLite


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A condition on one field."""

    field: str
    name: str
    value: Any

    def holds(self, fields: Mapping[str, Any]) -> bool:
        found = value_of(fields, self.field)
        if self.name == "exists":
            return (found is not None) is self.value
        if self.name in _LISTED:
            is_listed = any(_compare("=", found, one) for one in self.value)
            return is_listed if self.name == "in" else found is not None and not is_listed
        return _compare(self.name, found, self.value)

    def needs(self) -> set[type | None]:
        """Return the types of which a value must be to meet it; nothing where any will do."""
        if self.name in ("exists", "not in"):
            return set()
        values = self.value if self.name == "in" else [self.value]
        return {str if isinstance(one, datetime.datetime) else type_of(one) for one in values}


@dataclass(frozen=True, slots=True)
class _Junction:
    """Conditions that all hold, of which one holds, or which do not all hold."""

    name: str
    parts: tuple[_Comparison | _Junction, ...]

    def holds(self, fields: Mapping[str, Any]) -> bool:
        held = (part.holds(fields) for part in self.parts)
        return any(held) if self.name == "$or" else all(held) is (self.name == "$and")


class NotSqlError(Exception):
    """The conditions cannot be written as SQL, so that Python has to check each document."""


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
        self.parameters: list[Any] = []
        """The values of `sql`."""
        try:
            self.sql = self.as_sql(_exists, self._compared)
            """The conditions as an expression of SQLite on the column `metadata`; see `add_functions`."""
        except NotSqlError:
            self.sql, self.parameters = "meets(metadata)", []

    def matches(self, metadata: str | None) -> bool:
        """Return whether a document with this metadata, as JSON, meets all conditions."""
        try:
            fields = json.loads(metadata) if metadata else {}
        except (ValueError, RecursionError):  # damaged, which reading the document reports
            return False
        return self._tree.holds(fields)

    def add_functions(self, connection: sqlite3.Connection) -> None:
        """Define the functions of `sql` on a connection."""
        connection.create_function("meets", 1, self.matches, deterministic=True)
        connection.create_function("spelled_number", 1, _spelled_number, deterministic=True)
        connection.create_function("compare_moment", 3, _compare_moment, deterministic=True)

    def as_sql(self, exists: Callable[[str], str], compare: Callable[[str, str, Any], str]) -> str:
        """Write the conditions as an expression of SQL.

        Args:
            exists: Writes that a field exists.
            compare: Writes how a field compares with a value, by its name, the operator and the value.

        Raises:
            NotSqlError: One of the two cannot.
        """

        def write(one: _Comparison | _Junction) -> str:
            if isinstance(one, _Junction):
                joined = f"({(' OR ' if one.name == '$or' else ' AND ').join(map(write, one.parts))})"
                return f"(NOT {joined})" if one.name == "$not" else joined
            if one.name == "exists":
                return exists(one.field) if one.value else f"(NOT {exists(one.field)})"
            if one.name not in _LISTED:
                return compare(one.field, one.name, one.value)
            equal = " OR ".join(compare(one.field, "=", value) for value in one.value) or "false"
            return f"({equal})" if one.name == "in" else f"({exists(one.field)} AND NOT ({equal}))"

        return write(self._tree)

    def explain_no_match(self, types_of: Callable[[str], set[type | None] | None]) -> str | None:
        """Explain why no document can meet the conditions; return None if only their values do not.

        Args:
            types_of: Returns the types of a field's values, where None stands for all that cannot be
                compared; or None in place of the set where they are not known.
        """
        for test in _required(self._tree):
            needed = test.needs()
            met = types_of(test.field) if needed else None
            if met is None or met & needed:
                continue
            if not met:
                return f"none of the documents has the field {test.field!r}"
            kinds, wanted = (" or ".join(sorted(_NAMES[one] for one in some)) for some in (met, needed))
            return f"{test.field} is {kinds} in every document, but the condition needs {wanted}"
        return None

    def _compared(self, field: str, name: str, value: Any) -> str:
        kind, found = _field(field)
        if len(self.parameters) >= _MOST_VALUES:
            raise NotSqlError
        sign = "<>" if name == "!=" else name
        if isinstance(value, datetime.datetime):
            self.parameters.append(value.isoformat())
            test = f"{kind} = 'text' AND compare_moment({found}, '{name}', ?)"
        elif isinstance(value, bool):
            test = f"{kind} = '{str(value is (name == '=')).lower()}'"
        elif isinstance(value, str):
            self.parameters.append(value)
            test = f"{kind} = 'text' AND {found} {sign} ?"
        else:
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise NotSqlError
            self.parameters += [value, value]
            test = (
                f"CASE WHEN {kind} IN ('integer', 'real') THEN {found} {sign} ? "
                f"WHEN {kind} = 'text' THEN spelled_number({found}) {sign} ? END"
            )
        return f"COALESCE({test}, 0)"


def stored_types(connection: sqlite3.Connection, field: str) -> set[type | None] | None:
    """Return the types of a field's values in a database of documents; see `Where.explain_no_match`."""
    try:
        kind, value = _field(field)
    except NotSqlError:
        return None
    spelled = f"{kind} = 'text' AND spelled_number({value}) IS NOT NULL"
    met: set[type | None] = set()
    for found, is_number in connection.execute(f"SELECT DISTINCT {kind}, {spelled} FROM documents"):
        if found not in (None, "null"):
            met |= {_TYPES.get(found), *([float] if is_number else [])}
    return met


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
        if name in _JUNCTIONS:
            parts.append(_junction(name, value, depth + 1))
        elif not isinstance(name, str):
            raise InputError(f"where: the field {name!r} is not a string")
        elif name.startswith("$"):
            raise InputError(
                f"where: unknown operator {name!r}", f"write {', '.join(_JUNCTIONS)}, or the name of a field"
            )
        else:
            parts += _comparisons(name, value)
    return _Junction("$and", tuple(parts))


def _junction(name: str, value: Any, depth: int) -> _Junction:
    if name == "$not":
        return _Junction(name, (_read_conditions(value, depth),))
    if isinstance(value, (str, Mapping)) or not isinstance(value, Sequence) or not value:
        raise InputError(
            f"where, {name}: {reprlib.repr(value)} is not a list of conditions",
            "pass a list with at least one condition",
        )
    return _Junction(name, tuple(_read_conditions(one, depth) for one in value))


def _comparisons(field: str, value: Any) -> Iterator[_Comparison]:
    operations = value if isinstance(value, Mapping) else {"=": value}
    if not operations:
        raise InputError(f"where, {field}: the condition is empty", _HINT)
    for name, operand in operations.items():
        if name not in _OPERATORS:
            raise InputError(f"where, {field}: unknown operator {name!r}", _HINT)
        if name not in _LISTED:
            yield _Comparison(field, name, _operand(field, name, operand))
        elif isinstance(operand, (list, tuple, set, frozenset)):
            yield _Comparison(field, name, [_operand(field, name, one) for one in operand])
        else:
            raise InputError(
                f"where, {field}: {name} needs a list, not {reprlib.repr(operand)}", "pass a list of values"
            )


def _operand(field: str, name: str, value: Any) -> Any:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time())
    kind = type_of(value)
    is_ordered = name in ("<", "<=", ">", ">=")
    if kind is None or (kind is bool and is_ordered) or (name == "exists" and kind is not bool):
        raise InputError(f"where, {field}: {name} cannot compare with {reprlib.repr(value)}", _HINT)
    return value


def _required(condition: _Junction) -> Iterator[_Comparison]:
    """Yield the comparisons without which it cannot hold."""
    for part in condition.parts if condition.name == "$and" else ():
        if isinstance(part, _Comparison):
            yield part
        else:
            yield from _required(part)


def _compare(name: str, found: Any, value: Any) -> bool:
    """Return whether a value of a document compares so with the value of a condition."""
    if isinstance(value, datetime.datetime):
        found = moment(found)
        if found is None:
            return False
        if (found.tzinfo is None) is not (value.tzinfo is None):
            found, value = (one.replace(tzinfo=found.tzinfo or value.tzinfo) for one in (found, value))
    elif isinstance(found, str) and type_of(value) is float:
        found = number(found)
    return type_of(found) is not None and type_of(found) is type_of(value) and _COMPARE[name](found, value)


def _exists(field: str) -> str:
    return f"COALESCE({_field(field)[0]} <> 'null', 0)"


def _field(name: str) -> tuple[str, str]:
    """Return the type and the value of a field as expressions of SQLite."""
    if _ESCAPED.search(name):
        raise NotSqlError
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


def _spelled_number(value: Any) -> float | None:
    # SQLite may call it with what a condition before it excludes.
    return number(value) if isinstance(value, str) else None


def _compare_moment(found: Any, name: str, value: str) -> bool:
    return _compare(name, found, datetime.datetime.fromisoformat(value))
