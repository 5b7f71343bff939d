"""The record of an evaluation: one JSON file per model, suite and seed, of one format for every suite.

The predictions for every item are kept with the record, so that any two models can be compared item by item:
compactly (see `packing`), compressed inside the JSON file up to `INLINE` bytes, else in a safetensors file
beside it whose name holds the beginning of its checksum. Gold values are kept once per data set, in
`gold/<checksum>.safetensors` of the records' folder.

A record is written under a lock of its folder, the JSON file last: a reader sees the old record or the new
one, whatever dies when and however many write. Reading checks every field against the schema (see `schema`),
and every score against what the predictions give.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError
from pydantic_core import from_json
from safetensors import SafetensorError
from safetensors.numpy import load, save

from sentemb._files import locked, sha256_of, write_bytes, write_text
from sentemb.errors import InputError
from sentemb.evaluation.packing import pack, pack_gold, unpack, unpack_gold
from sentemb.evaluation.record_checks import check_scores
from sentemb.evaluation.schema import FORMAT, VERSION, Array, DataSet, Predictions, PredictionsFile, Record
from sentemb.limits import limit, refuse_above

INLINE = 12_288
"""Bytes of packed and compressed predictions that a JSON file still holds."""

_HINT = "delete the file and evaluate the model again"
_OLD_FORMATS = ("sentemb-result", "sentemb-geometry", "sentemb-transfer", "sentemb-classification")


def check_free(path: Path, fingerprint: str, *, overwrite: bool) -> None:
    """Check that a record may be written to a place, before time is spent on making it."""
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
    """Write a record with its predictions; `write_record(record, *load_predictions(record), folder)`.

    Args:
        record: The record; where its predictions are is filled in.
        predictions: What was predicted, by data set, or `<dataset>:<kind>`; empty where there is nothing.
        gold: Gold values by data set.
        folder: The folder, made where it is missing.
        overwrite: Replace an earlier record of the same model.
        name: Name of the JSON file; `record.file_name` by default.

    Returns:
        The JSON file.

    Raises:
        InputError: The place is taken, a score is not what the predictions give, or the gold values of a data
            set differ from those that the folder has under its checksum.

    Example:
        >>> record = load_records("records")[0]
        >>> path = write_record(record, *load_predictions(record), Path("copied"))
        >>> path.parent.name
        'copied'
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name or record.file_name)
    tensors = pack(predictions)
    check_scores(record, path, Predictions(unpack(tensors), gold))
    for name_, values in gold.items():
        _write_gold(folder, record.dataset(name_), values)
    content = save({name_: np.ascontiguousarray(tensor) for name_, tensor in tensors.items()})
    with locked(folder) as alone:
        check_free(path, record.fingerprint, overwrite=overwrite)
        place = _place(path, content) if predictions else None
        if place is not None and place.file is not None:
            write_bytes(folder / place.file, content)
        write_text(path, _to_json(record.model_copy(update={"predictions": place})))
        if alone:
            _sweep(path, keep=place.file if place else None)
    return path


def read_record(path: Path) -> Record:
    """Read a record, and check its fields and its scores.

    Args:
        path: The JSON file.

    Returns:
        The record.

    Raises:
        InputError: A file is missing or damaged, a field is missing or wrong, or a score is not what the
            predictions give; the message names the file and the field.

    Example:
        >>> record = read_record(next(Path("records").glob("*.json")))
        >>> record.suite
        'sts'
    """
    _open(path)  # what is no record at all is said in one line
    text = _text(path)
    try:
        record = Record.model_validate_json(text)
        predictions = _read_predictions(record, path)
        check_scores(record, path, predictions)
    except ValidationError as error:
        raise _field_error(path, error) from None
    except (FileNotFoundError, InputError):
        if _text(path) != text:
            return read_record(path)  # another process has just replaced the record
        raise
    return record.with_predictions(*predictions)


def load_records(
    paths: str | Path | Sequence[str | Path], *, suite: str | None = None, fingerprint: str | None = None
) -> list[Record]:
    """Read the records of folders and files.

    Args:
        paths: A JSON file, or a folder that holds some, or several of these; other files in a folder are
            skipped.
        suite: Only records of this suite.
        fingerprint: Only records of this model.

    Returns:
        The records, by folder and file name.

    Raises:
        InputError: A folder or file is missing, a record is not sound, or there is none.

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


def load_predictions(record: Record) -> Predictions:
    """The predictions of a record and the gold values.

    Args:
        record: A record that was read, or one made by an evaluation.

    Returns:
        Both by data set; empty for a record without predictions.

    Example:
        >>> record = load_records("records")[0]
        >>> predictions, gold = load_predictions(record)
        >>> sorted(predictions)
        ['pairs']
    """
    return record._predictions


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
            values = _parsed(path)
            if not path.name.startswith(".") and isinstance(values, dict) and values.get("format") == FORMAT:
                yield path, values


def _open(path: Path) -> dict[str, Any]:
    values = _parsed(path)
    if isinstance(values, dict) and values.get("format") in _OLD_FORMATS:
        raise InputError(
            f"{path} was written by an earlier, incompatible version of sentemb", "evaluate the model again"
        )
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise InputError(f"{path} is not a result record", f'use a file with the field "format": "{FORMAT}"')
    if values.get("version") != VERSION:
        raise InputError(
            f"{path}, field version: this version of sentemb reads {VERSION}, not {values.get('version')!r}",
            _HINT,
        )
    return values


def _parsed(path: Path) -> Any:
    try:
        return from_json(_text(path))
    except ValueError as error:
        raise InputError(f"{path} is not valid JSON: {error}") from error


def _text(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"no such file: {path}") from None


def _field_error(path: Path, error: ValidationError) -> InputError:
    first = error.errors(include_url=False)[0]
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    where = f"{path}, field {field}" if field else str(path)
    return InputError(f"{where}: {first['msg'].removeprefix('Value error, ')}", _HINT)


def _to_json(record: Record) -> str:
    """JSON with a line for each field, data set and score: compact, and yet a change shows as a line."""
    values = {"format": FORMAT, "version": VERSION, **record.model_dump(mode="json", exclude_defaults=True)}

    def compact(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    lines = []
    for key, value in values.items():
        rows = ",\n  ".join(map(compact, value)) if key in ("datasets", "scores") else None
        lines.append(f"{compact(key)}:" + (compact(value) if rows is None else f"[\n  {rows}]"))
    return "{" + ",\n".join(lines) + "}\n"


def _sweep(path: Path, *, keep: str | None) -> None:
    """Remove the predictions of the record that was replaced, and what killed writers left."""
    for pattern in (f"{path.stem}.predictions-*.safetensors", f".{path.stem}.*.partial"):
        for other in path.parent.glob(pattern):
            if other.name != keep:
                other.unlink(missing_ok=True)


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
    if path.exists():
        if not np.array_equal(_read_gold(folder, dataset), gold):
            raise InputError(
                f"{path}: the existing gold values of {dataset.name} differ", "choose another output folder"
            )
        return
    write_bytes(path, save(pack_gold(gold)))


_GOLD: dict[str, Array] = {}


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
