"""The files of a result record: from a record to JSON and tensors, and back with every field checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sentemb.data.sts import Subset
from sentemb.errors import InputError
from sentemb.evaluation.measures import PROTOCOLS, Protocol
from sentemb.evaluation.record_files import Fields, open_record, read_predictions
from sentemb.evaluation.result import ResultRecord
from sentemb.evaluation.scoring import Correlations, Predictions, SetScore
from sentemb.evaluation.suites import get_suite

FORMAT = "sentemb-result"
FORMAT_VERSION = 1


def record_to_json(record: ResultRecord) -> dict[str, Any]:
    """A record as a JSON object, without its predictions."""
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
        "sentences": record.sentences,
        "unique": record.unique,
        "seconds": dict(record.seconds),
        "encoder": dict(record.encoder),
        "versions": dict(record.versions),
        "hardware": dict(record.hardware),
        "command": None if record.command is None else list(record.command),
    }


def predictions_to_tensors(record: ResultRecord) -> dict[str, npt.NDArray[np.float64]]:
    """The predictions, as the tensors of a safetensors file."""
    tensors = {}
    for one in record.sets:
        tensors[f"{one.name}.similarities"] = one.predictions.similarities
        tensors[f"{one.name}.gold"] = one.predictions.gold
    return tensors


def read_fingerprint(path: Path) -> str:
    """Whose record a file is, without its predictions, which may be gone."""
    return _open(path).get("fingerprint", str)


def read_record(path: Path) -> ResultRecord:
    """Read a record and its predictions."""
    fields = _open(path)
    tensors = read_predictions(fields)
    sets = tuple(_set_of(one, tensors) for one in fields.objects("sets"))
    command = fields.optional("command", list)
    return ResultRecord(
        model=fields.get("model", str),
        fingerprint=fields.get("fingerprint", str),
        dimension=fields.get("dimension", int),
        suite=_suite(fields),
        protocol=_protocol(fields.get("protocol", str), fields, "protocol"),
        seed=fields.optional("seed", int),
        sets=sets,
        sentences=fields.get("sentences", int),
        unique=fields.get("unique", int),
        encoder=fields.get("encoder", dict),
        versions=fields.get("versions", dict),
        hardware=fields.get("hardware", dict),
        date=fields.get("date", str),
        seconds=fields.numbers("seconds"),
        command=None if command is None else tuple(str(word) for word in command),
    )


def _open(path: Path) -> Fields:
    return open_record(path, format=FORMAT, version=FORMAT_VERSION, hint="evaluate the model again")


def _set_of(fields: Fields, tensors: Mapping[str, npt.NDArray[Any]]) -> SetScore:
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


def _suite(fields: Fields) -> str:
    try:
        return get_suite(fields.get("suite", str)).name
    except InputError as error:
        raise fields.fail("suite", error.message) from None


def _protocol(name: str, fields: Fields, field: str) -> Protocol:
    for protocol in PROTOCOLS:
        if name == protocol:
            return protocol
    raise fields.fail(field, f"{name!r} is not one of {', '.join(PROTOCOLS)}")


def _correlations_of(fields: Fields) -> Correlations:
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
