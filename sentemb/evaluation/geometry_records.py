"""The record of an encoder's geometry: one JSON file per model and set of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sentemb._files import write_json
from sentemb.data.sts import ScoredPairs
from sentemb.encoding import TextEncoder
from sentemb.errors import InputError
from sentemb.evaluation.environment import hardware, library_versions
from sentemb.evaluation.geometry import Geometry, spectrum
from sentemb.evaluation.geometry_intervals import GeometryEstimate, estimate_geometry
from sentemb.evaluation.record_files import Fields, open_record, slug
from sentemb.evaluation.scoring import checksum_of
from sentemb.evaluation.sts import encode_sets

FORMAT = "sentemb-geometry"
FORMAT_VERSION = 1
_HINT = "remove the file and run sentemb eval all again"


@dataclass(frozen=True, eq=False, kw_only=True)
class GeometryRecord:
    """How the vectors of scored pairs lie under one encoder.

    Attributes:
        model: The encoder's name.
        fingerprint: The encoder's fingerprint.
        dimension: Length of its vectors.
        data: The set of pairs.
        split: Its split.
        checksum: SHA-256 of the pairs.
        estimate: The figures and their intervals.
        spectrum: Variance along each principal direction, descending, shape (dim,).
        encoder: How vectors were made.
        versions: Versions of Python and the libraries.
        hardware: The machine.
        date: When, ISO 8601 in UTC.
        command: The command line, None from Python.
    """

    model: str
    fingerprint: str
    dimension: int
    data: str
    split: str
    checksum: str
    estimate: GeometryEstimate
    spectrum: tuple[float, ...]
    encoder: Mapping[str, Any]
    versions: Mapping[str, str]
    hardware: Mapping[str, Any]
    date: str
    command: tuple[str, ...] | None


def judge_geometry(
    encoder: TextEncoder,
    pairs: ScoredPairs,
    *,
    confidence: float = 0.95,
    command: Sequence[str] | None = None,
) -> GeometryRecord:
    """Measure how the sentences of scored pairs lie, with intervals."""
    encoded = encode_sets(encoder, [pairs])
    return GeometryRecord(
        model=encoder.name,
        fingerprint=encoder.fingerprint,
        dimension=encoder.dimension,
        data=pairs.name,
        split=pairs.split,
        checksum=checksum_of(pairs),
        estimate=estimate_geometry(encoded, confidence=confidence),
        spectrum=tuple(spectrum(encoded.vectors).tolist()),
        encoder=encoder.describe(),
        versions=library_versions(),
        hardware=hardware(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        command=None if command is None else tuple(command),
    )


def geometry_path(folder: Path, model: str, *, data: str, split: str) -> Path:
    """Where a record goes."""
    return folder / f"{slug(model)}.geometry.{slug(data)}-{slug(split)}.json"


def write_geometry(record: GeometryRecord, folder: Path) -> Path:
    """Write a record, or replace that of the same model."""
    path = geometry_path(folder, record.model, data=record.data, split=record.split)
    if path.exists() and read_geometry(path).fingerprint != record.fingerprint:
        raise InputError(
            f"{path} is the record of another model called {record.model}", "take another --output folder"
        )
    values = vars(record) | vars(record.estimate)
    del values["estimate"]
    for name in ("geometry", "low", "high"):
        values[name] = values[name]._asdict()
    write_json(path, {"format": FORMAT, "format_version": FORMAT_VERSION, **values})
    return path


def read_geometry(path: Path) -> GeometryRecord:
    """Read a record."""
    fields = open_record(path, format=FORMAT, version=FORMAT_VERSION, hint=_HINT)
    command = fields.optional("command", list)
    return GeometryRecord(
        model=fields.get("model", str),
        fingerprint=fields.get("fingerprint", str),
        dimension=fields.get("dimension", int),
        data=fields.get("data", str),
        split=fields.get("split", str),
        checksum=fields.get("checksum", str),
        estimate=GeometryEstimate(
            geometry=_figures(fields.object("geometry")),
            low=_figures(fields.object("low")),
            high=_figures(fields.object("high")),
            confidence=fields.get("confidence", float),
            positives=fields.get("positives", int),
            sentences=fields.get("sentences", int),
            independent=fields.get("independent", int),
        ),
        spectrum=tuple(fields.get("spectrum", list)),
        encoder=fields.get("encoder", dict),
        versions=fields.get("versions", dict),
        hardware=fields.get("hardware", dict),
        date=fields.get("date", str),
        command=None if command is None else tuple(str(word) for word in command),
    )


def read_geometries(folder: Path) -> list[GeometryRecord]:
    """Read every geometry record of a folder, which may hold other records too."""
    paths = sorted(path for path in folder.glob("*.geometry.*.json") if not path.name.startswith("."))
    return [read_geometry(path) for path in paths]


def _figures(fields: Fields) -> Geometry:
    return Geometry(**{name: fields.get(name, float) for name in Geometry._fields})
