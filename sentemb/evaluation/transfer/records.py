"""The record of a transfer report: one JSON file per model, preset and seed, the predictions beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sentemb.errors import InputError
from sentemb.evaluation.environment import hardware, library_versions
from sentemb.evaluation.naming import seed_of, without_seed
from sentemb.evaluation.record_files import (
    Fields,
    open_record,
    prepare_folder,
    read_predictions,
    record_paths,
    slug,
    write_with_predictions,
)
from sentemb.evaluation.transfer.tasks import TRANSFER_TASKS

FORMAT = "sentemb-transfer"
FORMAT_VERSION = 1
_HINT = "remove the file and run eval/senteval.py again"


@dataclass(frozen=True, eq=False)
class RelatednessResult:
    """A trained regression on the test split.

    Attributes:
        task: The task's name.
        pearson: x 100.
        spearman: x 100.
        mse: Mean squared error, in squared grades.
        dev_pearson: x 100, the best on the dev split, whose weights were kept.
        gold: `(n,)` scores of the test rows.
        predictions: `(n,)` what was predicted for them, from 1 to 5.
        seconds: Wall time of the regression.
    """

    task: str
    pearson: float
    spearman: float
    mse: float
    dev_pearson: float
    gold: npt.NDArray[np.float64]
    predictions: npt.NDArray[np.float64]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The figures as a record keeps them.

        Returns:
            All but gold and predictions.
        """
        return {name: value for name, value in vars(self).items() if name not in ("gold", "predictions")}


@dataclass(frozen=True, eq=False)
class TaskResult:
    """One task.

    Attributes:
        task: Its name.
        accuracy: x 100, as SentEval reports it.
        dev_accuracy: x 100, of the chosen penalty in validation.
        f1: x 100, of pairs of two classes; None of others.
        penalties: The chosen penalty of each final classifier.
        gold: `(n,)` classes of the test rows, or of all rows where the task has no test split.
        predictions: `(n,)` what was predicted for them.
        seconds: Wall time of the classifiers.
    """

    task: str
    accuracy: float
    dev_accuracy: float
    f1: float | None
    penalties: tuple[float, ...]
    gold: npt.NDArray[np.int64]
    predictions: npt.NDArray[np.int64]
    seconds: float


@dataclass(frozen=True, eq=False)
class TransferReport:
    """An encoder on transfer tasks, with one preset and one seed.

    Attributes:
        model: The encoder's name.
        fingerprint: The encoder's fingerprint.
        dimension: Length of its vectors.
        encoder: How vectors were made.
        preset: Name of the classifiers' preset.
        seed: Of the classifiers.
        results: One for each task.
        unique: Sentences encoded.
        seconds: Wall time of `encode` and of `classify`.
        relatedness: The tasks of a trained regression.
    """

    model: str
    fingerprint: str
    dimension: int
    encoder: Mapping[str, Any]
    preset: str
    seed: int
    results: tuple[TaskResult, ...]
    unique: int
    seconds: Mapping[str, float]
    relatedness: tuple[RelatednessResult, ...] = ()

    @property
    def method(self) -> str:
        """What encoders have in common that were trained with other seeds: the name without `-seed-N`."""
        return without_seed(self.model)

    @property
    def encoder_seed(self) -> int | None:
        """The N of a name that ends in `-seed-N`, as the folders of a run over several seeds do."""
        return seed_of(self.model)

    @property
    def average(self) -> float | None:
        """The papers' "Avg.": the mean over the seven tasks; None where one of them is missing."""
        accuracies = {result.task: result.accuracy for result in self.results}
        if not all(task in accuracies for task in TRANSFER_TASKS):
            return None
        return float(np.mean([accuracies[task] for task in TRANSFER_TASKS]))


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
