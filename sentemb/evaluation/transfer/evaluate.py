"""Transfer tasks with any encoder: unique sentences encoded once, a task's classifiers trained together."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sentemb.data.labelled import LabelledTexts
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.evaluation.environment import environment
from sentemb.evaluation.schema import DataSet, Record, Score
from sentemb.evaluation.transfer.presets import NeuralPreset, Preset, get_preset
from sentemb.evaluation.transfer.protocols import (
    Examples,
    Outcome,
    folds_then_test,
    nested_folds,
    regression,
    splits,
)
from sentemb.evaluation.transfer.scores import task_scores
from sentemb.evaluation.transfer.tasks import (
    TASKS,
    TRANSFER_TASKS,
    TransferTask,
    check_folds,
    check_tasks,
    load_tasks,
    task_of,
)

Announce = Callable[[str], None]
Parts = Mapping[str, LabelledTexts]


@dataclass(frozen=True, eq=False)
class _TaskResult:
    """A task: the rows that predictions are of, what SentEval reports, and the classifiers' wall time."""

    task: str
    data: LabelledTexts
    scores: Mapping[str, float]
    outcome: Outcome
    seconds: float


def evaluate_transfer(
    encoder: TextEncoder | str | Path | Any,
    tasks: Sequence[str] = TRANSFER_TASKS,
    *,
    preset: str = "simcse",
    seeds: Sequence[int] = (1111,),
    data_dir: str | Path | None = None,
    check_rows: bool = True,
    progress: bool = False,
    announce: Announce | None = None,
) -> list[Record]:
    """Evaluate an encoder by classifiers that are trained on its frozen vectors (Conneau and Kiela, 2018).

    Args:
        encoder: Anything that `load_encoder` takes.
        tasks: Names of `TASKS`, or files of your own as `load_tasks` takes them. The regressions of
            `RELATEDNESS_TASKS` are the same under all presets.
        preset: Name of a preset: `sg-bert`, `simcse`, `simcse-fast` or `logreg`.
        seeds: Seeds of the classifiers, a record each; SentEval's example has 1111.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        check_rows: Refuse a split whose number of rows is not the published one.
        progress: Show a progress bar of the encoding.
        announce: Takes a line on each finished task.

    Returns:
        A record for each seed, with accuracies x 100; `load_predictions` gives what was predicted.

    Raises:
        InputError: The encoder, a task, the preset or the data cannot be used.

    Example:
        >>> (record,) = evaluate_transfer("sg-bert-mini", ["cr", "trec"], data_dir="data")  # doctest: +SKIP
        >>> record.score("trec")  # doctest: +SKIP
    """
    get_preset(preset)  # before time is spent on reading
    check_tasks(tasks)
    loaded = load_encoder(encoder)
    sets = load_tasks(tasks, data_dir=data_dir, check_rows=check_rows)
    check_folds(sets, get_preset(preset))
    return evaluate_tasks(loaded, sets, preset=preset, seeds=seeds, progress=progress, announce=announce)


def evaluate_tasks(
    encoder: TextEncoder,
    tasks: Mapping[str, Parts],
    *,
    preset: str,
    seeds: Sequence[int],
    progress: bool = False,
    announce: Announce | None = None,
) -> list[Record]:
    """Evaluate an encoder on tasks that are already read."""
    began = time.perf_counter()
    texts = list(dict.fromkeys(text for parts in tasks.values() for text in texts_of(parts)))
    rows = {text: row for row, text in enumerate(texts)}
    vectors = _Vectors(encoder.encode(texts, progress=progress), rows)
    encoded = time.perf_counter() - began
    records = []
    for seed in seeds:
        results = []
        for task, parts in tasks.items():
            one = _evaluate(task, parts, vectors, preset, seed)
            results.append(one)
            if announce is not None:
                scores = ", ".join(f"{name} {value:.2f}" for name, value in one.scores.items())
                announce(f"{encoder.name} {task} seed {seed}: {scores}, {one.seconds:.1f} s")
        records.append(_record(encoder, preset, seed, results, unique=len(texts), encoded=encoded))
    return records


def texts_of(parts: Parts) -> Iterator[str]:
    """All texts of a task, repeats included."""
    for part in parts.values():
        yield from part.texts
        yield from part.pairs or ()


def checksum_of_task(task: str, parts: Parts) -> str:
    """Checksum of what is predicted; the order of a task's rows is part of it."""
    return _checksum(task, parts[task_of(task).tested])


def _checksum(task: str, data: LabelledTexts) -> str:
    if task not in TASKS:
        return str(data.describe()["sha256"])  # the texts of one's own file may change under their labels
    return hashlib.sha256(np.ascontiguousarray(data.labels).tobytes()).hexdigest()


@dataclass(frozen=True, eq=False)
class _Vectors:
    """The vector of each unique sentence."""

    vectors: npt.NDArray[np.float32]
    rows: Mapping[str, int]

    def examples(self, data: LabelledTexts) -> Examples:
        """Features `(n, d)`; of a pair the difference and the product of its vectors, `(n, 2 d)`."""
        first = self._of(data.texts)
        if data.pairs is None:
            return Examples(first, data.labels)
        second = self._of(data.pairs)
        return Examples(torch.cat([(first - second).abs(), first * second], dim=1), data.labels)

    def _of(self, texts: Sequence[str]) -> torch.Tensor:
        return torch.from_numpy(self.vectors[[self.rows[text] for text in texts]])


def _evaluate(task: str, parts: Parts, vectors: _Vectors, preset: str, seed: int) -> _TaskResult:
    kind = task_of(task)
    examples = [vectors.examples(parts[split]) for split in kind.splits]
    began = time.perf_counter()
    outcome = _train(kind, examples, get_preset(preset), seed)
    seconds = time.perf_counter() - began
    data = parts[kind.tested]
    scores = task_scores(kind, data.labels, outcome.predictions, folds=get_preset(preset).folds)
    return _TaskResult(task, data, scores, outcome, seconds)


def _train(task: TransferTask, examples: Sequence[Examples], preset: Preset, seed: int) -> Outcome:
    if task.validation == "regression":
        return regression(*examples, seed=seed)
    if task.linear and isinstance(preset, NeuralPreset):
        preset = replace(preset, hidden=0)
    if task.validation == "nested":
        return nested_folds(*examples, preset=preset, seed=seed)
    if task.validation == "folds":
        return folds_then_test(*examples, preset=preset, seed=seed)
    return splits(*examples, preset=preset, seed=seed)


def _record(
    encoder: TextEncoder,
    preset: str,
    seed: int,
    results: Sequence[_TaskResult],
    *,
    unique: int,
    encoded: float,
) -> Record:
    """What was measured, with this machine and this moment."""
    scores = [
        Score(dataset=one.task, metric=metric, value=value)
        for one in results
        for metric, value in one.scores.items()
    ]
    scores += [
        Score(dataset=one.task, metric=next(iter(one.scores)), protocol="dev", value=one.outcome.dev_score)
        for one in results
    ]
    record = Record(
        suite="transfer",
        model=encoder.name,
        fingerprint=encoder.fingerprint,
        dimension=encoder.dimension,
        protocol=preset,
        seed=seed,
        datasets=tuple(
            DataSet(
                name=one.task,
                split=one.data.split,
                items=len(one.data),
                sha256=_checksum(one.task, one.data),
                classes=one.data.label_names,
            )
            for one in results
        ),
        scores=tuple(scores),
        encoder=encoder.describe(),
        environment=environment({"encode": encoded, **{one.task: one.seconds for one in results}}),
        details={
            "unique": unique,
            "penalties": {one.task: list(one.outcome.penalties) for one in results if one.outcome.penalties},
        },
    )
    return record.with_predictions(
        {one.task: one.outcome.predictions for one in results}, {one.task: one.data.labels for one in results}
    )
