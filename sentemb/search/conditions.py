"""Conditions on metadata as a tree: comparisons of one field each, and what joins them."""

from __future__ import annotations

import datetime
import math
import operator
import re
import reprlib
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
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_HINT = f"a condition is a value or one of {', '.join(_OPERATORS)} with a value"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition on one field."""

    field: str
    name: str
    value: Any

    def holds(self, fields: Mapping[str, Any]) -> bool:
        """Whether a document's metadata meet it."""
        found = value_of(fields, self.field)
        if self.name == "exists":
            return (found is not None) is self.value
        if self.name == "not in":
            return found is not None and not any(compare("=", found, one) for one in self.value)
        if self.name == "in":
            return any(compare("=", found, one) for one in self.value)
        return compare(self.name, found, self.value)

    def needs(self) -> set[type | None]:
        """Types of which a value must be to meet it; nothing where any will do."""
        if self.name in ("exists", "not in"):
            return set()
        values = self.value if self.name == "in" else [self.value]
        return {str if isinstance(one, datetime.datetime) else type_of(one) for one in values}


@dataclass(frozen=True, slots=True)
class Junction:
    """Conditions that all hold, of which one holds, or which do not all hold."""

    name: str
    parts: tuple[Condition, ...]

    def holds(self, fields: Mapping[str, Any]) -> bool:
        """Whether a document's metadata meet it."""
        held = (part.holds(fields) for part in self.parts)
        if self.name == "$or":
            return any(held)
        return all(held) is (self.name == "$and")


Condition = Comparison | Junction


def read_conditions(conditions: Any, depth: int = 0) -> Junction:
    """Read conditions that all hold, which are nested to a depth."""
    if depth > MOST_NESTED:
        raise InputError(f"where: conditions are nested more than {MOST_NESTED} levels deep", "flatten them")
    if not isinstance(conditions, Mapping) or not conditions:
        raise InputError(
            f"where must be a dict of conditions, not {reprlib.repr(conditions)}",
            'pass conditions such as {"year": {">=": 2020}}',
        )
    parts: list[Condition] = []
    for name, wanted in conditions.items():
        if name in _JUNCTIONS:
            parts.append(_junction(name, wanted, depth + 1))
        elif not isinstance(name, str):
            raise InputError(f"where: the field {name!r} is not a string")
        elif name.startswith("$"):
            raise InputError(
                f"where: unknown operator {name!r}",
                f"write {', '.join(_JUNCTIONS)}, or the name of a field",
            )
        else:
            parts += _comparisons(name, wanted)
    return Junction("$and", tuple(parts))


def required(condition: Junction) -> Iterator[Comparison]:
    """The comparisons without which it cannot hold."""
    for part in condition.parts if condition.name == "$and" else ():
        if isinstance(part, Comparison):
            yield part
        else:
            yield from required(part)


def value_of(fields: Mapping[str, Any], name: str) -> Any:
    """The value of a field, which may be named by its path (`author.name`); None without one."""
    if name in fields or "." not in name:
        return fields.get(name)
    found: Any = fields
    for part in name.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found


def type_of(value: Any) -> type | None:
    """What a value may be compared with; None for what cannot be compared."""
    if isinstance(value, (bool, str, datetime.datetime)):
        return bool if isinstance(value, bool) else str if isinstance(value, str) else datetime.datetime
    # A whole number may be too large for `isfinite`.
    return float if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)) else None


def _junction(name: str, wanted: Any, depth: int) -> Junction:
    if name == "$not":
        return Junction(name, (read_conditions(wanted, depth),))
    if isinstance(wanted, (str, Mapping)) or not isinstance(wanted, Sequence) or not wanted:
        raise InputError(
            f"where, {name}: {reprlib.repr(wanted)} is not a list of conditions",
            "pass a list with at least one condition",
        )
    return Junction(name, tuple(read_conditions(one, depth) for one in wanted))


def _comparisons(field: str, wanted: Any) -> Iterator[Comparison]:
    operations = wanted if isinstance(wanted, Mapping) else {"=": wanted}
    if not operations:
        raise InputError(f"where, {field}: the condition is empty", _HINT)
    for name, value in operations.items():
        if name not in _OPERATORS:
            raise InputError(f"where, {field}: unknown operator {name!r}", _HINT)
        if name in _LISTED:
            if not isinstance(value, (list, tuple, set, frozenset)):
                raise InputError(
                    f"where, {field}: {name} needs a list, not {reprlib.repr(value)}", "pass a list of values"
                )
            yield Comparison(field, name, [_operand(field, name, one) for one in value])
        else:
            yield Comparison(field, name, _operand(field, name, value))


def _operand(field: str, name: str, value: Any) -> Any:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time())
    kind = type_of(value)
    ordered = name in ("<", "<=", ">", ">=")
    if kind is None or (kind is bool and ordered) or (name == "exists" and kind is not bool):
        raise InputError(f"where, {field}: {name} cannot compare with {reprlib.repr(value)}", _HINT)
    return value


def compare(name: str, found: Any, wanted: Any) -> bool:
    """Return whether a value of a document compares so with the value of a condition."""
    if isinstance(wanted, datetime.datetime):
        found = moment(found)
        if found is None:
            return False
        if (found.tzinfo is None) is not (wanted.tzinfo is None):
            found, wanted = (one.replace(tzinfo=found.tzinfo or wanted.tzinfo) for one in (found, wanted))
    elif isinstance(found, str) and type_of(wanted) is float:
        found = number(found)
    return type_of(found) is not None and type_of(found) is type_of(wanted) and _COMPARE[name](found, wanted)


def moment(text: Any) -> datetime.datetime | None:
    """The moment that a text in ISO 8601 names, from its year to at least its day; None for any other."""
    if not isinstance(text, str) or len(text) < 10 or text[4] != "-" or text[7] != "-":
        return None
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return None


def number(text: str) -> float | None:
    """The number that a text spells with digits and a point; None where it spells none."""
    return float(text) if _NUMBER.fullmatch(text) else None
