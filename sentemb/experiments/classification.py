"""Trials that train a classifier on rows of a labelled set and predict the test rows."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch
from pydantic import Field

from sentemb._files import read_json, write_json
from sentemb.classification import fit_classifier
from sentemb.classification.classifier import inputs_of
from sentemb.classification.fit import check_options, read_own_labelled, start_from_pooler
from sentemb.data.files import names_a_file
from sentemb.data.labelled import LabelledTexts, load_labelled
from sentemb.data.sampling import read_copies
from sentemb.encoding.view import fingerprint_of
from sentemb.errors import InputError
from sentemb.evaluation.classification import TASKS, Metric, Paper, headline_of, task_of
from sentemb.evaluation.environment import command_line, environment
from sentemb.evaluation.schema import DataSet, Record, Score
from sentemb.experiments.experiment import (
    Experiment,
    Method,
    Setting,
    Trial,
    Written,
    joined,
    nested,
    portable,
    published,
)
from sentemb.experiments.labelled_sets import LabelledSets, Rule, Splits
from sentemb.experiments.runner import Job, Outcome, Place, TrialKind, short_key
from sentemb.modules import build_head, load
from sentemb.training import resolve
from sentemb.training.folder import RunFolder
from sentemb.training.objective import build_loss, takes_head

logger = logging.getLogger(__name__)


class ClassificationData(Written):
    """Data options of an experiment on labelled texts: its table `data`."""

    rule: Rule | None = Field(
        None, description="rule for validation and test rows: scl, lacon, sg-bert, published"
    )
    paper: Paper | None = Field(
        None, description="paper whose metrics and optimization are used; by default that of the rule"
    )
    test_rows: int | None = Field(None, ge=2, description="number of test rows, drawn as a stratified subset")
    source: str | None = Field(
        None, description="set on which every method is trained first (SCL, section 5.4)"
    )
    source_rows: int | None = Field(
        None, ge=2, description="number of rows of the source set, drawn as a stratified subset"
    )
    copies: dict[str, Path] = Field({}, description="files of back-translations by set, for noisy copies")
    train: Path | None = Field(None, description="file of your own training rows, instead of catalogue sets")
    dev: Path | None = Field(None, description="file of your own dev rows")
    test: Path | None = Field(None, description="file of your own test rows")
    columns: tuple[str, ...] = Field(
        ("text",), description="text column of your own rows, or the two columns of pairs"
    )
    label: str = Field("label", description="label column of your own rows")
    check_rows: bool = Field(
        True, description="true to reject copies of catalogue sets with missing or extra rows"
    )


class ClassificationTrials(TrialKind):
    """Methods by labelled sets by settings by seeds. All methods share the optimization of a paper."""

    suite = "classification"
    data_model = ClassificationData
    recipes = ("classification",)

    def __init__(self, experiment: Experiment, data: ClassificationData, place: Place) -> None:
        files = _read_files(experiment.datasets, data)
        if files:
            names = {name: files[name].name if name in files else name for name in experiment.datasets}
            bases = {names[name]: base for name, base in experiment.bases.items()}
            experiment = experiment.replace(datasets=tuple(names.values()), bases=bases)
        super().__init__(experiment, data, place)
        own = _own_sets(data) | {one.name: {"train": one} for one in files.values()}
        self._data = data
        self._paper = data.paper or (data.rule if data.rule in ("scl", "lacon") else None)
        self._names = experiment.datasets or tuple(own)
        self._sets = LabelledSets(
            place.data_dir,
            rule=data.rule,
            own=own,
            copies={
                name: read_copies(
                    path,
                    pair="augmented_pair" if name in TASKS and TASKS[name].pair else None,
                    temperature="temperature",
                )
                for name, path in data.copies.items()
            },
            test_rows=data.test_rows,
            check_rows=data.check_rows,
        )
        self._described: dict[str, dict[str, Any]] = {}
        self._latest: tuple[object, Splits] | None = None

    def groups(self) -> list[tuple[str, ...]]:
        """Return each set by itself, so that its rows are drawn once for all methods."""
        if not self._names:
            raise InputError(
                "labelled data is missing",
                "select sets with --sets, or use --data train=FILE --data test=FILE",
            )
        return [(name,) for name in self._names]

    def methods(self, names: tuple[str, ...]) -> list[Method]:
        """Return the methods on a set, with the shared optimization, the base of the set and its metric."""
        (data,), experiment, made = names, self.experiment, []
        shared = published("optimization")["scl" if self._paper == "scl" else "lacon"]
        below = joined(shared, experiment.options)
        below["base"] = experiment.bases.get(data, experiment.base or below["base"])
        below["metric"] = self._metric(data)
        for method in experiment.chosen:
            options = joined(below, method.options)
            if self._data.source is not None and data != self._data.source:
                options["base"] = self._train_on_source(method, options)
            made.append(replace(method, options=options))
        return made

    def settings(self, trial: Trial) -> dict[str, Any]:
        """Return all settings of the training, and the fingerprint of its base, which is loaded once."""
        method = trial.method
        key = json.dumps([method.recipe, method.options], sort_keys=True)
        if key not in self._described:
            described = describe(method.recipe, method.options)
            self._described[key] = {**described, "base": portable(described["base"])}
        return self._described[key]

    def prepare(self, trial: Trial) -> Job:
        """Draw the rows."""
        splits, fingerprint = self.splits(trial), self.settings(trial)["start_fingerprint"]
        return Job(partial(run_fit, trial, splits, fingerprint), splits.checksums)

    def splits(self, trial: Trial) -> Splits:
        """Return the rows of a trial, the same for all methods."""
        key = (trial.datasets[0], trial.setting, trial.seed or 0)
        if self._latest is None or self._latest[0] != key:
            self._latest = key, self._sets.splits(*key)
        return self._latest[1]

    def check(self, jobs: Mapping[Trial, Job], records: Sequence[Record]) -> None:
        """Refuse records of the same set, setting and seed with other rows or another metric."""
        there = {
            (one.datasets[0].name, *one.trial.setting.items(), one.seed): one
            for one in records
            if one.trial is not None
        }
        for trial, job in jobs.items():
            one = there.get((trial.datasets[0], *trial.setting.as_dict().items(), trial.seed))
            wanted = dict(job.checksums), job.settings["metric"]
            if one is not None and (one.details["checksums"], one.details["metric"]) != wanted:
                where = f"{trial.datasets[0]} at {trial.setting}"
                raise InputError(
                    f"the folder contains records of {where} with other rows or another metric",
                    "choose another --output folder",
                )

    def _metric(self, data: str) -> Metric:
        name = data.partition("/")[0]
        return headline_of(name, self._paper) if name in TASKS else "accuracy"

    def _train_on_source(self, method: Method, options: Mapping[str, Any]) -> str:
        """Train a method on the source task once and return the folder. An interrupted run resumes."""
        source, rows, seed = str(self._data.source), self._data.source_rows, self.experiment.seeds[0]
        options = {**options, "metric": self._metric(source)}
        splits = self._sets.splits(source, Setting("train", rows) if rows else Setting("full"), seed)
        decided = {**describe(method.recipe, options), "base": None}
        key = short_key([method.recipe, decided, splits.checksums])
        output = self.place.work / "sources" / f"{method.name}.{source}.{key}.seed-{seed}"
        if RunFolder(output).status() != "finished":
            self.place.announce(f"training {method.name} on {source}, {len(splits.train)} rows: {output}")
            config = resolve(method.recipe, overrides={**options, "seeds": (seed,), "output": str(output)})
            fit_classifier(config, splits.train, splits.validation, resume=True)
        return str(output)


class Predicted(NamedTuple):
    """Predictions of a classifier for the test rows."""

    classes: Any  # (n,)
    probabilities: Any  # (n, classes)
    validation_score: float
    seconds: Mapping[str, float]


def run_fit(trial: Trial, splits: Splits, fingerprint: str) -> Outcome:
    """Train a classifier, predict the test rows and discard it."""
    logits, score, seconds = _fit(trial.method, splits, trial.seed or 0, inputs_of(splits.test))
    found = Predicted(logits.argmax(dim=1).numpy(), logits.softmax(dim=1).numpy(), score, seconds)
    return outcome_of(trial, splits, fingerprint, found)


def tune(
    method: Method,
    splits: Splits,
    grid: Mapping[str, Sequence[Any]],
    *,
    journal: Path,
    seeds: Sequence[int] = (1,),
    announce: Callable[[str], None] = logger.info,
) -> list[tuple[dict[str, Any], float]]:
    """Train the points of a grid with every seed, and return them with their mean scores, the best first.

    Scores are of the validation rows. The grid has values by option, where `loss_options.temperature` is an
    option in a table. The journal keeps the score of each finished point by its settings, rows and seeds, so
    that a search resumes.
    """
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if not points or not grid or not seeds:
        hint = "provide at least one value for each option, and at least one seed"
        raise InputError("the search grid is empty", hint)
    methods = [replace(method, options=joined(method.options, nested(one))) for one in points]
    described = [describe(one.recipe, one.options) for one in methods]
    rows = [splits.checksums[part] for part in ("train", "validation")]
    known: dict[str, float] = read_json(journal) if journal.exists() else {}
    tried = []
    for number, (point, one, settings) in enumerate(zip(points, methods, described, strict=True), start=1):
        own = {name: value for name, value in settings.items() if name != "base"}  # its fingerprint counts
        text = json.dumps([method.recipe, own, rows, list(seeds)], sort_keys=True)
        key = hashlib.sha256(text.encode()).hexdigest()
        if key not in known:
            known[key] = fmean(_fit(one, splits, seed, [])[1] for seed in seeds)
            write_json(journal, known)
            score = f"{100 * known[key]:.1f} on validation"
            announce(f"[{number}/{len(points)}] {method.name} {point}: {score}")
        tried.append((point, known[key]))
    return sorted(tried, key=lambda one: -one[1])


def _fit(
    method: Method, splits: Splits, seed: int, inputs: list[Any]
) -> tuple[torch.Tensor, float, dict[str, float]]:
    """Return logits of the inputs, the validation score and seconds."""
    with tempfile.TemporaryDirectory(prefix="sentemb-trial-") as folder:
        overrides = {**method.options, "seeds": (seed,), "output": str(Path(folder) / "classifier")}
        config = resolve(method.recipe, overrides=overrides)
        started = time.perf_counter()
        fitted = fit_classifier(config, splits.train, splits.validation, in_memory=True)
        trained = time.perf_counter()
        logits = torch.from_numpy(fitted.classifier.logits(inputs)) if inputs else torch.empty(0, 0)
        predicted = time.perf_counter()
    if fitted.run.dev_score is None:
        raise InputError(f"{method.name} was not evaluated on {splits.validation.name}")
    return logits, fitted.run.dev_score, {"train": trained - started, "predict": predicted - trained}


def outcome_of(trial: Trial, splits: Splits, fingerprint: str, found: Predicted) -> Outcome:
    """Return the record of a trial. Raise ValueError if its predictions are not finite."""
    (data,), test, options = trial.datasets, splits.test, trial.method.options
    for values in found[:3]:
        if not np.isfinite(values).all():
            raise ValueError("predictions, probabilities or validation scores are NaN or infinite")
    # The catalogue's task has all classes, also if the setting selects the first of them.
    scores = replace(task_of(test), classes=len(test.label_names)).scores(test.labels, found.classes)
    metric, train = options["metric"], splits.train
    record = Record(
        suite="classification",
        model=trial.method.name,
        fingerprint=fingerprint,
        base=options["base"],
        protocol=str(trial.setting),
        seed=trial.seed,
        datasets=(
            DataSet(
                name=data,
                split="test",
                items=len(test),
                sha256=splits.checksums["test"],
                classes=test.label_names,
            ),
        ),
        scores=(
            *(Score(dataset=data, metric=name, value=value) for name, value in scores.items()),
            Score(dataset=data, metric=metric, protocol="validation", value=float(found.validation_score)),
        ),
        environment=environment(found.seconds, command_line()),
        details={
            "metric": metric,
            "sizes": splits.sizes,
            "class_counts": train.class_counts,
            "left_out": dict(splits.left_out),
            "minority": None if splits.minority is None else train.label_names[splits.minority],
        },
    )
    predictions = {data: found.classes, f"{data}:probabilities": found.probabilities}
    return Outcome(record, predictions, {data: test.labels})


def describe(recipe: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings of a training.

    The base is loaded, and the head and the loss are built for it, so that all errors come before the first
    training.
    """
    config = resolve(recipe, overrides={**options, "output": "unused"})
    check_options(config)
    with torch.random.fork_rng():
        torch.manual_seed(0)  # layers that the base lacks are the same at each call
        encoder = load(config.base, pooling=config.pooling)
        start_from_pooler(encoder)
        fingerprint = fingerprint_of(encoder)
        head = {"kind": config.head, "width": encoder.get_embedding_dimension(), "classes": 2}
        heads = [build_head({**head, **config.head_options})] if takes_head(config.loss) else []
        build_loss(config, encoder, *heads)
    settings = {name: value for name, value in config.values().items() if name not in ("output", "seeds")}
    return {**settings, "start_fingerprint": fingerprint}


def _own_sets(data: ClassificationData) -> dict[str, dict[str, LabelledTexts]]:
    """Read the user's own set, named by its training file; all splits have the classes of that file."""
    given = {split: path for split in ("train", "dev", "test") if (path := getattr(data, split)) is not None}
    if not given:
        return {}
    if "train" not in given or len(given) == 1:
        hint = "set both --data train=FILE and --data test=FILE"
        raise InputError("your own set needs training and test rows", hint)
    read = partial(read_own_labelled, columns=data.columns, label=data.label)
    train = read(given.pop("train"))
    others = {
        split: replace(read(path, label_names=train.label_names, split=split), name=train.name)
        for split, path in given.items()
    }
    return {train.name: {"train": train, **others}}


def _read_files(names: Sequence[str], data: ClassificationData) -> dict[str, LabelledTexts]:
    """Read the user's files among the names of sets. Each is a set of one split."""
    files = [name for name in names if names_a_file(name)]
    if data.model_fields_set.isdisjoint(("columns", "label")):
        return {path: load_labelled(path, split="train") for path in files}
    return {path: read_own_labelled(path, columns=data.columns, label=data.label) for path in files}
