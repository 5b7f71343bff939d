"""What every kind of record shares: fields that are checked one by one, and predictions beside the JSON file.

The predictions are a safetensors file whose name holds the beginning of its checksum. It is written first and
the JSON file, which names it, last: whatever dies when, a record is the old one or the new one.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from sentemb._files import read_json, sha256_of, write_bytes, write_json
from sentemb.errors import InputError

Value = TypeVar("Value")

_KINDS = {str: "a string", int: "an integer", float: "a number", list: "a list", dict: "an object"}


class Fields:
    """The fields of a JSON object, each with a name for error messages.

    Args:
        path: The JSON file.
        values: The object.
        prefix: What errors write before a field's name.
        hint: How to come by a sound record.
    """

    def __init__(self, path: Path, values: Mapping[str, Any], prefix: str = "", *, hint: str) -> None:
        self.path = path
        self.values = values
        self.prefix = prefix
        self.hint = hint

    def fail(self, name: str, problem: str) -> InputError:
        """The error for one field."""
        return InputError(f"{self.path}, field {self.prefix}{name}: {problem}", self.hint)

    def get(self, name: str, kind: type[Value]) -> Value:
        """A field of one type."""
        if name not in self.values:
            raise self.fail(name, "missing")
        value = self.values[name]
        accepted = (int, float) if kind is float else kind
        if not isinstance(value, accepted) or isinstance(value, bool):
            raise self.fail(name, f"{value!r} is not {_KINDS[kind]}")
        if kind is float and not math.isfinite(value):  # type: ignore[arg-type]
            raise self.fail(name, f"{value!r} is not a finite number")
        return kind(value)  # type: ignore[call-arg]

    def optional(self, name: str, kind: type[Value]) -> Value | None:
        """A field that may be null."""
        if name in self.values and self.values[name] is None:
            return None
        return self.get(name, kind)

    def numbers(self, name: str) -> dict[str, float]:
        """An object that holds numbers only."""
        inside = self.object(name)
        return {key: inside.get(key, float) for key in inside.values}

    def object(self, name: str) -> Fields:
        """The fields of an object inside this one."""
        return Fields(self.path, self.get(name, dict), f"{self.prefix}{name}.", hint=self.hint)

    def objects(self, name: str) -> list[Fields]:
        """The fields of every object of a list."""
        found = []
        for index, value in enumerate(self.get(name, list)):
            if not isinstance(value, dict):
                raise self.fail(f"{name}[{index}]", f"{value!r} is not an object")
            found.append(Fields(self.path, value, f"{self.prefix}{name}[{index}].", hint=self.hint))
        if not found:
            raise self.fail(name, "empty")
        return found


def open_record(path: Path, *, format: str, version: int, hint: str) -> Fields:
    """Open a record."""
    values = read_json(path)
    if not isinstance(values, dict) or values.get("format") != format:
        raise InputError(f"{path} is no result record", f'a record has the field "format": "{format}"')
    fields = Fields(path, values, hint=hint)
    if (found := fields.get("format_version", int)) != version:
        raise fields.fail("format_version", f"{found}, but this sentemb reads {version}")
    return fields


def read_predictions(fields: Fields) -> dict[str, npt.NDArray[Any]]:
    """Read the predictions that a record names."""
    inside = fields.object("predictions")
    name = inside.get("file", str)
    if Path(name).name != name or not name.endswith(".safetensors"):
        raise inside.fail("file", f"{name!r} is not the name of a safetensors file beside the record")
    path = fields.path.with_name(name)
    if not path.is_file():
        raise inside.fail("file", f"there is no {path}")
    if sha256_of(path) != inside.get("sha256", str):
        raise inside.fail("sha256", f"{path} was changed after the record was written")
    try:
        tensors: dict[str, npt.NDArray[Any]] = load(path.read_bytes())
    except SafetensorError as error:
        raise inside.fail("file", f"{path} cannot be read: {error}") from error
    return tensors


def write_with_predictions(
    path: Path, values: Mapping[str, Any], tensors: Mapping[str, npt.NDArray[Any]]
) -> None:
    """Write a record and its predictions, in place of an earlier one or of what a killed run left of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = save({name: np.ascontiguousarray(array) for name, array in tensors.items()})
    checksum = hashlib.sha256(content).hexdigest()
    predictions = path.with_name(f"{path.stem}.predictions-{checksum[:8]}.safetensors")
    write_bytes(predictions, content)
    write_json(path, {**values, "predictions": {"file": predictions.name, "sha256": checksum}})
    for pattern in (f"{path.stem}.predictions-*.safetensors", f".{path.stem}.*.partial"):
        for other in path.parent.glob(pattern):
            if other != predictions:
                other.unlink(missing_ok=True)


def record_paths(folder: Path, pattern: str, *, what: str = "record", maker: str) -> Sequence[Path]:
    """The JSON files of a folder's records."""
    if not folder.is_dir():
        raise InputError(f"no such folder: {folder}", "name the folder that holds the records")
    paths = sorted(path for path in folder.glob(pattern) if not path.name.startswith("."))
    if not paths:
        raise InputError(f"{folder} holds no {what}", f"{maker} writes some")
    return paths
