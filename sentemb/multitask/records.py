"""The record of a row: one run's scores on the dev sets, and its answers to every row of them beside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentemb.data.labelled import Labels
from sentemb.evaluation.record_files import (
    Fields,
    open_record,
    read_predictions,
    record_paths,
    write_with_predictions,
)
from sentemb.multitask.evaluation import METRICS, OVERALL
from sentemb.multitask.model import Floats
from sentemb.multitask.tasks import TASKS, Task

FORMAT = "sentemb-multitask"
FORMAT_VERSION = 1
_HINT = "remove the file and run the study again"


@dataclass(frozen=True, eq=False, kw_only=True)
class RowRecord:
    """A finished run of a row, with everything that decided its numbers.

    Attributes:
        row: A name of `ROWS`; of rows with the same settings the first.
        seed: The run's seed.
        scores: `METRICS` and `overall` of the kept model, as fractions.
        best: The best of each over the judged epochs, whose models an ensemble would ask.
        predictions: `(n,)` what the kept model answers, by task.
        gold: `(n,)` the labels, by task.
        settings: All settings of the run but seed and output, and `start_fingerprint`.
        sizes: Rows of each set, by `train` and `dev`.
        checksums: SHA-256 of each set and of the NLI triples.
        steps: Optimizer steps of the run.
        kept_step: The step whose weights were kept.
        seconds: Wall time of the run.
        versions: Versions of Python and the libraries.
        hardware: The machine.
        date: When, ISO 8601 in UTC.
    """

    row: str
    seed: int
    scores: Mapping[str, float]
    best: Mapping[str, float]
    predictions: Mapping[Task, Floats]
    gold: Mapping[Task, Labels]
    settings: Mapping[str, Any]
    sizes: Mapping[str, Mapping[str, int]]
    checksums: Mapping[str, str]
    steps: int
    kept_step: int
    seconds: float
    versions: Mapping[str, str]
    hardware: Mapping[str, Any]
    date: str


def write_row(record: RowRecord, path: Path) -> None:
    """Write a record, the predictions first."""
    tensors = {
        f"{kind}.{task}": values[task]
        for kind, values in (("gold", record.gold), ("predictions", record.predictions))
        for task in TASKS
    }
    plain = {name: value for name, value in vars(record).items() if name not in ("predictions", "gold")}
    write_with_predictions(path, {"format": FORMAT, "format_version": FORMAT_VERSION, **plain}, tensors)


def read_row(path: Path) -> RowRecord:
    """Read a record and its predictions."""
    fields = open_record(path, format=FORMAT, version=FORMAT_VERSION, hint=_HINT)
    scores, best = fields.numbers("scores"), fields.numbers("best")
    wanted = {*METRICS.values(), OVERALL}
    for name, found in (("scores", scores), ("best", best)):
        if missing := wanted - found.keys():
            raise fields.fail(name, f"there is no {min(missing)}")
    sizes = {split: _whole_numbers(fields.object("sizes").object(split)) for split in ("train", "dev")}
    tensors = read_predictions(fields)
    return RowRecord(
        row=fields.get("row", str),
        seed=fields.get("seed", int),
        scores=scores,
        best=best,
        predictions={task: _answers(fields, tensors, f"predictions.{task}", sizes, task) for task in TASKS},
        gold={task: _answers(fields, tensors, f"gold.{task}", sizes, task) for task in TASKS},
        settings=fields.get("settings", dict),
        sizes=sizes,
        checksums=fields.get("checksums", dict),
        steps=fields.get("steps", int),
        kept_step=fields.get("kept_step", int),
        seconds=fields.get("seconds", float),
        versions=fields.get("versions", dict),
        hardware=fields.get("hardware", dict),
        date=fields.get("date", str),
    )


def read_rows(folder: Path) -> list[RowRecord]:
    """Read every record of a folder."""
    paths = record_paths(folder, "*.json", maker="python eval/multitask.py --output FOLDER")
    return [read_row(path) for path in paths]


def _answers(
    fields: Fields,
    tensors: Mapping[str, Any],
    name: str,
    sizes: Mapping[str, Mapping[str, int]],
    task: Task,
) -> Any:
    array, rows = tensors.get(name), sizes["dev"].get(task)
    if array is None or array.shape != (rows,):
        raise fields.fail("predictions", f"the file holds no {rows} values {name}")
    return array


def _whole_numbers(fields: Fields) -> dict[str, int]:
    return {name: fields.get(name, int) for name in fields.values}
