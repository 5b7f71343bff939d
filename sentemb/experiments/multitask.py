"""Trials that train one encoder on several tasks: the rows of the CS224N paper's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from sentemb._files import read_json
from sentemb.encoding.view import fingerprint_of
from sentemb.evaluation.environment import command_line, environment
from sentemb.evaluation.schema import OVERALL, DataSet, Record, Score
from sentemb.experiments.experiment import Experiment, Trial, Written, joined
from sentemb.experiments.runner import Inputs, Outcome, Place, TrialKind
from sentemb.modules import load
from sentemb.multitask import (
    MultiTaskModel,
    fit_multitask,
    load_task_sets,
    read_nli_columns,
)
from sentemb.multitask.model import METRICS, predict_tasks, score_tasks
from sentemb.multitask.plan import uses_nli
from sentemb.multitask.run import checksum
from sentemb.multitask.tasks import TaskSets
from sentemb.training import resolve
from sentemb.training.checkpoints import remove_folder
from sentemb.training.config import MultiTaskConfig
from sentemb.training.folder import RunFolder

_NO_SETTING = ("output", "seeds", "recipe")


class MultiTaskData(Written):
    """Data options of an experiment on the three tasks: its table `data`."""

    nli: str = Field("simcse-nli", description="NLI triples: a file or a catalogue name")
    held_out: float | None = Field(None, gt=0, lt=1, description="fraction of quora-dev.csv to evaluate on")
    rows: int | None = Field(None, ge=1, description="maximum number of training rows of each set")
    dev_rows: int | None = Field(None, ge=1, description="maximum number of evaluation rows of each set")
    check_rows: bool = Field(True, description="true to reject sets with missing or extra rows")


class MultiTaskTrials(TrialKind):
    """Rows by seeds, each trained on the three tasks and evaluated on their dev sets."""

    suite = "multitask"
    data_model = MultiTaskData
    recipes = ("multitask",)

    def __init__(self, experiment: Experiment, data: MultiTaskData, place: Place) -> None:
        super().__init__(experiment.replace(values=()), data, place)
        self._data = data
        train, dev = load_task_sets(
            data_dir=place.data_dir, held_out=data.held_out, check_rows=data.check_rows
        )
        self._train, self._dev = train.sample(data.rows), dev.sample(data.dev_rows)
        self._nli: Sequence[Sequence[str]] = ()

    def groups(self) -> list[tuple[str, ...]]:
        """Return the three tasks as one group."""
        return [tuple(name for name, _ in self._dev)]

    def settings(self, trial: Trial) -> dict[str, Any]:
        """Return all settings of the run, and the fingerprint of its base."""
        config = self._config(trial)
        settings = {name: value for name, value in config.values().items() if name not in _NO_SETTING}
        return {**settings, "start_fingerprint": _fingerprint(config)}

    def prepare(self, trial: Trial) -> Inputs:
        """Read the NLI triples if the row needs them."""
        config = self._config(trial)
        if uses_nli(config) and not self._nli:
            self._nli = read_nli_columns(self._data.nli, data_dir=self.place.data_dir, rows=self._data.rows)
        nli = self._nli if uses_nli(config) else ()
        sums = {
            f"{split}.{task}": data.describe()["sha256"]
            for split, sets in (("train", self._train), ("dev", self._dev))
            for task, data in sets
        } | ({"nli": checksum(nli)} if nli else {})
        return Inputs(partial(run_row, config, self._train, self._dev, nli, sums, _fingerprint(config)), sums)

    def end(self, trial: Trial) -> None:
        """Remove the folder of the run."""
        remove_folder(self._folder(trial))

    def _folder(self, trial: Trial) -> Path:
        return self.place.work / trial.method.name / f"seed-{trial.seed}"

    def _config(self, trial: Trial) -> MultiTaskConfig:
        options = joined(self.experiment.options, trial.method.options)
        given = {"base": self.experiment.base, "output": str(self._folder(trial)), "seeds": [trial.seed]}
        config: MultiTaskConfig = resolve(trial.method.recipe, overrides={**options, **given})
        return config


def run_row(
    config: MultiTaskConfig,
    train: TaskSets,
    dev: TaskSets,
    nli: Sequence[Sequence[str]],
    checksums: Mapping[str, str],
    fingerprint: str,
) -> Outcome:
    """Train, or load the finished model of a killed run, and predict every row of the dev sets."""
    run = RunFolder(Path(config.output))
    if run.status() == "finished" and not run.differing(config):
        model = MultiTaskModel.load(config.output)
    else:
        model = fit_multitask(config, train, dev, nli=nli, resume=True).model
    predictions = predict_tasks(model, dev)
    made = read_json(run.record)
    scores = {
        "all": score_tasks(predictions, dev),
        "best": {name: one["score"] for name, one in made["best"].items()},
    }
    names = [(name, task, name.removeprefix(f"{task}_")) for task, name in METRICS.items()]
    record = Record(
        suite="multitask",
        model=config.recipe,
        fingerprint=fingerprint,
        base=config.base,
        protocol="dev",
        seed=config.seeds[0],
        datasets=tuple(
            DataSet(name=task, split="dev", items=len(data), sha256=checksums[f"dev.{task}"])
            for task, data in dev
        ),
        scores=tuple(
            Score(dataset=dataset, metric=metric, protocol=protocol, value=found[name])
            for protocol, found in scores.items()
            for name, dataset, metric in [*names, (OVERALL, OVERALL, OVERALL)]
        ),
        environment=environment({}, command_line()),
        details={
            "sizes": {
                split: {task: len(data) for task, data in sets}
                for split, sets in (("train", train), ("dev", dev))
            },
            "steps": made["steps"],
            "kept_step": made["kept_step"],
        },
    )
    answers: dict[str, Any] = {
        task: found if task == "similarity" else found.astype(np.int64) for task, found in predictions.items()
    }
    return Outcome(record, answers, {task: data.labels for task, data in dev})


def _fingerprint(config: MultiTaskConfig) -> str:
    return _fingerprint_of(config.base, config.pooling or "cls")


@lru_cache(maxsize=4)
def _fingerprint_of(base: str, pooling: str) -> str:
    return fingerprint_of(load(base, pooling=pooling))  # type: ignore[arg-type]
