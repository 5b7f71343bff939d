"""Filters: which documents a search may find, by their metadata."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sentemb.errors import InputError
from sentemb.search.conditions import number, read_conditions, required, type_of, value_of

_NAMES: dict[type | None, str] = {
    str: "a string",
    float: "a number",
    bool: "a boolean",
    None: "not comparable",
}


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
        InputError: No such operator, or a value that is none of these types.

    Example:
        >>> Where({"year": {">=": 2020}}).matches('{"year": 2021}')
        True
    """

    def __init__(self, conditions: Mapping[str, Any]) -> None:
        self._tree = read_conditions(conditions)
        self._required = list(required(self._tree))
        self.key = str(self._tree)
        """The same for the same conditions."""
        self._met: dict[str, set[type | None]] = {test.field: set() for test in self._required}

    def matches(self, metadata: str | None) -> bool:
        """Whether a document with this metadata, as JSON, meets all conditions."""
        try:
            fields = json.loads(metadata) if metadata else {}
        except (ValueError, RecursionError):  # damaged, which reading the document reports
            return False
        for field, types in self._met.items():
            if (found := value_of(fields, field)) is not None:
                types.add(type_of(found))
                if isinstance(found, str) and number(found) is not None:
                    types.add(float)
        return self._tree.holds(fields)

    def explain_no_match(self) -> str | None:
        """Explain why no document can meet the conditions; return None if only their values do not."""
        for test in self._required:
            met, wanted = self._met[test.field], test.needs()
            if wanted and not met:
                return f"none of the documents has the field {test.field!r}"
            if wanted and not met & wanted:
                kinds, needed = (" or ".join(sorted(_NAMES[one] for one in some)) for some in (met, wanted))
                return f"{test.field} is {kinds} in every document, but the condition needs {needed}"
        return None


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
