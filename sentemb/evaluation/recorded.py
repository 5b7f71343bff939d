"""Records of any kind, from wherever they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentemb._files import read_json
from sentemb.errors import InputError
from sentemb.evaluation import geometry_records, record_format
from sentemb.evaluation.geometry_records import GeometryRecord, read_geometry
from sentemb.evaluation.records import read_record
from sentemb.evaluation.result import ResultRecord
from sentemb.evaluation.transfer import records as transfer_records
from sentemb.evaluation.transfer.records import TransferReport, read_transfer

_READERS: Mapping[str, Callable[[Path], Any]] = {
    record_format.FORMAT: read_record,
    geometry_records.FORMAT: read_geometry,
    transfer_records.FORMAT: read_transfer,
}


@dataclass(frozen=True)
class Recorded:
    """Records by kind.

    Attributes:
        scored: Of STS and of other languages.
        geometries: Of geometry.
        transfers: Of transfer tasks.
    """

    scored: tuple[ResultRecord, ...]
    geometries: tuple[GeometryRecord, ...]
    transfers: tuple[TransferReport, ...]


def read_recorded(paths: Sequence[Path], *, fingerprint: str | None = None) -> Recorded:
    """Read records."""
    found = [
        _READERS[values["format"]](path)
        for given in paths
        for path, values in _open(given)
        if fingerprint is None or values.get("fingerprint") == fingerprint
    ]
    if not found:
        whose = "" if fingerprint is None else f" of the model with the fingerprint {fingerprint[:12]}"
        raise InputError(
            f"{', '.join(map(str, paths))}: there is no record{whose}",
            "sentemb eval all MODEL --output FOLDER writes some",
        )
    return Recorded(
        tuple(one for one in found if isinstance(one, ResultRecord)),
        tuple(one for one in found if isinstance(one, GeometryRecord)),
        tuple(one for one in found if isinstance(one, TransferReport)),
    )


def _open(given: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    if given.is_dir():
        for path in sorted(given.glob("*.json")):
            if not path.name.startswith(".") and _is_record(values := read_json(path)):
                yield path, values
        return
    values = read_json(given)
    if not _is_record(values):
        raise InputError(f"{given} is no result record", f"a record has a format: {', '.join(_READERS)}")
    yield given, values


def _is_record(values: Any) -> bool:
    return isinstance(values, dict) and values.get("format") in _READERS
