"""Records of evaluations: one JSON file per model, suite and seed, of one format for every suite.

The predictions for every item are kept with the record, so that any two models can be compared item by item:
compactly (see `pack`), compressed inside the JSON file up to `INLINE` bytes, else in a safetensors file next
to it whose name holds the beginning of its checksum. Gold values are kept once per data set, in
`gold/<checksum>.safetensors` of the records' folder.

A record is written under a lock of its folder, the JSON file last: a reader sees the old record or the new
one, regardless of when a process is killed and of how many write. Reading checks every field against the
schema, and every score against the predictions.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError
from pydantic_core import from_json
from safetensors import SafetensorError
from safetensors.numpy import load, save

from sentemb._files import locked, sha256_of, write_bytes, write_text
from sentemb.errors import InputError
from sentemb.evaluation.measures import METRICS, PROTOCOLS, measure
from sentemb.evaluation.retrieval.metrics import METRICS as RETRIEVAL_METRICS
from sentemb.evaluation.retrieval.metrics import query_scores
from sentemb.evaluation.schema import (
    FORMAT,
    VERSION,
    Array,
    DataSet,
    Predictions,
    PredictionsFile,
    Record,
    first_problem,
    without_seed,
)
from sentemb.evaluation.suites import MULTILINGUAL, STS, TRANSFER, get_suite
from sentemb.limits import limit, refuse_above

if TYPE_CHECKING:
    import pandas as pd

INLINE = 12_288
"""Bytes of packed and compressed predictions that a JSON file still holds."""
PEARSON_WITHIN = 1e-4
"""How far compact predictions may move Pearson's correlation, as a fraction; 3e-6 is the most seen."""

_SOURCE = ("suite", "model", "method", "base", "seed", "experiment", "setting", "dataset", "split")
COLUMNS = (*_SOURCE, *"metric protocol value low high items preset fingerprint".split())
"""Columns of the long table."""
_HINT = "delete the file and evaluate the model again"
_RANGE = ":range"
_FEW = 1024  # up to so many different values there is room for codes of 32 bits
_GOLD: dict[str, Array] = {}


def check_free(path: Path, fingerprint: str, *, overwrite: bool) -> None:
    """Raise InputError if a record may not be written to a place, before time is spent on making it."""
    if not path.exists():
        return
    other = str(_open(path).get("fingerprint"))
    if other != fingerprint:
        raise InputError(
            f"{path} is a record of another model (fingerprint {other[:12]}, not {fingerprint[:12]})",
            "choose another output folder",
        )
    if not overwrite:
        raise InputError(f"{path} already exists", "add --overwrite (overwrite=True) to replace it")


def write_record(
    record: Record,
    predictions: Mapping[str, Array],
    gold: Mapping[str, Array],
    folder: Path,
    *,
    overwrite: bool = False,
    name: str | None = None,
) -> Path:
    """Write a record with its predictions under a lock of its folder, the JSON file last.

    Args:
        record: The record; the place of the predictions is filled in.
        predictions: By data set, or `<dataset>:<kind>`; empty where there are none.
        gold: Gold values by data set.
        folder: The folder, created if it is missing.
        overwrite: Replace an earlier record of the same model.
        name: Name of the JSON file; `record.file_name` by default.

    Returns:
        The JSON file.

    Raises:
        InputError: The place is taken, a score does not follow from the predictions, or the gold values of a
            data set differ from those that the folder has under its checksum.

    Example:
        >>> record = load_records("records")[0]
        >>> path = write_record(record, *load_predictions(record), Path("copied"))
        >>> path.parent.name
        'copied'
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name or record.file_name)
    tensors = pack(predictions)
    _check_scores(record, path, Predictions(unpack(tensors), gold))
    for set_name, values in gold.items():
        _write_gold(folder, record.dataset(set_name), values)
    content = save({key: np.ascontiguousarray(tensor) for key, tensor in tensors.items()})
    with locked(folder) as alone:
        check_free(path, record.fingerprint, overwrite=overwrite)
        place = _place(path, content) if predictions else None
        if place is not None and place.file is not None:
            write_bytes(folder / place.file, content)
        write_text(path, _to_json(record.model_copy(update={"predictions": place})))
        if alone:  # remove the predictions of the replaced record, and what killed writers left
            for pattern in (f"{path.stem}.predictions-*.safetensors", f".{path.stem}.*.partial"):
                for other in path.parent.glob(pattern):
                    if place is None or other.name != place.file:
                        other.unlink(missing_ok=True)
    return path


def read_record(path: Path) -> Record:
    """Read the JSON file of a record, and check its fields and its scores.

    Raises:
        InputError: A file is missing or damaged, a field is missing or wrong, or a score does not follow from
            the predictions; the message names the file and the field.

    Example:
        >>> record = read_record(next(Path("records").glob("*.json")))
        >>> record.suite
        'sts'
    """
    _open(path)  # any other file has an error of its own
    text = _read_bytes(path)
    try:
        record = Record.model_validate_json(text)
        predictions = _read_predictions(record, path)
        _check_scores(record, path, predictions)
    except ValidationError as error:
        raise InputError(f"{path}, {first_problem(error)}", _HINT) from None
    except (FileNotFoundError, InputError):
        if _read_bytes(path) != text:
            return read_record(path)  # another process has just replaced the record
        raise
    return record.with_predictions(*predictions)


def load_records(
    paths: str | Path | Sequence[str | Path], *, suite: str | None = None, fingerprint: str | None = None
) -> list[Record]:
    """Read the records of folders and files.

    Args:
        paths: A JSON file, a folder, or several of these; other files in a folder are skipped.
        suite: Only records of this suite.
        fingerprint: Only records of this model.

    Returns:
        The records, by folder and file name.

    Raises:
        InputError: A folder or file is missing, a record is damaged, or none is found.

    Example:
        >>> records = load_records("records")
        >>> sorted(record.model for record in records)
        ['all-MiniLM-L6-v2', 'static-mini']
    """
    given = [Path(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
    found = [
        read_record(path)
        for path, values in _headers(given)
        if suite in (None, values.get("suite")) and fingerprint in (None, values.get("fingerprint"))
    ]
    if not found:
        of_suite = "" if suite is None else f" of the suite {suite}"
        of_model = "" if fingerprint is None else f" of the model with the fingerprint {fingerprint[:12]}"
        raise InputError(
            f"no record{of_suite}{of_model} found in {', '.join(map(str, given))}",
            "create one with sentemb eval MODEL --output FOLDER",
        )
    return found


def has_records(folder: Path) -> bool:
    """Return whether a folder exists and has a file that says that it is a record."""
    return folder.is_dir() and any(True for _ in _headers([folder]))


def load_predictions(record: Record) -> Predictions:
    """Return the predictions of a record and the gold values, both by data set; empty where it has none.

    Example:
        >>> record = load_records("records")[0]
        >>> predictions, gold = load_predictions(record)
        >>> sorted(predictions)
        ['pairs']
    """
    return record._predictions


def join_records(first: Record | None, second: Record, command: Sequence[str] | None = None) -> Record:
    """Return one record of the data sets of both records of a model, or of the second alone."""
    values, gold = load_predictions(second)
    seconds = Counter(second.environment.seconds)
    changes: dict[str, Any] = {}
    if first is not None:
        earlier = load_predictions(first)
        values, gold = {**earlier.values, **values}, {**earlier.gold, **gold}
        seconds.update(first.environment.seconds)
        old, new = first.details, second.details
        both = {name: {**old[name], **new[name]} for name in old if isinstance(new.get(name), dict)}
        changes = {
            "datasets": (*first.datasets, *second.datasets),
            "scores": (*first.scores, *second.scores),
            "details": {**old, **new, **both},
        }
    times = {"seconds": dict(seconds), "command": None if command is None else tuple(command)}
    changes["environment"] = second.environment.model_copy(update=times)
    return second.model_copy(update=changes).with_predictions(values, gold)


def pack(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return predictions as compact tensors.

    Real numbers become 16-bit codes (32-bit ones in small sets) between the least and the greatest of them.
    Different numbers keep different codes in the same order, so ranks, and with them Spearman's correlation,
    stay exactly what they were; values are off by some 65,536ths of their range, and Pearson's correlation by
    less than `PEARSON_WITHIN`. What is kept next to the predictions, such as the probabilities of classes, is
    rounded to 8 bits. Class numbers take the smallest integer type.
    """
    tensors: dict[str, Array] = {}
    for name, array in arrays.items():
        if array.dtype.kind in "iub":
            tensors[name] = array.astype(_smallest_type(array))
        else:
            encode = _round_to_bytes if ":" in name else _encode_ranks
            tensors[name], tensors[name + _RANGE] = encode(np.asarray(array, dtype=np.float64))
    return tensors


def unpack(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Return packed predictions as float64, or as int64 where they are integers."""
    arrays: dict[str, Array] = {}
    for name, tensor in tensors.items():
        if name.endswith(_RANGE):
            continue
        if name + _RANGE not in tensors:
            arrays[name] = tensor.astype(np.int64)
            continue
        low, high = tensors[name + _RANGE]
        arrays[name] = low + tensor.astype(np.float64) * ((high - low) / np.iinfo(tensor.dtype).max)
    return arrays


def pack_gold(gold: Array) -> dict[str, Array]:
    """Return gold values as their unique values and the place of each item's among them."""
    values, places = np.unique(gold, return_inverse=True)
    return {"values": values, "places": places.reshape(gold.shape).astype(_smallest_type(places))}


def unpack_gold(tensors: Mapping[str, Array]) -> Array:
    """Return the exact gold values."""
    return np.asarray(tensors["values"][tensors["places"]])


def _encode_ranks(array: Array) -> tuple[Array, Array]:
    values, places = np.unique(array, return_inverse=True)
    kind = np.uint16 if _FEW < len(values) <= np.iinfo(np.uint16).max + 1 else np.uint32
    low, high, top = values[0], values[-1], np.iinfo(kind).max
    codes = np.rint((values - low) * (top / (high - low or 1.0))).astype(np.int64)
    steps = np.arange(len(codes))
    # Crowded values move to the nearest free codes: up first, and back down at the upper end.
    codes = np.maximum.accumulate(codes - steps) + steps
    codes = np.minimum(codes, top - steps[::-1])
    return codes[places].reshape(array.shape).astype(kind), np.array([low, high])


def _round_to_bytes(array: Array) -> tuple[Array, Array]:
    low, high = array.min(), array.max()
    return np.rint((array - low) * (255 / (high - low or 1.0))).astype(np.uint8), np.array([low, high])


def _smallest_type(array: Array) -> np.dtype[Any]:
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    return np.min_scalar_type(high if low >= 0 else min(low, -high - 1))


def _check_scores(record: Record, path: Path, predictions: Predictions) -> None:
    """Raise InputError if a score does not follow from the predictions."""
    suite = get_suite(record.suite)
    protocols = {"protocol": record.protocol}
    protocols |= {f"scores[{index}].protocol": one.protocol for index, one in enumerate(record.scores)}
    for field, protocol in protocols.items() if suite in (STS, MULTILINGUAL) else ():
        if protocol not in PROTOCOLS:
            known = ", ".join(PROTOCOLS)
            raise InputError(f"{path}, field {field}: {protocol!r} is not one of {known}", _HINT)
    for index, score in enumerate(record.scores):
        values, gold = predictions.values.get(score.dataset), predictions.gold.get(score.dataset)
        if score.metric not in METRICS or score.protocol not in PROTOCOLS or values is None or gold is None:
            continue
        if score.metric in RETRIEVAL_METRICS:
            # The kept predictions are ranks of documents with qrels; the items are queries.
            values = gold = query_scores(score.metric, values, gold)
        dataset = record.dataset(score.dataset)
        if len(values) != dataset.items or len(gold) != dataset.items:
            raise InputError(
                f"{path}, field datasets, {dataset.name}: {dataset.items} items, but there are "
                f"{len(values)} predictions and {len(gold)} gold values",
                _HINT,
            )
        scale = suite.scale
        parts, classes = dataset.subsets, len(dataset.classes)
        exact = scale * measure(
            score.metric, values, gold, protocol=score.protocol, subsets=parts, classes=classes
        )
        exact = 0.0 if np.isnan(exact) else exact  # all predictions are equal
        tolerance = 0.0 if suite.rounding is None else 10.0**-suite.rounding
        tolerance += scale * (PEARSON_WITHIN if score.metric == "pearson" else 1e-9)
        close = abs(score.value - exact) <= tolerance
        if not close and suite is TRANSFER and score.metric == "accuracy":
            from sentemb.evaluation.transfer.tasks import accuracy_of_folds

            close = score.value == accuracy_of_folds(score.dataset, record.protocol, gold, values)
        if not close:
            raise InputError(
                f"{path}, field scores[{index}].value: {score.value} does not match the "
                f"{score.metric} of the predictions for {score.dataset}, {exact:.6g}",
                _HINT,
            )


def _headers(paths: Sequence[Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
    for given in paths:
        if not given.exists():
            raise InputError(
                f"no such file or folder: {given}", "list records, or a folder that contains some"
            )
        if not given.is_dir():
            yield given, _open(given)
            continue
        for path in sorted(given.glob("*.json")):
            values = _parse(path)
            if not path.name.startswith(".") and isinstance(values, dict) and values.get("format") == FORMAT:
                yield path, values


def _open(path: Path) -> dict[str, Any]:
    values = _parse(path)
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise InputError(f"{path} is not a result record", f'use a file with the field "format": "{FORMAT}"')
    if values.get("version") != VERSION:
        raise InputError(
            f"{path}, field version: this version of sentemb reads {VERSION}, not {values.get('version')!r}",
            _HINT,
        )
    return values


def _parse(path: Path) -> Any:
    try:
        return from_json(_read_bytes(path))
    except ValueError as error:
        raise InputError(f"{path} is not valid JSON: {error}") from error


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"no such file: {path}") from None


def _to_json(record: Record) -> str:
    """Return JSON with a line for each field, data set and score: a change shows as a line."""
    values = {"format": FORMAT, "version": VERSION, **record.model_dump(mode="json", exclude_defaults=True)}

    def compact(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    lines = []
    for key, value in values.items():
        rows = ",\n  ".join(map(compact, value)) if key in ("datasets", "scores") else None
        lines.append(f"{compact(key)}:" + (compact(value) if rows is None else f"[\n  {rows}]"))
    return "{" + ",\n".join(lines) + "}\n"


def _place(path: Path, content: bytes) -> PredictionsFile:
    checksum = hashlib.sha256(content).hexdigest()
    compressed = zlib.compress(content, 9)
    if len(compressed) <= INLINE:
        return PredictionsFile(sha256=checksum, data=base64.b85encode(compressed).decode())
    return PredictionsFile(sha256=checksum, file=f"{path.stem}.predictions-{checksum[:8]}.safetensors")


def _read_predictions(record: Record, path: Path) -> Predictions:
    place = record.predictions
    if place is None:
        return Predictions({}, {})
    if place.file is not None:
        field, source = "predictions.file", path.with_name(place.file)
        if not source.is_file():
            raise InputError(f"{path}, field {field}: no such file: {source}", _HINT)
        content = source.read_bytes()
    else:
        field, source = "predictions.data", path
        try:
            packed = base64.b85decode(place.data or "")
            content = zlib.decompressobj().decompress(packed, (limit("predictions") << 20) + 1)
        except (ValueError, zlib.error) as error:
            raise InputError(f"{path}, field {field}: {error}", _HINT) from error
        refuse_above("predictions", len(content) / (1 << 20), f"{path}, field {field}")
    if hashlib.sha256(content).hexdigest() != place.sha256:
        raise InputError(
            f"{path}, field predictions.sha256: {source} was modified after the evaluation", _HINT
        )
    try:
        values = unpack(load(content))
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise InputError(f"{path}, field {field}: {source} cannot be read: {error}", _HINT) from error
    scored = [one for one in record.datasets if one.name in values]
    return Predictions(values, {one.name: _read_gold(path.parent, one) for one in scored})


def _gold_path(folder: Path, dataset: DataSet) -> Path:
    return folder / "gold" / f"{dataset.sha256[:16]}.safetensors"


def _write_gold(folder: Path, dataset: DataSet, gold: Array) -> None:
    path = _gold_path(folder, dataset)
    if not path.exists():
        write_bytes(path, save(pack_gold(gold)))
    elif not np.array_equal(_read_gold(folder, dataset), gold):
        raise InputError(
            f"{path}: the existing gold values of {dataset.name} differ", "choose another output folder"
        )


def _read_gold(folder: Path, dataset: DataSet) -> Array:
    path = _gold_path(folder, dataset)
    if not path.is_file():
        raise InputError(
            f"no such file: {path}, the gold values of {dataset.name}", "copy it together with the records"
        )
    checksum = sha256_of(path)
    if checksum not in _GOLD:
        try:
            _GOLD[checksum] = unpack_gold(load(path.read_bytes()))
        except (SafetensorError, KeyError, IndexError) as error:
            raise InputError(f"{path} cannot be read: {error}", _HINT) from error
        _GOLD[checksum].setflags(write=False)
    return _GOLD[checksum]


def to_frame(records: Iterable[Record]) -> pd.DataFrame:
    """Return records as a long table with a row for each score, to pivot into any table or figure.

    Of its `COLUMNS`, `method` is the model's name without `-seed-N`; `seed`, `items` and `base` may be
    missing values; `setting` is written as `name=value, …`; `value`, `low` and `high` are x 100, except for
    geometry; `preset` is the record's protocol (of transfer tasks the preset of the classifiers), `protocol`
    that of the score.

    Example:
        >>> frame = to_frame(load_records("records"))
        >>> list(frame.columns)[:3]
        ['suite', 'model', 'method']
    """
    import pandas as pd

    frame = pd.DataFrame([row for record in records for row in _rows(record)], columns=list(COLUMNS))
    return frame.astype({"seed": "Int64", "items": "Int64", "low": "float64", "high": "float64"})


def setting_text(setting: Mapping[str, Any]) -> str:
    """Return a trial's setting as one cell of a table."""
    return ", ".join(
        f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in setting.items()
    )


def _rows(record: Record) -> Iterable[dict[str, Any]]:
    trial, sets = record.trial, {one.name: one for one in record.datasets}
    factor = 100 / get_suite(record.suite).scale
    for score in record.scores:
        dataset = sets.get(score.dataset)
        yield {
            "suite": record.suite,
            "model": record.model,
            "method": without_seed(record.model),
            "base": record.base,
            "seed": record.seed,
            "experiment": trial.experiment if trial else "",
            "setting": setting_text(trial.setting) if trial else "",
            "dataset": score.dataset,
            "split": dataset.split if dataset else "",
            "metric": score.metric,
            "protocol": score.protocol,
            "value": factor * score.value,
            "low": None if score.low is None else factor * score.low,
            "high": None if score.high is None else factor * score.high,
            "items": dataset.items if dataset else None,
            "preset": record.protocol,
            "fingerprint": record.fingerprint,
        }
