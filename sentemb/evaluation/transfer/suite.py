"""Transfer tasks with any encoder: every sentence encoded once, a task's classifiers trained together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.metrics import f1_score

from sentemb.data.labelled import LabelledTexts
from sentemb.data.sts import ScoredPairs
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.evaluation.naming import seed_of, without_seed
from sentemb.evaluation.transfer.presets import NeuralPreset, Preset, preset_of
from sentemb.evaluation.transfer.protocols import Examples, Outcome, folds_then_test, nested_folds, splits
from sentemb.evaluation.transfer.relatedness import Related, RelatednessResult, regress
from sentemb.evaluation.transfer.tasks import (
    RELATEDNESS_TASKS,
    TASKS,
    TRANSFER_TASKS,
    check_names,
    load_relatedness,
    load_tasks,
)

Say = Callable[[str], None]


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


def evaluate_transfer(
    encoder: TextEncoder | str | Path | Any,
    tasks: Sequence[str] = TRANSFER_TASKS,
    *,
    preset: str = "simcse",
    seeds: Sequence[int] = (1111,),
    data_dir: str | Path | None = None,
    check_rows: bool = True,
    progress: bool = False,
    say: Say | None = None,
) -> list[TransferReport]:
    """Judge an encoder by classifiers that are trained on its frozen vectors (Conneau and Kiela, 2018).

    Args:
        encoder: Anything that `load_encoder` takes.
        tasks: Names of `TASKS`, and of `RELATEDNESS_TASKS`, whose regression is the same under all presets.
        preset: Name of a preset: `sg-bert`, `simcse`, `simcse-fast` or `logreg`.
        seeds: Seeds of the classifiers, a report each; SentEval's example has 1111.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        check_rows: Refuse a split whose number of rows is not the published one.
        progress: Show a progress bar of the encoding.
        say: Takes a line on each task that ended.

    Returns:
        A report for each seed.

    Raises:
        InputError: The encoder, a task, the preset or the data cannot be used.

    Example:
        >>> (report,) = evaluate_transfer("sg-bert-mini", ["cr", "trec"], data_dir="data")  # doctest: +SKIP
        >>> {result.task: result.accuracy for result in report.results}  # doctest: +SKIP
    """
    preset_of(preset)  # before time is spent on reading
    check_names(tasks, (*TASKS, *RELATEDNESS_TASKS))
    classified = [name for name in tasks if name in TASKS]
    related = [name for name in tasks if name in RELATEDNESS_TASKS]
    return judge_tasks(
        load_encoder(encoder),
        load_tasks(classified, data_dir=data_dir, check_rows=check_rows) if classified else {},
        load_relatedness(related, data_dir=data_dir, check_rows=check_rows) if related else {},
        preset=preset,
        seeds=seeds,
        progress=progress,
        say=say,
    )


def judge_tasks(
    encoder: TextEncoder,
    sets: Mapping[str, Mapping[str, LabelledTexts]],
    relatedness: Mapping[str, Mapping[str, ScoredPairs]] = MappingProxyType({}),
    *,
    preset: str,
    seeds: Sequence[int],
    progress: bool = False,
    say: Say | None = None,
) -> list[TransferReport]:
    """Judge an encoder on tasks that are already read."""
    chosen = preset_of(preset)
    began = time.perf_counter()
    vectors = _encode(encoder, _texts(sets, relatedness), progress=progress)
    encoded = time.perf_counter() - began
    reports = []
    for seed in seeds:
        results = []
        for task, parts in sets.items():
            results.append(_judge(task, parts, vectors, chosen, seed))
            if say is not None:
                last = results[-1]
                say(f"{encoder.name} {task} seed {seed}: {last.accuracy:.2f}, {last.seconds:.1f} s")
        related = []
        for task, pairs in relatedness.items():
            related.append(_relate(task, pairs, vectors, seed))
            if say is not None:
                scores = f"Pearson {related[-1].pearson:.2f}, Spearman {related[-1].spearman:.2f}"
                say(f"{encoder.name} {task} seed {seed}: {scores}, {related[-1].seconds:.1f} s")
        classify = sum(one.seconds for one in results) + sum(one.seconds for one in related)
        seconds = {"encode": encoded, "classify": classify}
        reports.append(
            TransferReport(
                model=encoder.name,
                fingerprint=encoder.fingerprint,
                dimension=encoder.dimension,
                encoder=encoder.describe(),
                preset=preset,
                seed=seed,
                results=tuple(results),
                unique=len(vectors.places),
                seconds=seconds,
                relatedness=tuple(related),
            )
        )
    return reports


@dataclass(frozen=True, eq=False)
class _Vectors:
    """The vector of each different sentence."""

    vectors: npt.NDArray[np.float32]
    places: Mapping[str, int]

    def of(self, texts: Sequence[str]) -> torch.Tensor:
        return torch.from_numpy(self.vectors[[self.places[text] for text in texts]])


def _texts(
    sets: Mapping[str, Mapping[str, LabelledTexts]], relatedness: Mapping[str, Mapping[str, ScoredPairs]]
) -> Iterator[str]:
    for part in (part for parts in sets.values() for part in parts.values()):
        yield from part.texts
        yield from part.pairs or ()
    for pairs in (pairs for parts in relatedness.values() for pairs in parts.values()):
        yield from pairs.first
        yield from pairs.second


def _encode(encoder: TextEncoder, texts: Iterable[str], *, progress: bool) -> _Vectors:
    unique = list(dict.fromkeys(texts))
    places = {text: place for place, text in enumerate(unique)}
    return _Vectors(encoder.encode(unique, progress=progress), places)


def _relate(task: str, parts: Mapping[str, ScoredPairs], vectors: _Vectors, seed: int) -> RelatednessResult:
    train, dev, test = (
        Related(_pair_features(parts[split].first, parts[split].second, vectors), parts[split].gold)
        for split in ("train", "dev", "test")
    )
    began = time.perf_counter()
    measured = regress(train, dev, test, seed=seed)
    return RelatednessResult(task=task, gold=test.gold, seconds=time.perf_counter() - began, **measured)


def _judge(
    task: str, parts: Mapping[str, LabelledTexts], vectors: _Vectors, preset: Preset, seed: int
) -> TaskResult:
    examples = {split: _examples(part, vectors) for split, part in parts.items()}
    began = time.perf_counter()
    validation = TASKS[task].validation
    if TASKS[task].linear and isinstance(preset, NeuralPreset):
        preset = replace(preset, hidden=0)
    if validation == "nested":
        outcome = nested_folds(examples["train"], preset, seed=seed)
    elif validation == "folds":
        outcome = folds_then_test(examples["train"], examples["test"], preset, seed=seed)
    else:
        outcome = splits(examples["train"], examples["dev"], examples["test"], preset, seed=seed)
    seconds = time.perf_counter() - began
    judged = parts["train" if validation == "nested" else "test"]
    return _result(task, outcome, judged, seconds)


def _result(task: str, outcome: Outcome, judged: LabelledTexts, seconds: float) -> TaskResult:
    gold = judged.labels.astype(np.int64)
    binary_pairs = judged.pairs is not None and len(judged.label_names) == 2
    return TaskResult(
        task=task,
        accuracy=outcome.accuracy,
        dev_accuracy=outcome.dev_accuracy,
        f1=round(100 * float(f1_score(gold, outcome.predictions)), 2) if binary_pairs else None,
        penalties=outcome.penalties,
        gold=gold,
        predictions=outcome.predictions,
        seconds=seconds,
    )


def _examples(data: LabelledTexts, vectors: _Vectors) -> Examples:
    labels = data.labels.astype(np.int64)
    if data.pairs is None:
        return Examples(vectors.of(data.texts), labels)
    return Examples(_pair_features(data.texts, data.pairs, vectors), labels)


def _pair_features(first: Sequence[str], second: Sequence[str], vectors: _Vectors) -> torch.Tensor:
    one, other = vectors.of(first), vectors.of(second)
    return torch.cat([(one - other).abs(), one * other], dim=1)
