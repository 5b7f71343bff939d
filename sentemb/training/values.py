"""Text of the command line as values, and TOML in and out."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import tomllib
import types
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel

from sentemb._uris import without_secrets
from sentemb.errors import InputError


def parsed(text: str, kind: Any) -> Any:
    """Read a value of the command line: a list where its type is one, else the text, which pydantic reads."""
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    if not any(get_origin(one) is tuple for one in kinds):
        return text
    value = toml_or_text(text)
    return value if isinstance(value, list) else [one.strip() for one in text.split(",")]


def parsed_option(text: str) -> Any:
    """Read an option of a loss or a head: any value of TOML, numbers separated by commas, or text."""
    value = toml_or_text(text)
    if value == text and "," in text:
        return [toml_or_text(part.strip()) for part in text.split(",")]
    return value


def toml_or_text(text: str) -> Any:
    """Read a value of TOML; any other text is a bare word."""
    try:
        read = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    except (ValueError, RecursionError) as error:  # a number of more than 4,300 digits, or deep nesting
        raise InputError(f"cannot parse the value {text[:40]}...: {error}", "use a shorter value") from None
    return read["value"] if len(read) == 1 else text  # further lines are more than a value


def read_toml(path: Path, *, hint: str = "check --config") -> dict[str, Any]:
    """Read a TOML file; the hint is for one that does not exist."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"no such file: {path}", hint) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid TOML: {error}") from error


def to_toml(values: Mapping[str, Any]) -> str:
    """Write plain values as TOML, without secrets of URIs; `None` becomes "none", which is read as it."""
    tables = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    lines = [f"{_key(key)} = {_toml(value)}" for key, value in values.items() if key not in tables]
    for name, table in tables.items():
        lines += ["", f"[{_key(name)}]"]
        lines += [f"{_key(key)} = {_toml(value)}" for key, value in table.items()]
    return "\n".join(lines).lstrip() + "\n"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else _toml(name)


def _toml(value: Any) -> str:
    if value is None:
        return '"none"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(key)} = {_toml(item)}' for key, item in value.items())} }}"
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InputError(f"{value!a} is not valid UTF-8", "rename it, or use another file") from None
        # A basic string of TOML is a string of JSON, but for DEL.
        return json.dumps(without_secrets(value), ensure_ascii=False).replace("\x7f", "\\u007F")
    return repr(value)


def attribute_docs(model: type[BaseModel]) -> dict[str, str | None]:
    """Return the docstrings below the fields of a model, each in one line.

    pydantic can read them as well, but searches all modules for each class, which delays every command.
    """
    docs: dict[str, str | None] = {}
    for owner in reversed(model.__mro__):
        if issubclass(owner, BaseModel) and owner is not BaseModel:
            own = _docs_of_classes(owner.__module__).get(owner.__name__, {})
            docs |= {name: own.get(name) for name in inspect.get_annotations(owner)}
    return docs


@cache
def _docs_of_classes(module: str) -> dict[str, dict[str, str]]:
    try:
        body = ast.parse(inspect.getsource(sys.modules[module])).body
    except OSError:  # typed into an interpreter
        return {}
    return {
        owner.name: {
            ast.unparse(field.target): " ".join(text.value.value.split())
            for field, text in pairwise(owner.body)
            if isinstance(field, ast.AnnAssign)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        }
        for owner in body
        if isinstance(owner, ast.ClassDef)
    }
