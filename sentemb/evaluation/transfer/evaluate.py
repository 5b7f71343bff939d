"""Transfer tasks with any encoder: each unique sentence is encoded once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sentemb.data.labelled import LabelledTexts
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.evaluation.environment import new_record
from sentemb.evaluation.record import join_records
from sentemb.evaluation.schema import DataSet, Record, Score, checksum_of_parts
from sentemb.evaluation.suites import Loaded, LoadedSuite, Options, Suite, read_available
from sentemb.evaluation.transfer.protocols import (
    Examples,
    Outcome,
    folds_then_test,
    nested_folds,
    regression,
    splits,
)
from sentemb.evaluation.transfer.tasks import (
    TASKS,
    TRANSFER_TASKS,
    NeuralPreset,
    Parts,
    Preset,
    TransferTask,
    check_folds,
    check_tasks,
    get_preset,
    load_tasks,
    task_of,
    task_scores,
)


def evaluate_transfer(
    encoder: TextEncoder | str | Path | Any,
    tasks: Sequence[str] = TRANSFER_TASKS,
    *,
    preset: str = "simcse",
    seeds: Sequence[int] = (1111,),
    data_dir: str | Path | None = None,
    check_rows: bool = True,
    progress: bool = False,
    announce: Callable[[str], None] | None = None,
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
        announce: Called with a line on each finished task.

    Returns:
        A record for each seed, with accuracies x 100; `load_predictions` returns what was predicted.

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
    announce: Callable[[str], None] | None = None,
) -> list[Record]:
    """Evaluate an encoder on tasks that are already read."""
    began = time.perf_counter()
    texts = list(dict.fromkeys(text for parts in tasks.values() for text in texts_of(parts)))
    rows = {text: row for row, text in enumerate(texts)}
    vectors = encoder.encode(texts, progress=progress)
    encoded = time.perf_counter() - began
    records = []
    for seed in seeds:
        whole: Record | None = None
        for name, parts in tasks.items():
            task = task_of(name)
            examples = [examples_of(parts[split], vectors, rows) for split in task.splits]
            began = time.perf_counter()
            outcome = _train(task, examples, get_preset(preset), seed)
            seconds = {name: time.perf_counter() - began}
            if whole is None:
                seconds = {"encode": encoded, **seconds}
            data = parts[task.tested]
            scores = task_scores(task, data.labels, outcome.predictions, folds=get_preset(preset).folds)
            items = DataSet(
                name=name,
                split=data.split,
                items=len(data),
                sha256=checksum_of_task(name, parts),
                classes=data.label_names,
            )
            record = new_record(
                "transfer",
                encoder,
                seconds,
                protocol=preset,
                seed=seed,
                datasets=(items,),
                scores=(
                    *(Score(dataset=name, metric=metric, value=value) for metric, value in scores.items()),
                    Score(dataset=name, metric=next(iter(scores)), protocol="dev", value=outcome.dev_score),
                ),
                details={
                    "unique": len(texts),
                    "penalties": {name: list(outcome.penalties)} if outcome.penalties else {},
                },
            ).with_predictions({name: outcome.predictions}, {name: data.labels})
            whole = join_records(whole, record)
            if announce is not None:
                shown = ", ".join(f"{metric} {value:.2f}" for metric, value in scores.items())
                announce(f"{encoder.name} {name} seed {seed}: {shown}, {seconds[name]:.1f} s")
        if whole is not None:
            records.append(whole)
    return records


def examples_of(data: LabelledTexts, vectors: npt.NDArray[np.float32], rows: Mapping[str, int]) -> Examples:
    """Return features `(n, d)`; of a pair the difference and the product of its vectors, `(n, 2 d)`."""

    def select(texts: Sequence[str]) -> torch.Tensor:
        return torch.from_numpy(vectors[[rows[text] for text in texts]])

    first = select(data.texts)
    if data.pairs is None:
        return Examples(first, data.labels)
    second = select(data.pairs)
    return Examples(torch.cat([(first - second).abs(), first * second], dim=1), data.labels)


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


def texts_of(parts: Parts) -> Iterator[str]:
    """Yield all texts of a task, repeats included."""
    for part in parts.values():
        yield from part.texts
        yield from part.pairs or ()


def checksum_of_task(task: str, parts: Parts) -> str:
    """Return a checksum of what is predicted; the order of a task's rows is part of it."""
    data = parts[task_of(task).tested]
    if task not in TASKS:
        return str(data.describe()["sha256"])  # the texts of your own file may change under their labels
    return checksum_of_parts([np.ascontiguousarray(data.labels).tobytes()])


def load(suite: Suite, options: Options) -> Loaded:
    """Read the available tasks; each seed of the classifiers has a record of its own."""
    preset = get_preset(options.preset)
    names = suite.sets if options.tasks is None else options.tasks
    check_tasks(names)
    found, missing = read_available(
        names, lambda name: load_tasks([name], data_dir=options.data_dir, check_rows=options.check_rows)
    )
    tasks = {title: parts for loaded in found.values() for title, parts in loaded.items()}
    check_folds(tasks, preset)
    several = len(options.seeds) > 1
    suites = [transfer_suite(tasks, options.preset, seed, several=several) for seed in options.seeds]
    return Loaded(tuple(suites) if tasks else (), missing)


def transfer_suite(
    tasks: Mapping[str, Parts], preset: str, seed: int, *, several: bool = False
) -> LoadedSuite:
    """Return the suite of some tasks with classifiers of one seed, evaluated one task after the other."""

    def evaluate(encoder: TextEncoder, names: Sequence[str]) -> Iterator[tuple[Record, str]]:
        for name in names:
            (record,) = evaluate_tasks(encoder, {name: tasks[name]}, preset=preset, seeds=[seed])
            score = record.scores[0]
            yield record, f"{name} {score.metric} {score.value:.2f}, {record.environment.seconds[name]:.0f} s"

    return LoadedSuite(
        name="transfer",
        label=f"transfer seed {seed}" if several else "",
        protocol=preset,
        checksums={name: checksum_of_task(name, parts) for name, parts in tasks.items()},
        texts={name: [*texts_of(parts)] for name, parts in tasks.items()},
        evaluate=evaluate,
        seed=lambda model: seed,
    )
