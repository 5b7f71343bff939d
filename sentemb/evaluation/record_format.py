"""The files of a result record: from a record to JSON and tensors, and back with every field checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load

from sentemb._files import read_json, sha256_of
from sentemb.data.sts import Subset
from sentemb.errors import InputError
from sentemb.evaluation.result import ResultRecord
from sentemb.evaluation.scoring import PROTOCOLS, Correlations, Predictions, Protocol, SetScore

FORMAT = "sentemb-result"
FORMAT_VERSION = 1

Value = TypeVar("Value")

_KINDS = {str: "a string", int: "an integer", float: "a number", list: "a list", dict: "an object"}


def record_to_json(record: ResultRecord, predictions: str, checksum: str) -> dict[str, Any]:
    """Everything but the predictions, as JSON values.

    Args:
        record: The record.
        predictions: Name of the file of predictions.
        checksum: Its SHA-256.

    Returns:
        The JSON object.
    """
    averages = {protocol: record.average(protocol) for protocol in PROTOCOLS}
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "model": record.model,
        "fingerprint": record.fingerprint,
        "dimension": record.dimension,
        "suite": record.suite,
        "protocol": record.protocol,
        "seed": record.seed,
        "date": record.date,
        "average": {name: _correlations_to_json(mean) for name, mean in averages.items() if mean is not None},
        "sets": [_set_to_json(one) for one in record.sets],
        "predictions": {"file": predictions, "sha256": checksum},
        "sentences": record.sentences,
        "unique": record.unique,
        "seconds": dict(record.seconds),
        "encoder": dict(record.encoder),
        "versions": dict(record.versions),
        "hardware": dict(record.hardware),
        "command": None if record.command is None else list(record.command),
    }


def predictions_to_tensors(record: ResultRecord) -> dict[str, npt.NDArray[np.float64]]:
    """The predictions, as the tensors of a safetensors file.

    Args:
        record: The record.

    Returns:
        `<set>.similarities` and `<set>.gold`, float64, shape (pairs,).
    """
    tensors = {}
    for one in record.sets:
        tensors[f"{one.name}.similarities"] = np.ascontiguousarray(one.predictions.similarities)
        tensors[f"{one.name}.gold"] = np.ascontiguousarray(one.predictions.gold)
    return tensors


def read_record_identity(path: Path) -> tuple[str, Path]:
    """Whose record a file is, without its predictions, which may be gone.

    Args:
        path: The JSON file.

    Returns:
        The model's fingerprint and the file of predictions.

    Raises:
        InputError: The file is no record.
    """
    fields = _open(path)
    return fields.get("fingerprint", str), path.with_name(_plain_name(fields.object("predictions")))


def read_record(path: Path) -> ResultRecord:
    """Read a record and its predictions.

    Args:
        path: The JSON file.

    Returns:
        The record.

    Raises:
        InputError: A file is absent or damaged, or a field is missing or wrong; names the file and the field.
    """
    fields = _open(path)
    tensors = _read_predictions(path, fields.object("predictions"))
    sets = tuple(_set_of(one, tensors) for one in fields.objects("sets"))
    command = fields.optional("command", list)
    return ResultRecord(
        model=fields.get("model", str),
        fingerprint=fields.get("fingerprint", str),
        dimension=fields.get("dimension", int),
        suite=fields.get("suite", str),
        protocol=_protocol(fields.get("protocol", str), fields, "protocol"),
        seed=fields.optional("seed", int),
        sets=sets,
        sentences=fields.get("sentences", int),
        unique=fields.get("unique", int),
        encoder=fields.get("encoder", dict),
        versions=fields.get("versions", dict),
        hardware=fields.get("hardware", dict),
        date=fields.get("date", str),
        seconds={name: fields.object("seconds").get(name, float) for name in fields.get("seconds", dict)},
        command=None if command is None else tuple(str(word) for word in command),
    )


class _Fields:
    """The fields of a JSON object, each with a name for error messages."""

    def __init__(self, path: Path, values: Mapping[str, Any], prefix: str = "") -> None:
        self.path = path
        self.values = values
        self.prefix = prefix

    def fail(self, name: str, problem: str) -> InputError:
        return InputError(f"{self.path}, field {self.prefix}{name}: {problem}", "evaluate the model again")

    def get(self, name: str, kind: type[Value]) -> Value:
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
        if name in self.values and self.values[name] is None:
            return None
        return self.get(name, kind)

    def object(self, name: str) -> _Fields:
        return _Fields(self.path, self.get(name, dict), f"{self.prefix}{name}.")

    def objects(self, name: str) -> list[_Fields]:
        found = []
        for index, value in enumerate(self.get(name, list)):
            if not isinstance(value, dict):
                raise self.fail(f"{name}[{index}]", f"{value!r} is not an object")
            found.append(_Fields(self.path, value, f"{self.prefix}{name}[{index}]."))
        if not found:
            raise self.fail(name, "empty")
        return found


def _open(path: Path) -> _Fields:
    values = read_json(path)
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise InputError(f"{path} is no result record", f'a record has the field "format": "{FORMAT}"')
    fields = _Fields(path, values)
    if (version := fields.get("format_version", int)) != FORMAT_VERSION:
        raise fields.fail("format_version", f"{version}, but this sentemb reads {FORMAT_VERSION}")
    return fields


def _plain_name(fields: _Fields) -> str:
    name = fields.get("file", str)
    if Path(name).name != name or not name.endswith(".safetensors"):
        raise fields.fail("file", f"{name!r} is not the name of a safetensors file beside the record")
    return name


def _read_predictions(path: Path, fields: _Fields) -> dict[str, npt.NDArray[Any]]:
    predictions = path.with_name(_plain_name(fields))
    if not predictions.is_file():
        raise fields.fail("file", f"there is no {predictions}")
    if sha256_of(predictions) != fields.get("sha256", str):
        raise fields.fail("sha256", f"{predictions} was changed after the record was written")
    try:
        tensors: dict[str, npt.NDArray[Any]] = load(predictions.read_bytes())
    except SafetensorError as error:
        raise fields.fail("file", f"{predictions} cannot be read: {error}") from error
    return tensors


def _set_of(fields: _Fields, tensors: Mapping[str, npt.NDArray[Any]]) -> SetScore:
    name = fields.get("name", str)
    pairs = fields.get("pairs", int)
    arrays = []
    for key in (f"{name}.similarities", f"{name}.gold"):
        array = tensors.get(key)
        if array is None or array.shape != (pairs,) or array.dtype != np.float64:
            raise fields.fail("pairs", f"the predictions hold no {pairs} numbers {key}")
        arrays.append(array)
    subsets = tuple(
        Subset(one.get("name", str), one.get("start", int), one.get("stop", int))
        for one in fields.objects("subsets")
    )
    data = fields.object("data")
    scores = fields.object("scores")
    if "all" not in scores.values:
        raise scores.fail("all", "missing")
    return SetScore(
        name=name,
        split=fields.get("split", str),
        scores={
            _protocol(protocol, scores, protocol): _correlations_of(scores.object(protocol))
            for protocol in scores.values
        },
        predictions=Predictions(arrays[0], arrays[1], subsets),
        checksum=data.get("sha256", str),
        source=data.get("source", str),
    )


def _protocol(name: str, fields: _Fields, field: str) -> Protocol:
    for protocol in PROTOCOLS:
        if name == protocol:
            return protocol
    raise fields.fail(field, f"{name!r} is not one of {', '.join(PROTOCOLS)}")


def _correlations_of(fields: _Fields) -> Correlations:
    values = {name: fields.get(name, float) for name in ("spearman", "pearson")}
    for name, value in values.items():
        if abs(value) > 100 + 1e-9:
            raise fields.fail(name, f"{value} is no correlation x 100")
    return Correlations(**values)


def _correlations_to_json(correlations: Correlations) -> dict[str, float]:
    return {"spearman": correlations.spearman, "pearson": correlations.pearson}


def _set_to_json(score: SetScore) -> dict[str, Any]:
    return {
        "name": score.name,
        "split": score.split,
        "pairs": score.pairs,
        "scores": {protocol: _correlations_to_json(value) for protocol, value in score.scores.items()},
        "subsets": [
            {"name": subset.name, "start": subset.start, "stop": subset.stop}
            for subset in score.predictions.subsets
        ],
        "data": {"sha256": score.checksum, "source": score.source},
    }
