"""Filters: which documents a search may find, by their metadata."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
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
_NAMES: dict[type | None, str] = {
    str: "a text",
    float: "a number",
    bool: "a truth value",
    None: "nothing to compare",
}
_OPERATORS = (*_COMPARE, "in")
_HINT = f"a condition is a value or one of {', '.join(_OPERATORS)} with a value"


class Where:
    """Conditions that all hold; a document without the field, or with a value of another type, has none.

    Numbers, texts and truth values are types. Texts are compared by their characters, so that dates such as
    2024-01-31 are in order.

    Args:
        conditions: By field: a value, or operators (`=`, `!=`, `<`, `<=`, `>`, `>=`, `in`) with a value each;
            `in` takes a list.

    Raises:
        InputError: No such operator, or a value that is none of these types.
    """

    def __init__(self, conditions: Mapping[str, Any]) -> None:
        if not isinstance(conditions, Mapping) or not conditions:
            raise InputError(f"where is {conditions!r}", 'pass conditions such as {"year": {">=": 2020}}')
        self._tests = [
            (field, name, value)
            for field, wanted in conditions.items()
            for name, value in _operations(field, wanted)
        ]
        self.key = json.dumps(self._tests)
        """The same for the same conditions."""
        self._met: dict[str, set[type | None]] = {field: set() for field, _, _ in self._tests}

    def matches(self, metadata: str | None) -> bool:
        """Whether a document with this metadata, as JSON, meets all conditions."""
        if metadata is None:
            return False
        fields = json.loads(metadata)
        for field, types in self._met.items():
            if field in fields:
                types.add(_type(fields[field]))
        return all(
            field in fields and _holds(name, fields[field], value) for field, name, value in self._tests
        )

    def cannot_hold(self) -> str | None:
        """Why none of the documents that were asked can meet the conditions, where it is not their values."""
        for field, name, value in self._tests:
            met, wanted = self._met[field], {_type(one) for one in (value if name == "in" else [value])}
            if not met:
                return f"no document has the field {field!r}"
            if wanted and not met & wanted:
                kinds, needed = (" or ".join(sorted(_NAMES[one] for one in some)) for some in (met, wanted))
                return f"{field} is {kinds} in every document, and the condition asks for {needed}"
        return None


def read_where(conditions: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read conditions such as `year>=2020` and `lang=en`; a text that looks like a number needs quotes."""
    where: dict[str, dict[str, Any]] = {}
    for condition in conditions:
        match = re.fullmatch(r"([^<>=!]+)(>=|<=|!=|=|<|>)(.+)", condition, flags=re.DOTALL)
        if match is None:
            raise InputError(f"--where {condition} is no condition", "write it like year>=2020 or lang=en")
        field, name, text = match.groups()
        if name in where.setdefault(field, {}):
            raise InputError(f"--where {condition}: {field}{name} was given twice", "give it once")
        where[field][name] = _value(text)
    return where


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    finite = isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value))
    return value if finite else text


def _operations(field: str, wanted: Any) -> list[tuple[str, Any]]:
    if not isinstance(field, str):
        raise InputError(f"where: the field {field!r} is no text")
    operations = wanted if isinstance(wanted, Mapping) else {"=": wanted}
    for name, value in operations.items():
        if name not in _OPERATORS:
            raise InputError(f"where, {field}: there is no operator {name!r}", _HINT)
        listed = name == "in" and isinstance(value, (list, tuple, set, frozenset))
        if name == "in" and not listed:
            raise InputError(f"where, {field}: in {value!r} is no list", "pass a list of values")
        kinds = {_type(one) for one in (value if listed else [value])}
        if None in kinds or (bool in kinds and name not in ("=", "!=", "in")):
            raise InputError(f"where, {field}: {name} {value!r} compares nothing", _HINT)
    return [(name, list(value) if name == "in" else value) for name, value in operations.items()]


def _type(value: Any) -> type | None:
    if isinstance(value, (bool, str)):
        return type(value)
    return float if isinstance(value, (int, float)) and math.isfinite(value) else None


def _holds(name: str, found: Any, wanted: Any) -> bool:
    if name == "in":
        return any(_holds("=", found, one) for one in wanted)
    return _type(found) is _type(wanted) and _COMPARE[name](found, wanted)
