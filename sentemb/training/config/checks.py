"""Values against their types, with errors in one line that name the field and the closest right answer."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from sentemb.errors import InputError, unknown

_WORDS = {
    "int": "an integer",
    "int_from_float": "an integer",
    "float": "a number",
    "string": "text",
    "bool": "true or false",
    "tuple": "a list",
    "mapping": "a table",
    "dict": "a table",
    "finite_number": "a finite number",
}
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "below"}


def prepared(value: Any, kind: Any) -> Any:
    """A value of TOML or of the command line as Python has it: tuples for lists, `None` for "none"."""
    kinds = _alternatives(kind)
    if value == "none" and types.NoneType in kinds:
        return None
    if isinstance(value, list | tuple):
        entries = [entry for one in kinds if get_origin(one) is tuple for entry in get_args(one)]
        entry: Any = Union[tuple(entries)] if entries else Any  # noqa: UP007 - of a list of types
        return tuple(prepared(item, entry) for item in value)
    if isinstance(value, Mapping) and get_origin(kinds[0]) is Mapping:
        return {key: prepared(item, get_args(kinds[0])[1]) for key, item in value.items()}
    return value


def checked(name: str, value: Any, kind: Any) -> Any:
    """A value of a type that no configuration declares, such as an argument of a loss."""
    config = ConfigDict(strict=True, arbitrary_types_allowed=True, allow_inf_nan=False)
    try:
        # A type that is a model has a configuration of its own.
        is_model = isinstance(kind, type) and issubclass(kind, BaseModel)
        adapter: TypeAdapter[Any] = TypeAdapter(kind, config=None if is_model else config)
        return adapter.validate_python(prepared(value, kind))
    except ValidationError as error:
        raise _error_of(name, value, error.errors()) from None


def plain(value: Any) -> Any:
    """A value as TOML and JSON have it."""
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def described_error(
    error: ValidationError, values: Mapping[str, Any], *, known: Collection[str]
) -> InputError:
    """The first thing that pydantic found, in one line."""
    errors = error.errors()
    first = errors[0]
    if not first["loc"]:  # a check of several fields
        cause = first.get("ctx", {}).get("error")
        return cause if isinstance(cause, InputError) else InputError(str(cause or first["msg"]))
    field = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        return unknown("setting", field, known)
    if first["type"] == "missing" and len(first["loc"]) == 1:
        return InputError(f"{field} is missing", f"set it with --{field.replace('_', '-')}")
    same = [one for one in errors if one["loc"][0] == field]
    value = values[field]
    if isinstance(value, Mapping) and len(first["loc"]) > 1:
        field, value = f"{field}.{first['loc'][1]}", value[first["loc"][1]]
        return _error_of(field, value, [one for one in same if one["loc"][:2] == first["loc"][:2]])
    return _error_of(field, value, same)


def _error_of(name: str, value: Any, errors: list[ErrorDetails]) -> InputError:
    first = errors[0]
    context = first.get("ctx", {})
    cause = context.get("error")
    if isinstance(cause, InputError):
        return cause
    shown = value if len(errors) > 1 else first["input"]
    if isinstance(shown, tuple):
        shown = list(shown)
    if first["type"] in ("too_short", "too_long", "missing") and isinstance(value, list | tuple):
        wanted = context.get("min_length") or context.get("max_length") or len(value) + len(errors)
        return InputError(f"{name} has {len(value)} entries", f"provide {wanted}")
    if first["type"] == "literal_error" and len(errors) == 1:
        choices = [one.strip(" '") for one in context["expected"].replace(" or ", ", ").split(",")]
        return InputError(f"{name} is {shown!r}", unknown("", shown, choices).hint)
    if cause is not None:
        return InputError(f"{name} is {shown!r}", str(cause))
    return InputError(f"{name} is {shown!r}", f"it must be {_wanted(errors)}")


def _wanted(errors: list[ErrorDetails]) -> str:
    return " or ".join(dict.fromkeys(_wanted_by(error) for error in errors))


def _wanted_by(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    for bound, words in _BOUNDS.items():
        if bound in context:
            return f"{words} {context[bound]}"
    return _WORDS.get(error["type"].removesuffix("_type"), error["msg"].lower())


def _alternatives(kind: Any) -> tuple[Any, ...]:
    if hasattr(kind, "__metadata__"):  # of Annotated
        return _alternatives(get_args(kind)[0])
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
