"""Transfer tasks with any encoder: each unique sentence is encoded once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sentemb.data.labelled import LabelledTexts
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.evaluation.environment import new_record
from sentemb.evaluation.measures import correlate
from sentemb.evaluation.runner import load_suites, run_suites
from sentemb.evaluation.schema import DataSet, Record, Score, checksum_of_parts
from sentemb.evaluation.suites import TRANSFER, Loaded, LoadedSuite, Options, Suite, read_available
from sentemb.evaluation.transfer.neural import Fold, Trained, fit_logistic, train_folds
from sentemb.evaluation.transfer.tasks import (
    OUTER_SEED,
    ROUNDING,
    TASKS,
    TRANSFER_TASKS,
    LogisticPreset,
    NeuralPreset,
    Parts,
    Preset,
    Rows,
    check_folds,
    check_tasks,
    get_preset,
    load_tasks,
    percent,
    stratified_folds,
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
) -> list[Record]:
    """Evaluate an encoder by classifiers that are trained on its frozen vectors (Conneau and Kiela, 2018).

    Args:
        encoder: Anything that `load_encoder` takes.
        tasks: Names of `TASKS`, or files of your own as `load_labelled` takes them.
        preset: Name of a preset: `sg-bert`, `simcse`, `simcse-fast` or `logreg`.
        seeds: Seeds of the classifiers, a record each; SentEval's example has 1111.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        check_rows: Refuse a split whose number of rows is not the published one.

    Returns:
        A record for each seed, with accuracies x 100.

    Raises:
        InputError: The encoder, a task, the preset or the data cannot be used.

    Example:
        >>> (record,) = evaluate_transfer("sg-bert-mini", ["cr", "trec"], data_dir="data")  # doctest: +SKIP
        >>> record.score("trec")  # doctest: +SKIP
    """
    options = Options(tasks=tasks, preset=preset, seeds=seeds, data_dir=data_dir, check_rows=check_rows)
    loaded = load_suites([TRANSFER.name], options)
    return [*run_suites(load_encoder(encoder), loaded).records.values()]


def _evaluate_task(encoder: TextEncoder, name: str, parts: Parts, preset: str, seed: int) -> Record:
    task, chosen = task_of(name), get_preset(preset)
    began, data = time.perf_counter(), parts[task.tested]
    texts = list(dict.fromkeys(texts_of(parts)))
    vectors, rows = encoder.encode(texts), {text: row for row, text in enumerate(texts)}
    examples = [examples_of(parts[split], vectors, rows) for split in task.splits]
    if task.linear and isinstance(chosen, NeuralPreset):
        chosen = replace(chosen, hidden=0)
    if task.validation == "regression":
        outcome = regression(*examples, seed=seed)
    else:
        ways: Mapping[str, Callable[..., Outcome]]
        ways = {"nested": nested_folds, "folds": folds_then_test, "split": splits}
        outcome = ways[task.validation](*examples, preset=chosen, seed=seed)
    scores = task_scores(task, data.labels, outcome.predictions, folds=chosen.folds)
    items = DataSet(
        name=name,
        split=data.split,
        items=len(data),
        sha256=checksum_of_task(name, parts),
        classes=data.label_names,
    )
    return new_record(
        TRANSFER.name,
        encoder,
        {name: time.perf_counter() - began},
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


def examples_of(data: LabelledTexts, vectors: npt.NDArray[np.float32], rows: Mapping[str, int]) -> Examples:
    """Return features `(n, d)`; of a pair the difference and the product of its vectors, `(n, 2 d)`."""

    def select(texts: Sequence[str]) -> torch.Tensor:
        return torch.from_numpy(vectors[[rows[text] for text in texts]])

    first = select(data.texts)
    if data.pairs is None:
        return Examples(first, data.labels)
    second = select(data.pairs)
    return Examples(torch.cat([(first - second).abs(), first * second], dim=1), data.labels)


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
    names = suite.sets if options.tasks is None else options.tasks
    get_preset(options.preset)  # before time is spent on reading
    check_tasks(names)
    found, missing = read_available(
        names, lambda name: load_tasks([name], data_dir=options.data_dir, check_rows=options.check_rows)
    )
    tasks = {title: parts for loaded in found.values() for title, parts in loaded.items()}
    check_folds(tasks, get_preset(options.preset))
    several = len(options.seeds) > 1
    suites = [transfer_suite(tasks, options.preset, seed, several=several) for seed in options.seeds]
    return Loaded(tuple(suites) if tasks else (), missing)


def transfer_suite(
    tasks: Mapping[str, Parts], preset: str, seed: int, *, several: bool = False
) -> LoadedSuite:
    """Return the suite of some tasks with classifiers of one seed, evaluated one task after the other."""

    def evaluate(encoder: TextEncoder, names: Sequence[str]) -> Iterator[tuple[Record, str]]:
        for name in names:
            record = _evaluate_task(encoder, name, tasks[name], preset, seed)
            score = record.scores[0]
            yield record, f"{name} {score.metric} {score.value:.2f}, {record.environment.seconds[name]:.0f} s"

    return LoadedSuite(
        name=TRANSFER.name,
        label=f"transfer seed {seed}" if several else "",
        protocol=preset,
        checksums={name: checksum_of_task(name, parts) for name, parts in tasks.items()},
        texts={name: [*texts_of(parts)] for name, parts in tasks.items()},
        evaluate=evaluate,
        seed=lambda model: seed,
    )


class Examples(NamedTuple):
    """Rows of a task."""

    features: torch.Tensor  # `(n, d)` float32
    labels: npt.NDArray[Any]  # `(n,)` class numbers from 0; of a regression scores up to 5


class Outcome(NamedTuple):
    """Predictions of a task's classifiers."""

    # `(n,)` a class or a score for each test row; without a test split for each row, by a classifier
    # that was trained without it
    predictions: npt.NDArray[Any]
    dev_score: float  # of the chosen penalty in validation: accuracy x 100, of a regression Pearson x 100
    penalties: tuple[float, ...] = ()  # the chosen penalty of each final classifier; a regression has none


def nested_folds(data: Examples, *, preset: Preset, seed: int) -> Outcome:
    """Run a nested cross-validation: MR, CR, SUBJ and MPQA."""
    train = _trainer(data, preset, seed)
    outer = stratified_folds(np.arange(len(data.labels)), data.labels, preset.folds, OUTER_SEED)
    inner = [stratified_folds(rows, data.labels, preset.folds, OUTER_SEED) for rows, _ in outer]
    # In one call, which keeps every core busy to the end.
    trained = train([fold for folds in inner for fold in _seeded(folds, preset.penalties, seed)])
    parts = [trained[start : start + preset.folds] for start in range(0, len(trained), preset.folds)]
    chosen, validated = zip(*(_choose(part) for part in parts), strict=True)
    penalties = [preset.penalties[best] for best in chosen]
    last = train(
        [_last(rows, preset, penalty, seed) for (rows, _), penalty in zip(outer, penalties, strict=True)]
    )
    predictions = np.empty(len(data.labels), dtype=np.int64)
    for (_, rows), final in zip(outer, last, strict=True):
        predictions[rows] = final.predict(data.features[torch.from_numpy(rows)])[0]
    return Outcome(predictions, round(float(np.mean(validated)), 2), tuple(penalties))


def folds_then_test(data: Examples, test: Examples, *, preset: Preset, seed: int) -> Outcome:
    """Cross-validate on the training split, then use the test split once: TREC and MRPC."""
    train = _trainer(data, preset, seed)
    rows = np.arange(len(data.labels))
    folds = stratified_folds(rows, data.labels, preset.folds, seed)
    best, validated = _choose(train(_seeded(folds, preset.fold_penalties, seed)))
    penalty = preset.fold_penalties[best]
    (last,) = train([_last(rows, preset, penalty, seed)])
    return Outcome(last.predict(test.features)[0], validated, (penalty,))


def splits(data: Examples, dev: Examples, test: Examples, *, preset: Preset, seed: int) -> Outcome:
    """Validate on the dev split, then use the test split once: SST, SICK-E and the probing tasks."""
    both = Examples(torch.cat([data.features, dev.features]), np.concatenate([data.labels, dev.labels]))
    rows = np.arange(len(both.labels))
    parts = [(rows[: len(data.labels)], rows[len(data.labels) :])]
    (trained,) = _trainer(both, preset, seed)(_seeded(parts, preset.penalties, seed))
    best, validated = _choose([trained])
    # A last fit would have the same rows, weights and order of rows as the one that was chosen.
    return Outcome(trained.predict(test.features)[best], validated, (preset.penalties[best],))


def regression(
    data: Examples, dev: Examples, test: Examples, *, seed: int, longest: int = 1000, patience: int = 3
) -> Outcome:
    """Train SentEval's regression on the grades 1 to 5, scored on the dev split every 50 passes.

    A score between two grades is a distribution over both whose mean it is (Tai et al., 2015). Of scores
    below 1, which STS-B has and SICK has not, SentEval drops the part that would fall to a grade 0.
    """
    grades = torch.arange(1.0, 6.0, dtype=data.features.dtype)
    targets = 1 - (torch.from_numpy(data.labels).to(grades)[:, None] - grades).abs()
    targets.clamp_(min=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = nn.Linear(data.features.shape[1], len(grades))
    optimizer = torch.optim.Adam(layer.parameters(), fused=True)
    orders = np.random.RandomState(seed)

    def expect(features: torch.Tensor) -> npt.NDArray[np.float64]:
        with torch.no_grad():
            chances = layer(features).softmax(dim=1).double()
        return np.asarray((chances @ grades.double()).numpy())

    best, predictions, misses, passes = -1.0, np.empty(0), 0, 0
    while passes <= longest and misses <= patience:
        for _ in range(50):
            for rows in torch.split(torch.from_numpy(orders.permutation(len(targets))), 64):
                loss = nn.functional.mse_loss(layer(data.features[rows]).softmax(dim=1), targets[rows])
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                optimizer.step()
        passes += 50
        score = correlate("pearson", expect(dev.features), dev.labels, noise=ROUNDING, default=0.0)
        if score > best:
            best, predictions = score, expect(test.features)
        else:
            misses += 1
    if np.ptp(predictions) <= ROUNDING:
        predictions = np.full_like(predictions, predictions[0])
    return Outcome(predictions, percent(best))


def _trainer(data: Examples, preset: Preset, seed: int) -> Callable[[Sequence[Fold]], list[Trained]]:
    labels = torch.from_numpy(data.labels)
    if isinstance(preset, LogisticPreset):
        return lambda folds: [fit_logistic(data.features, labels, fold) for fold in folds]
    return lambda folds: train_folds(data.features, labels, folds, preset, seed=seed)


def _seeded(folds: Sequence[tuple[Rows, Rows]], penalties: tuple[float, ...], seed: int) -> list[Fold]:
    return [Fold.seeded(rows, held, penalties, seed) for rows, held in folds]


def _choose(trained: Sequence[Trained]) -> tuple[int, float]:
    """Return the place of the penalty with the best mean accuracy, the first of equal ones, and the mean."""
    means = [percent(mean) for mean in np.mean([one.scores for one in trained], axis=0)]
    best = int(np.argmax(means))
    return best, means[best]


def _last(rows: Rows, preset: Preset, penalty: float, seed: int) -> Fold:
    if isinstance(preset, LogisticPreset):
        return Fold.seeded(rows, rows, (penalty,), seed)
    return Fold.divided(rows, (penalty,), seed, share=preset.validation_share)
