"""Haystack's filters as conditions of `sentemb.search.Where`."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from sentemb.errors import InputError
from sentemb.search.where import moment

_ORDER = ("<", "<=", ">", ">=")
_OPERATORS = ("==", "!=", *_ORDER, "in", "not in")
_OWN = ("id", "content", "blob", "meta", "score", "embedding", "sparse_embedding")
Conditions = dict[str, Any]


def conditions_of(filters: Any) -> Conditions:
    """Return the conditions of a filter; a field that is missing or None equals only None.

    Args:
        filters: A comparison of one field or a combination of filters, as Haystack documents them.

    Returns:
        The conditions.

    Raises:
        InputError: The filter is invalid, or compares values that cannot be compared.
    """
    if not isinstance(filters, Mapping):
        raise InputError(f"the filter {filters!r} is not a dictionary")
    if "field" in filters:
        field, operator, value = (_part(filters, name) for name in ("field", "operator", "value"))
        return _comparison(_field(field), operator, value)
    operator, parts = (_part(filters, name) for name in ("operator", "conditions"))
    if not isinstance(parts, list) or not parts:
        raise InputError(f"the filter {filters!r} does not have conditions", "pass a list of conditions")
    conditions = [conditions_of(part) for part in parts]
    if operator == "NOT":
        return {"$not": {"$and": conditions}}
    if operator not in ("AND", "OR"):
        raise InputError(f"unknown logical operator {operator!r}", "choose AND, OR or NOT")
    return {f"${operator.lower()}": conditions}


def _part(filters: Mapping[str, Any], name: str) -> Any:
    if name not in filters:
        raise InputError(f"the filter {dict(filters)!r} does not have the key {name!r}")
    return filters[name]


def _field(field: Any) -> str:
    if not isinstance(field, str) or field.split(".")[0] in (set(_OWN) - {"meta"}) or field == "meta":
        raise InputError(f"the filter uses the field {field!r}", "use fields of meta, such as meta.year")
    return field.removeprefix("meta.")


def _comparison(field: str, operator: Any, value: Any) -> Conditions:
    if operator not in _OPERATORS:
        raise InputError(f"unknown operator {operator!r}", f"choose one of {', '.join(_OPERATORS)}")
    if operator in _ORDER:
        return {field: {"in": []} if value is None else {operator: _ordered(field, operator, value)}}
    if operator in ("in", "not in"):
        if not isinstance(value, list):
            raise InputError(f"the filter of {field}: {operator} needs a list, not {value!r}")
        held: Conditions = {field: {"in": []}}
        if value:
            held = {"$or": [_equal(field, one) for one in value]}
    else:
        held = _equal(field, value)
    return {"$not": held} if operator in ("!=", "not in") else held


def _equal(field: str, value: Any) -> Conditions:
    if value is None:
        return {field: {"exists": False}}
    if not isinstance(value, (str, int, float, datetime.date)):
        raise InputError(f"the filter of {field}: {value!r} is not a string, number, boolean or date")
    same: Conditions = {field: {"=": value}}
    when = moment(value)
    return same if when is None else {"$or": [same, {field: {"=": when}}]}


def _ordered(field: str, operator: str, value: Any) -> Any:
    if isinstance(value, str):
        try:
            return datetime.datetime.fromisoformat(value)
        except ValueError:
            pass
    elif isinstance(value, (int, float, datetime.date)) and not isinstance(value, bool):
        return value
    raise InputError(f"the filter of {field}: {operator} needs a number or a date in ISO 8601, not {value!r}")
