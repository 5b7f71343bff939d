"""Plain values against their types, TOML in and out: between a user's file and the configuration."""

from __future__ import annotations

import difflib
import json
import math
import tomllib
import types
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from sentemb.errors import InputError


def checked(name: str, value: Any, kind: Any) -> Any:
    """Check a value against a type; whole numbers pass as floats, lists as tuples, "none" as `None`."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _checked_union(name, value, get_args(kind))
    if origin is Literal:
        if value not in get_args(kind):
            raise InputError(f"{name} is {value!r}", unknown("", value, get_args(kind)).hint)
        return value
    if origin is tuple and isinstance(value, list | tuple):
        kinds = get_args(kind)
        if kinds[-1] is Ellipsis:
            kinds = (kinds[0],) * len(value)
        if len(kinds) != len(value):
            raise InputError(f"{name} has {len(value)} entries", f"give {len(kinds)}")
        return tuple(checked(name, item, inner) for item, inner in zip(value, kinds, strict=True))
    if origin is not None and isinstance(value, Mapping) and origin is not tuple:
        inner = get_args(kind)[1]
        return {key: checked(f"{name}.{key}", item, inner) for key, item in value.items()}
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(kind, type) and isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise InputError(f"{name} is {value!r}", f"it must be {_described(kind)}")


def parsed(name: str, text: str, kind: Any) -> Any:
    """Read a value from the command line, where everything is text."""
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    if any(get_origin(inner) is tuple for inner in kinds):
        entry = next(get_args(inner)[0] for inner in kinds if get_origin(inner) is tuple)
        if isinstance(value := toml_or_text(text), list):
            return checked(name, value, kind)
        return checked(name, [parsed(name, part.strip(), entry) for part in text.split(",")], kind)
    texts_only = all(inner in (str, types.NoneType) or get_origin(inner) is Literal for inner in kinds)
    if texts_only:
        return checked(name, text, kind)
    return checked(name, toml_or_text(text), kind)


def toml_or_text(text: str) -> Any:
    """Read a value of TOML; what is none is a bare word."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"no such file: {path}", "check --config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid TOML: {error}") from error


def to_toml(values: Mapping[str, Any]) -> str:
    """Write plain values as TOML; `None`, which TOML lacks, becomes the "none" that `checked` understands."""
    tables = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    lines = [f"{key} = {_toml(value)}" for key, value in values.items() if key not in tables]
    for name, table in tables.items():
        lines += ["", f"[{name}]"]
        lines += [f"{key} = {_toml(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def unknown(what: str, name: object, known: Collection[object]) -> InputError:
    """The error for a name that does not exist, with the closest one that does."""
    names = [str(item) for item in known]
    close = difflib.get_close_matches(str(name), names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"choose among {', '.join(names)}"
    return InputError(f"unknown {what}: {name}", hint)


def _checked_union(name: str, value: Any, kinds: tuple[Any, ...]) -> Any:
    # TOML and flags have no other word for it.
    if value is None or value == "none":
        if types.NoneType in kinds:
            return None
    # Exact types first, so that a whole number stays one where both kinds of number are allowed.
    elif type(value) in kinds:
        return value
    for kind in kinds:
        if kind is types.NoneType:
            continue
        try:
            return checked(name, value, kind)
        except InputError:
            if len(kinds) == 2 and types.NoneType in kinds:
                raise
    raise InputError(f"{name} is {value!r}", f"it must be {' or '.join(_described(kind) for kind in kinds)}")


def _described(kind: Any) -> str:
    words = {
        int: "a whole number",
        float: "a number",
        str: "text",
        bool: "true or false",
        types.NoneType: "absent",
    }
    if get_origin(kind) is tuple:
        return "a list"
    return words.get(kind, "a table")


def _toml(value: Any) -> str:
    if value is None:
        return '"none"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else f"{'-' if value < 0 else ''}inf"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, str):
        # A basic string of TOML is a string of JSON, but for DEL.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    return repr(value)
