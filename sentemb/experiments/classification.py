"""Trials that train a classifier on rows of a labelled set and report its predictions for the test rows."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from pydantic import Field

from sentemb.classification import fit_classifier
from sentemb.classification.evaluator import inputs_of
from sentemb.classification.files import read_own_labelled
from sentemb.classification.fit import check_options
from sentemb.classification.session import start_from_pooler
from sentemb.data.augmented import read_copies
from sentemb.data.files import names_a_file
from sentemb.data.labelled import LabelledTexts, load_labelled
from sentemb.encoding.view import fingerprint_of
from sentemb.errors import InputError
from sentemb.evaluation.classification import TASKS, Metric, Paper, headline_of, paper_of, task_of
from sentemb.evaluation.environment import command_line, environment
from sentemb.evaluation.naming import slug
from sentemb.evaluation.schema import DataSet, Record, Score
from sentemb.experiments.experiment import Experiment, Method, PlannedTrial, Setting, grid, joined, portable
from sentemb.experiments.labelled_sets import LabelledSets
from sentemb.experiments.runner import Outcome, Place, Planned, Prepared, TrialKind, short_key
from sentemb.experiments.samplers import Rule, Splits
from sentemb.experiments.validation import Written
from sentemb.modules import build_head, load
from sentemb.training import resolve
from sentemb.training.folder import RunFolder
from sentemb.training.objective import build_loss, takes_head

# LaCon, section 3.1: one optimization for everything that is compared, the middle of its grids.
_LACON: Mapping[str, Any] = {
    "base": "bert-base-uncased",
    "epochs": 10,
    "batch_size": 32,
    "learning_rate": 2e-5,
    "schedule": "linear",
    "warmup": 0.06,
    "weight_decay": 0.0,
    "max_length": 128,
}
# SCL, section 4.1; it does not say how long it trains, with which schedule, and how long texts may be.
_SCL: Mapping[str, Any] = {**_LACON, "base": "roberta-large", "batch_size": 16, "learning_rate": 1e-5}


class ClassificationData(Written):
    """How an experiment on labelled texts makes its rows: its table `data`."""

    rule: Rule | None = Field(None, description="rule for the validation and test rows; see LabelledSets")
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
    """Methods by labelled sets by settings by seeds; all methods share the optimization of a paper."""

    suite = "classification"
    data_model = ClassificationData
    recipes = ("classification",)

    def __init__(self, experiment: Experiment, data: ClassificationData, place: Place) -> None:
        files = _read_files(experiment.datasets, data)
        if files:
            called = {name: files[name].name if name in files else name for name in experiment.datasets}
            bases = {called[name]: base for name, base in experiment.bases.items()}
            experiment = experiment.replace(datasets=tuple(called.values()), bases=bases)
        super().__init__(experiment, data, place)
        own = own_sets(data) | {one.name: {"train": one} for one in files.values()}
        self._data = data
        self._names = experiment.datasets or tuple(own)
        self._sets = LabelledSets(
            place.data_dir,
            rule=data.rule,
            own=own,
            copies={name: _copies(name, path) for name, path in data.copies.items()},
            test_rows=data.test_rows,
            check_rows=data.check_rows,
        )
        self._described: dict[str, dict[str, Any]] = {}
        self._latest: tuple[object, Splits] | None = None

    def trials(self) -> list[PlannedTrial]:
        """A whole seed before the next; the rows of a set and setting are drawn once for all methods."""
        if not self._names:
            raise InputError(
                "labelled data is missing",
                "select sets with --sets, or use --data train=FILE --data test=FILE",
            )
        return grid(
            self.experiment.seeds,
            [(name,) for name in self._names],
            self.experiment.settings,
            lambda names: self._methods(names[0]),
        )

    def settings(self, trial: PlannedTrial) -> dict[str, Any]:
        """All settings of the training, and the fingerprint of its base, which is loaded for it once."""
        method = trial.method
        key = json.dumps([method.recipe, method.options], sort_keys=True)
        if key not in self._described:
            self._described[key] = describe(method.recipe, method.options)
        return self._described[key]

    def prepare(self, trial: PlannedTrial) -> Prepared:
        """Draw the rows."""
        splits, fingerprint = self.splits(trial), self.settings(trial)["start_fingerprint"]
        return Prepared(partial(run_fit, trial, splits, fingerprint), splits.checksums)

    def splits(self, trial: PlannedTrial) -> Splits:
        """The rows of a trial, the same ones for all methods."""
        key = (trial.datasets[0], trial.setting, trial.seed or 0)
        if self._latest is None or self._latest[0] != key:
            self._latest = key, self._sets.splits(*key)
        return self._latest[1]

    def headline(self, record: Record) -> str:
        """The metric of the set."""
        return f"{record.details['metric']} {100 * headline_score(record):.1f}"

    def file_name(self, trial: PlannedTrial, planned: Planned) -> str:
        """Another setting, or another row of data, gives another name; what the base is called does not."""
        (data,), settings = trial.datasets, {**planned.settings}
        settings.pop("base")
        key = short_key([trial.method.recipe, settings, data, str(trial.setting), planned.checksums])
        return f"{slug(trial.method.name)}.{slug(data)}.{trial.setting}.{key}.seed-{trial.seed}.json"

    def check(self, plan: Mapping[PlannedTrial, Planned], records: Any) -> None:
        """Refuse records of the same set, setting and seed with other rows or another metric."""
        there = {
            (one.datasets[0].name, _setting_key(one.trial.setting), one.seed): one
            for one in records
            if one.trial is not None
        }
        for trial, planned in plan.items():
            one = there.get((trial.datasets[0], _setting_key(trial.setting.as_dict()), trial.seed))
            wanted = dict(planned.checksums), planned.settings["metric"]
            if one is not None and (one.details["checksums"], one.details["metric"]) != wanted:
                raise InputError(
                    f"the folder contains records of {trial.datasets[0]} at {trial.setting} with "
                    "other rows or another metric",
                    "choose another --output folder",
                )

    def _metric(self, data: str) -> Metric:
        name = data.partition("/")[0]
        return headline_of(name, self._paper) if name in TASKS else "accuracy"

    @property
    def _paper(self) -> Paper | None:
        return self._data.paper or paper_of(self._data.rule)

    def _methods(self, data: str) -> list[Method]:
        experiment = self.experiment
        below = joined(_SCL if self._paper == "scl" else _LACON, experiment.options)
        below |= {} if experiment.base is None else {"base": experiment.base}
        below |= {"base": experiment.bases[data]} if data in experiment.bases else {}
        below["metric"] = self._metric(data)
        made = []
        for method in experiment.chosen:
            options = joined(below, method.options)
            if self._data.source is not None and data != self._data.source:
                options["base"] = self._tuned_on_source(method, options)
            made.append(replace(method, options={**options, "base": portable(options["base"])}))
        return made

    def _tuned_on_source(self, method: Method, options: Mapping[str, Any]) -> str:
        """Train a method on the source task, once; an interrupted run resumes. Gives the model's folder."""
        source, rows, seed = str(self._data.source), self._data.source_rows, self.experiment.seeds[0]
        options = {**options, "metric": self._metric(source)}
        splits = self._sets.splits(source, Setting("train", rows) if rows else Setting("full"), seed)
        decided = {**describe(method.recipe, options), "base": None}
        key = short_key([method.recipe, decided, splits.checksums])
        output = self.place.work / "sources" / f"{method.name}.{source}.{key}.seed-{seed}"
        if RunFolder(output).status() != "finished":
            self.place.announce(f"training {method.name} on {source}, {len(splits.train)} rows: {output}")
            overrides = {**options, "seeds": (seed,), "output": str(output)}
            config = resolve(method.recipe, overrides=overrides)
            fit_classifier(config, splits.train, splits.validation, resume=True)
        return str(output)


def run_fit(trial: PlannedTrial, splits: Splits, fingerprint: str) -> Outcome:
    """Train a classifier, name the classes of the test rows and forget it."""
    logits, score, seconds = _fitted(trial.method, splits, trial.seed or 0, inputs_of(splits.test))
    found = Predicted(logits.argmax(dim=1).numpy(), logits.softmax(dim=1).numpy(), score, seconds)
    return outcome_of(trial, splits, fingerprint, found)


def validate(method: Method, splits: Splits, seed: int) -> float:
    """Train a classifier and give its score on the validation rows alone."""
    return _fitted(method, splits, seed, [])[1]


def _fitted(
    method: Method, splits: Splits, seed: int, inputs: list[Any]
) -> tuple[torch.Tensor, float, dict[str, float]]:
    """Logits of the inputs, the validation score and seconds."""
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


class Predicted(NamedTuple):
    """What a trial's classifier says of the test rows."""

    classes: Any  # (n,)
    probabilities: Any  # (n, classes)
    validation_score: float
    seconds: Mapping[str, float]


def outcome_of(trial: PlannedTrial, splits: Splits, fingerprint: str, found: Predicted) -> Outcome:
    """The record of a trial, once it is sure that its predictions are some."""
    (data,), test, options = trial.datasets, splits.test, trial.method.options
    for values in found[:3]:
        if not np.isfinite(values).all():
            raise ValueError("predictions, probabilities or validation scores are NaN or infinite")
    # Of a growing number of classes the catalogue's task has all.
    task = replace(task_of(test), classes=len(test.label_names))
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
            *(
                Score(dataset=data, metric=name, value=value)
                for name, value in task.scores(test.labels, found.classes).items()
            ),
            Score(
                dataset=data,
                metric=options["metric"],
                protocol="validation",
                value=float(found.validation_score),
            ),
        ),
        environment=environment(found.seconds, command_line()),
        details={
            "metric": options["metric"],
            "sizes": splits.sizes,
            "class_counts": splits.train.class_counts,
            "left_out": dict(splits.left_out),
            "minority": None if splits.minority is None else splits.train.label_names[splits.minority],
        },
    )
    predictions = {data: found.classes, f"{data}:probabilities": found.probabilities}
    return Outcome(record, predictions, {data: test.labels})


def describe(recipe: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a training, once everything about it but its data was tried.

    The base is loaded, and the head and the loss are made for it, so that what they refuse is refused before
    anything is trained.
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


def headline_score(record: Record) -> float:
    """The metric that a set is evaluated by, on the test rows."""
    return record.score(record.datasets[0].name, record.details["metric"])


def own_sets(data: ClassificationData) -> dict[str, dict[str, LabelledTexts]]:
    """The user's own set under the name of its training file, all splits with the classes of that one."""
    files = {"train": data.train, "dev": data.dev, "test": data.test}
    given = {split: path for split, path in files.items() if path is not None}
    if not given:
        return {}
    if "train" not in given or len(given) == 1:
        raise InputError(
            "your own set needs training and test rows", "set both --data train=FILE and --data test=FILE"
        )
    splits: dict[str, LabelledTexts] = {}
    for split, path in given.items():
        names = splits["train"].label_names if splits else None
        splits[split] = read_own_labelled(
            path, columns=data.columns, label=data.label, label_names=names, split=split
        )
    name = splits["train"].name
    return {name: {split: replace(part, name=name) for split, part in splits.items()}}


def _read_files(names: Sequence[str], data: ClassificationData) -> dict[str, LabelledTexts]:
    """The user's files among the names of sets: sets of one split."""
    files = [name for name in names if names_a_file(name)]
    if data.model_fields_set.isdisjoint(("columns", "label")):
        return {path: load_labelled(path, split="train") for path in files}
    return {path: read_own_labelled(path, columns=data.columns, label=data.label) for path in files}


def _copies(name: str, path: Path) -> Any:
    pair = "augmented_pair" if name in TASKS and TASKS[name].pair else None
    return read_copies(path, pair=pair, temperature="temperature")


def _setting_key(setting: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(setting.items())
