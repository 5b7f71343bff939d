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
from sentemb.experiments.experiment import Experiment, PlannedTrial, Setting, grid, joined
from sentemb.experiments.runner import Outcome, Place, Planned, Prepared, TrialKind, short_key
from sentemb.experiments.validation import Written
from sentemb.modules import load
from sentemb.multitask import (
    MultiTaskModel,
    fit_multitask,
    load_task_sets,
    read_nli_columns,
)
from sentemb.multitask.evaluation import METRICS, predict_tasks, score_tasks
from sentemb.multitask.session import checksum
from sentemb.multitask.stages import uses_nli
from sentemb.multitask.tasks import TaskSets
from sentemb.training import resolve
from sentemb.training.checkpoints import remove_folder
from sentemb.training.config import MultiTaskConfig
from sentemb.training.folder import RunFolder

# What `score_tasks` calls a score, and what a record calls it.
_SCORES = [
    *((name, task, name.removeprefix(f"{task}_")) for task, name in METRICS.items()),
    (OVERALL, OVERALL, OVERALL),
]
_NO_SETTING = ("output", "seeds", "recipe")


class MultiTaskData(Written):
    """What an experiment on the three tasks wants to know of its data: its table `data`."""

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
        super().__init__(experiment, data, place)
        self._data = data
        train, dev = load_task_sets(
            data_dir=place.data_dir, held_out=data.held_out, check_rows=data.check_rows
        )
        self._train, self._dev = train.sample(data.rows), dev.sample(data.dev_rows)
        self._nli: Sequence[Sequence[str]] = ()

    def trials(self) -> list[PlannedTrial]:
        """A whole seed before the next."""
        names = tuple(name for name, _ in self._dev)
        return grid(self.experiment.seeds, [names], [Setting("full")], lambda _: self.experiment.chosen)

    def settings(self, trial: PlannedTrial) -> dict[str, Any]:
        """All settings of the run, and the fingerprint of its base."""
        values = self._config(trial).values()
        settings = {name: value for name, value in values.items() if name not in _NO_SETTING}
        return {**settings, "start_fingerprint": _fingerprint(values["base"], values["pooling"])}

    def prepare(self, trial: PlannedTrial) -> Prepared:
        """Read the NLI triples where a row needs them."""
        config = self._config(trial)
        if uses_nli(config) and not self._nli:
            self._nli = read_nli_columns(self._data.nli, data_dir=self.place.data_dir, rows=self._data.rows)
        nli = self._nli if uses_nli(config) else ()
        sums = {
            f"{split}.{task}": data.describe()["sha256"]
            for split, sets in (("train", self._train), ("dev", self._dev))
            for task, data in sets
        }
        if nli:
            sums["nli"] = checksum(nli)
        fingerprint = _fingerprint(config.base, config.pooling or "cls")
        return Prepared(partial(run_row, config, self._train, self._dev, nli, sums, fingerprint), sums)

    def headline(self, record: Record) -> str:
        """The mean of the three tasks."""
        return f"overall {100 * record.score(OVERALL, OVERALL):.1f}"

    def file_name(self, trial: PlannedTrial, planned: Planned) -> str:
        """Another setting, or another row of data, gives another name; what the base is called does not."""
        settings = {**planned.settings}
        settings.pop("base")
        return f"{trial.method.name}.{short_key([settings, planned.checksums])}.seed-{trial.seed}.json"

    def end(self, trial: PlannedTrial) -> None:
        """Remove the folder of the run."""
        remove_folder(self._folder(trial))

    def _folder(self, trial: PlannedTrial) -> Path:
        return self.place.work / trial.method.name / f"seed-{trial.seed}"

    def _config(self, trial: PlannedTrial) -> MultiTaskConfig:
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
    """Train, or find the finished model of a killed run, and answer every row of the dev sets."""
    run = RunFolder(Path(config.output))
    if run.status() == "finished" and not run.differing(config):
        model = MultiTaskModel.load(config.output)
    else:
        model = fit_multitask(config, train, dev, nli=nli, resume=True).model
    predictions = predict_tasks(model, dev)
    made = read_json(run.record)
    found = {
        "all": score_tasks(predictions, dev),
        "best": {name: one["score"] for name, one in made["best"].items()},
    }
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
            Score(dataset=dataset, metric=metric, protocol=protocol, value=scores[name])
            for protocol, scores in found.items()
            for name, dataset, metric in _SCORES
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


@lru_cache(maxsize=4)
def _fingerprint(base: str, pooling: str) -> str:
    return fingerprint_of(load(base, pooling=pooling))  # type: ignore[arg-type]
