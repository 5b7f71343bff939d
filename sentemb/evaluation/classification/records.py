"""The record of a cell: one JSON file, and the predictions for every test row beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from sentemb.data.labelled import Labels
from sentemb.evaluation.classification.cell import Cell, Method, Outcome, Point, Splits
from sentemb.evaluation.classification.metrics import Metric
from sentemb.evaluation.environment import hardware, library_versions
from sentemb.evaluation.record_files import (
    Fields,
    open_record,
    read_predictions,
    record_paths,
    write_with_predictions,
)

FORMAT = "sentemb-classification"
FORMAT_VERSION = 2
_HINT = "remove the file and run the study again"


@dataclass(frozen=True, eq=False, kw_only=True)
class CellRecord:
    """A finished cell, with everything that decided its numbers.

    Attributes:
        cell: What was run.
        scores: All metrics of the task on the test rows, as fractions.
        validation_score: The cell's metric on the validation rows.
        label_names: The classes; empty where labels are scores.
        gold: (n,) labels of the test rows.
        predictions: (n,) what was predicted for them.
        probabilities: (n, classes) float32, or None.
        sizes: Rows of `train`, `validation` and `test`.
        class_counts: Training rows of each class; empty where labels are scores.
        left_out: Rows of the training split that could not be drawn, by reason.
        minority: The class that was made rare on purpose, None where none was.
        checksums: SHA-256 of each part's texts and labels.
        settings: All settings that the method was trained with, and the fingerprint of its base.
        seconds: Wall time of each part, `total` among them.
        versions: Versions of Python and the libraries.
        hardware: The machine.
        date: When, ISO 8601 in UTC.
    """

    cell: Cell
    scores: Mapping[str, float]
    validation_score: float
    label_names: tuple[str, ...]
    gold: Labels
    predictions: Labels
    probabilities: npt.NDArray[np.float32] | None
    sizes: Mapping[str, int]
    class_counts: Mapping[str, int]
    left_out: Mapping[str, int]
    minority: str | None
    checksums: Mapping[str, str]
    settings: Mapping[str, Any]
    seconds: Mapping[str, float]
    versions: Mapping[str, str]
    hardware: Mapping[str, Any]
    date: str

    @property
    def score(self) -> float:
        """The cell's metric on the test rows."""
        return self.scores[self.cell.metric]


def record_of(
    cell: Cell,
    splits: Splits,
    outcome: Outcome,
    *,
    settings: Mapping[str, Any],
    scores: Mapping[str, float],
    total_seconds: float,
) -> CellRecord:
    """Make the record of a cell, with this machine and this moment."""
    return CellRecord(
        cell=cell,
        scores=scores,
        validation_score=outcome.validation_score,
        label_names=splits.test.label_names,
        gold=splits.test.labels,
        predictions=outcome.predictions,
        probabilities=outcome.probabilities,
        sizes=splits.sizes,
        class_counts=splits.train.class_counts,
        left_out=splits.left_out,
        minority=None if splits.minority is None else splits.train.label_names[splits.minority],
        checksums=splits.checksums,
        settings=settings,
        seconds={**outcome.seconds, "total": total_seconds},
        versions=library_versions(),
        hardware=hardware(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def write_cell(record: CellRecord, path: Path) -> None:
    """Write a record, the predictions first."""
    tensors: dict[str, npt.NDArray[Any]] = {"gold": record.gold, "predictions": record.predictions}
    if record.probabilities is not None:
        tensors["probabilities"] = record.probabilities
    write_with_predictions(path, _to_json(record), tensors)


def read_cell(path: Path) -> CellRecord:
    """Read a record and its predictions.

    Args:
        path: The JSON file.

    Returns:
        The record.

    Raises:
        InputError: A file is absent or damaged, or a field is missing or wrong; names the file and the field.
    """
    fields = open_record(path, format=FORMAT, version=FORMAT_VERSION, hint=_HINT)
    names = tuple(str(name) for name in fields.get("label_names", list))
    sizes = {name: fields.object("sizes").get(name, int) for name in ("train", "validation", "test")}
    tensors = read_predictions(fields)
    kind = np.int64 if names else np.float64
    for key in ("gold", "predictions"):
        array = tensors.get(key)
        if array is None or array.shape != (sizes["test"],) or array.dtype != kind:
            raise fields.fail("predictions", f"the file holds no {sizes['test']} values {key}")
    cell, scores = _cell_of(fields), fields.numbers("scores")
    if cell.metric not in scores:
        raise fields.fail("scores", f"there is no {cell.metric}")
    seconds = fields.numbers("seconds")
    if "total" not in seconds:
        raise fields.fail("seconds", "there is no total")
    left_out = fields.object("left_out")
    return CellRecord(
        cell=cell,
        scores=scores,
        validation_score=fields.get("validation_score", float),
        label_names=names,
        gold=tensors["gold"],
        predictions=tensors["predictions"],
        probabilities=tensors.get("probabilities"),
        sizes=sizes,
        class_counts={name: fields.object("class_counts").get(name, int) for name in names},
        left_out={reason: left_out.get(reason, int) for reason in left_out.values},
        minority=fields.optional("minority", str),
        checksums=fields.get("checksums", dict),
        settings=fields.get("settings", dict),
        seconds=seconds,
        versions=fields.get("versions", dict),
        hardware=fields.get("hardware", dict),
        date=fields.get("date", str),
    )


def read_cells(folders: Sequence[Path]) -> list[CellRecord]:
    """Read every record of some folders.

    Args:
        folders: The folders.

    Returns:
        The records, by folder and file name.

    Raises:
        InputError: A folder is absent, holds no record, or a `.json` file in it is not a sound record.
    """
    found = []
    for folder in folders:
        paths = record_paths(folder, "*.json", maker="sentemb eval classify --output FOLDER")
        found += [read_cell(path) for path in paths]
    return found


def _cell_of(fields: Fields) -> Cell:
    method = Method(fields.get("method", str), fields.get("recipe", str), fields.get("options", dict))
    point = Point(fields.get("protocol", str), fields.optional("value", float))
    metric = fields.get("metric", str)
    for known in get_args(Metric):
        if metric == known:
            return Cell(method, fields.get("data", str), point, fields.get("seed", int), known)
    raise fields.fail("metric", f"{metric!r} is not one of {', '.join(get_args(Metric))}")


def _to_json(record: CellRecord) -> dict[str, Any]:
    cell = record.cell
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "method": cell.method.name,
        "recipe": cell.method.recipe,
        "options": dict(cell.method.options),
        "data": cell.data,
        "protocol": cell.point.protocol,
        "value": cell.point.value,
        "seed": cell.seed,
        "metric": cell.metric,
        "scores": dict(record.scores),
        "validation_score": record.validation_score,
        "label_names": list(record.label_names),
        "sizes": dict(record.sizes),
        "class_counts": dict(record.class_counts),
        "left_out": dict(record.left_out),
        "minority": record.minority,
        "checksums": dict(record.checksums),
        "settings": dict(record.settings),
        "seconds": dict(record.seconds),
        "versions": dict(record.versions),
        "hardware": dict(record.hardware),
        "date": record.date,
    }
