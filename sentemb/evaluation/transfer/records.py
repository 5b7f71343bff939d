"""The record of a transfer report: one JSON file per model, preset and seed, the predictions beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sentemb.errors import InputError
from sentemb.evaluation.environment import hardware, library_versions
from sentemb.evaluation.record_files import (
    Fields,
    open_record,
    prepare_folder,
    read_predictions,
    record_paths,
    slug,
    write_with_predictions,
)
from sentemb.evaluation.transfer.relatedness import RelatednessResult
from sentemb.evaluation.transfer.suite import TaskResult, TransferReport

FORMAT = "sentemb-transfer"
FORMAT_VERSION = 1
_HINT = "remove the file and run eval/senteval.py again"


def transfer_path(folder: Path, model: str, *, preset: str, seed: int) -> Path:
    """Where a record goes."""
    return folder / f"{slug(model)}.transfer.{preset}.seed-{seed}.json"


def write_transfer(report: TransferReport, folder: Path, *, command: Sequence[str] | None = None) -> Path:
    """Write a report, the predictions first; tasks of an earlier record of the same model stay."""
    prepare_folder(folder)
    path = transfer_path(folder, report.model, preset=report.preset, seed=report.seed)
    results = {result.task: result for result in report.results}
    related = {result.task: result for result in report.relatedness}
    if path.exists():
        earlier = read_transfer(path)
        if earlier.fingerprint != report.fingerprint:
            raise InputError(
                f"{path} is the record of another model called {report.model}", "take another --output folder"
            )
        results = {result.task: result for result in earlier.results} | results
        related = {result.task: result for result in earlier.relatedness} | related
    tensors = {
        f"{kind}.{task}": getattr(result, kind)
        for task, result in (*results.items(), *related.items())
        for kind in ("gold", "predictions")
    }
    values = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "model": report.model,
        "fingerprint": report.fingerprint,
        "dimension": report.dimension,
        "preset": report.preset,
        "seed": report.seed,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "tasks": [_task_to_json(result) for result in results.values()],
        "relatedness": [result.to_json() for result in related.values()],
        "unique": report.unique,
        "seconds": dict(report.seconds),
        "encoder": dict(report.encoder),
        "versions": library_versions(),
        "hardware": hardware(),
        "command": None if command is None else list(command),
    }
    write_with_predictions(path, values, tensors)
    return path


def read_transfer(path: Path) -> TransferReport:
    """Read a record and its predictions."""
    fields = open_record(path, format=FORMAT, version=FORMAT_VERSION, hint=_HINT)
    tensors = read_predictions(fields)
    return TransferReport(
        model=fields.get("model", str),
        fingerprint=fields.get("fingerprint", str),
        dimension=fields.get("dimension", int),
        encoder=fields.get("encoder", dict),
        preset=fields.get("preset", str),
        seed=fields.get("seed", int),
        results=tuple(_task_of(one, tensors) for one in _objects(fields, "tasks")),
        relatedness=tuple(_related_of(one, tensors) for one in _objects(fields, "relatedness")),
        unique=fields.get("unique", int),
        seconds=fields.numbers("seconds"),
    )


def read_transfers(folder: Path) -> list[TransferReport]:
    """Read every transfer record of a folder, which may hold other records too."""
    paths = record_paths(
        folder,
        "*.transfer.*.json",
        what="transfer record",
        maker="python eval/senteval.py MODEL --output FOLDER",
    )
    return [read_transfer(path) for path in paths]


def _task_to_json(result: TaskResult) -> dict[str, Any]:
    return {
        "task": result.task,
        "accuracy": result.accuracy,
        "dev_accuracy": result.dev_accuracy,
        "f1": result.f1,
        "penalties": list(result.penalties),
        "seconds": result.seconds,
    }


def _objects(fields: Fields, name: str) -> list[Fields]:
    """A list that may be empty, or absent as `relatedness` is in the first records."""
    return fields.objects(name) if fields.values.get(name) else []


def _answers(fields: Fields, task: str, tensors: Mapping[str, Any]) -> tuple[Any, Any]:
    gold, predictions = (tensors.get(f"{kind}.{task}") for kind in ("gold", "predictions"))
    if gold is None or predictions is None or gold.shape != predictions.shape:
        raise fields.fail("task", f"the file of predictions has no answers to {task}")
    return gold, predictions


def _related_of(fields: Fields, tensors: Mapping[str, Any]) -> RelatednessResult:
    task = fields.get("task", str)
    gold, predictions = _answers(fields, task, tensors)
    return RelatednessResult(
        task=task,
        pearson=fields.get("pearson", float),
        spearman=fields.get("spearman", float),
        mse=fields.get("mse", float),
        dev_pearson=fields.get("dev_pearson", float),
        gold=gold,
        predictions=predictions,
        seconds=fields.get("seconds", float),
    )


def _task_of(fields: Fields, tensors: Mapping[str, Any]) -> TaskResult:
    task = fields.get("task", str)
    gold, predictions = _answers(fields, task, tensors)
    return TaskResult(
        task=task,
        accuracy=fields.get("accuracy", float),
        dev_accuracy=fields.get("dev_accuracy", float),
        f1=fields.optional("f1", float),
        penalties=tuple(fields.get("penalties", list)),
        gold=gold,
        predictions=predictions,
        seconds=fields.get("seconds", float),
    )
