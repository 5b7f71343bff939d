"""Filters: which documents a search may find, by their metadata."""

from __future__ import annotations

import datetime
import json
import math
import re
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from sentemb.errors import InputError
from sentemb.search.conditions import (
    Comparison,
    Junction,
    compare,
    number,
    read_conditions,
    required,
)

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
_SQL = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


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
        self.tree = read_conditions(conditions)
        self.key = str(self.tree)
        """The same for the same conditions."""
        self.parameters: list[Any] = []
        """The values of `sql`."""
        try:
            self.sql = self._junction(self.tree)
            """The conditions as an expression of SQLite on the column `metadata`; see `add_functions`."""
        except _NotSqlError:
            self.sql, self.parameters = "meets(metadata)", []

    def matches(self, metadata: str | None) -> bool:
        """Return whether a document with this metadata, as JSON, meets all conditions."""
        try:
            fields = json.loads(metadata) if metadata else {}
        except (ValueError, RecursionError):  # damaged, which reading the document reports
            return False
        return self.tree.holds(fields)

    def add_functions(self, connection: sqlite3.Connection) -> None:
        """Define the functions of `sql` on a connection."""
        connection.create_function("meets", 1, self.matches, deterministic=True)
        connection.create_function("spelled_number", 1, _spelled_number, deterministic=True)
        connection.create_function("compare_moment", 3, _compare_moment, deterministic=True)

    def explain_no_match(self, connection: sqlite3.Connection) -> str | None:
        """Explain why no document can meet the conditions; return None if only their values do not.

        Args:
            connection: A database with a table `documents` that has a column `metadata`.
        """
        for test in required(self.tree):
            if not (needed := test.needs()):
                continue
            try:
                kind, value = _field(test.field)
            except _NotSqlError:
                continue
            spelled = f"{kind} = 'text' AND spelled_number({value}) IS NOT NULL"
            query = f"SELECT DISTINCT {kind}, {spelled} FROM documents"
            met: set[type | None] = set()
            for found, is_number in connection.execute(query):
                if found not in (None, "null"):
                    met.add(_TYPES.get(found))
                    met |= {float} if is_number else set()
            reason = explain(test, met, needed)
            if reason is not None:
                return reason
        return None

    def _junction(self, junction: Junction) -> str:
        parts = [
            self._comparison(part) if isinstance(part, Comparison) else self._junction(part)
            for part in junction.parts
        ]
        joined = f"({(' OR ' if junction.name == '$or' else ' AND ').join(parts)})"
        return f"(NOT {joined})" if junction.name == "$not" else joined

    def _comparison(self, test: Comparison) -> str:
        kind, value = _field(test.field)
        exists = f"COALESCE({kind} <> 'null', 0)"
        if test.name == "exists":
            return exists if test.value else f"(NOT {exists})"
        if test.name not in ("in", "not in"):
            return self._compared(kind, value, test.name, test.value)
        # The values of the parameters come in the order of the expression.
        equal = " OR ".join(self._compared(kind, value, "=", one) for one in test.value) or "0"
        return f"({equal})" if test.name == "in" else f"({exists} AND NOT ({equal}))"

    def _compared(self, kind: str, value: str, name: str, wanted: Any) -> str:
        if len(self.parameters) >= _MOST_VALUES:
            raise _NotSqlError
        if isinstance(wanted, datetime.datetime):
            self.parameters.append(wanted.isoformat())
            test = f"{kind} = 'text' AND compare_moment({value}, '{name}', ?)"
        elif isinstance(wanted, bool):
            test = f"{kind} = '{str(wanted is (name == '=')).lower()}'"
        elif isinstance(wanted, str):
            self.parameters.append(wanted)
            test = f"{kind} = 'text' AND {value} {_SQL[name]} ?"
        else:
            if isinstance(wanted, int) and not -(2**63) <= wanted < 2**63:
                raise _NotSqlError
            self.parameters += [wanted, wanted]
            test = (
                f"CASE WHEN {kind} IN ('integer', 'real') THEN {value} {_SQL[name]} ? "
                f"WHEN {kind} = 'text' THEN spelled_number({value}) {_SQL[name]} ? END"
            )
        return f"COALESCE({test}, 0)"


class _NotSqlError(Exception):
    """The conditions cannot be written for SQLite, so that Python has to check each document."""


def _field(name: str) -> tuple[str, str]:
    """Return the type and the value of a field as expressions of SQLite."""
    if _ESCAPED.search(name):
        raise _NotSqlError
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


def _compare_moment(found: Any, name: str, wanted: str) -> bool:
    return compare(name, found, datetime.datetime.fromisoformat(wanted))


def explain(test: Comparison, met: set[type | None], needed: set[type | None]) -> str | None:
    """Explain why a comparison cannot hold, by the types that its field has; return None if it can."""
    if not met:
        return f"none of the documents has the field {test.field!r}"
    if met & needed:
        return None
    kinds, wanted = (" or ".join(sorted(_NAMES[one] for one in some)) for some in (met, needed))
    return f"{test.field} is {kinds} in every document, but the condition needs {wanted}"


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
        where[field][name] = _value(text)
    return where


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    finite = isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value))
    return value if finite else text
