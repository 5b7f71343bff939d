"""Trials that train one encoder on several tasks: the rows of the CS224N paper's tables, and these tables."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from pydantic import Field

from sentemb._files import read_json
from sentemb.encoding.view import fingerprint_of
from sentemb.errors import InputError
from sentemb.evaluation.environment import command_line, environment
from sentemb.evaluation.schema import OVERALL, DataSet, Record, Score
from sentemb.experiments.experiment import Experiment, Trial, Written, joined, published
from sentemb.experiments.runner import Job, Outcome, Place, TrialKind
from sentemb.experiments.tables import options_of
from sentemb.modules import load
from sentemb.multitask import (
    MultiTaskModel,
    fit_multitask,
    load_task_sets,
    read_nli_columns,
)
from sentemb.multitask.model import METRICS, predict_tasks, score_tasks
from sentemb.multitask.run import checksum
from sentemb.multitask.tasks import TaskSets, uses_nli
from sentemb.report.table import ABSENT, Table, mean_cell
from sentemb.training import get_recipe, resolve
from sentemb.training.checkpoints import remove_folder
from sentemb.training.config import MultiTaskConfig
from sentemb.training.folder import RunFolder

COLUMNS = (OVERALL, "sentiment", "paraphrase", "similarity")
"""In the order of the paper."""
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
        return {**settings, "start_fingerprint": _fingerprint_of(config.base, config.pooling or "cls")}

    def prepare(self, trial: Trial) -> Job:
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
        fingerprint = _fingerprint_of(config.base, config.pooling or "cls")
        return Job(partial(run_row, config, self._train, self._dev, nli, sums, fingerprint), sums)

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
    if run.status() != "finished" or run.differing(config):
        fit_multitask(config, train, dev, nli=nli, resume=True)
    predictions = predict_tasks(MultiTaskModel.load(config.output), dev)
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


@lru_cache(maxsize=4)
def _fingerprint_of(base: str, pooling: str) -> str:
    return fingerprint_of(load(base, pooling=pooling))  # type: ignore[arg-type]


def multitask_tables(records: Sequence[Record]) -> list[Table]:
    """Make the tables of the paper that have a record."""
    seeds: dict[int, dict[str, Record]] = {}
    for record in records:
        rows = seeds.setdefault(record.seed or 0, {})
        if record.model in rows:
            problem = f"two records of {record.model} with seed {record.seed} differ in settings or data"
            raise InputError(problem, "keep each experiment in a separate folder")
        rows[record.model] = record
    tables = [_table(paper, list(seeds.values())) for paper in published("multitask")["tables"]]
    return [table for table in tables if any(row[1] != ABSENT for row in table.rows)]


def _table(paper: Mapping[str, Any], seeds: Sequence[Mapping[str, Record]]) -> Table:
    ours = [[one for runs in seeds if (one := _scores(row["runs"], runs))] for row in paper["rows"]]
    rows = []
    for row, scores in zip(paper["rows"], ours, strict=True):
        cells = []
        for name, figure in zip(COLUMNS, row["figures"], strict=True):
            cells += [mean_cell([100 * one[name] for one in scores if name in one], 1)]
            cells += [ABSENT if math.isnan(figure) else f"{100 * figure:.1f}"]
        rows.append((row["label"], str(len(scores) or ABSENT), *cells))
    used = [runs[run] for row in paper["rows"] for runs in seeds for run in row["runs"] if run in runs]
    return Table(
        title=f"Table {paper['number']}: {paper['title']}; dev sets, x 100",
        header=("row", "seeds", *(cell for name in COLUMNS for cell in (name, "paper"))),
        rows=tuple(rows),
        notes=(*_order_notes(paper, ours), *_setting_notes(used)),
    )


def _scores(names: Sequence[str], runs: Mapping[str, Record]) -> Mapping[str, float] | None:
    """Return the scores of a row with one seed, None if one of its runs is missing.

    A row is one run; or one for each task, which is selected by that task and does not count for the others;
    or none, the best of all runs.
    """

    def score(record: Record, name: str, protocol: str = "all") -> float:
        return next(one.value for one in record.scores if (one.dataset, one.protocol) == (name, protocol))

    if not names:
        best = {task: max(score(run, task, "best") for run in runs.values()) for task in COLUMNS[1:]}
        return {OVERALL: fmean(best.values()), **best}
    if not all(run in runs for run in names):
        return None
    if len(names) == 1:
        return {name: score(runs[names[0]], name) for name in COLUMNS}
    return {task: score(runs[run], task, "best") for task, run in zip(COLUMNS[1:], names, strict=True)}


def _order_notes(paper: Mapping[str, Any], ours: Sequence[Sequence[Mapping[str, float]]]) -> Iterator[str]:
    """Yield for each column how many pairs of rows are in the paper's order, and list the others."""
    for column, name in enumerate(COLUMNS):
        known = [
            (row["figures"][column], 100 * fmean(values), row["label"])
            for row, scores in zip(paper["rows"], ours, strict=True)
            if not math.isnan(row["figures"][column])
            and (values := [one[name] for one in scores if name in one])
        ]
        pairs = [sorted(pair, reverse=True) for pair in combinations(known, 2) if pair[0][0] != pair[1][0]]
        against = [
            f"; not {better} over {worse} ({one - other:+.1f})"
            for (_, one, better), (_, other, worse) in pairs
            if one <= other
        ]
        if pairs:
            agree = f"{len(pairs) - len(against)} of {len(pairs)}"
            yield f"{name}: {agree} pairs of rows are in the order of the paper{''.join(against)}"


def _setting_notes(records: Sequence[Record]) -> Iterator[str]:
    """Yield the number of rows, and the settings of the runs that differ from the paper."""
    if not records:
        return
    sizes = {
        split: ", ".join(f"{rows} {task}" for task, rows in of.items())
        for split, of in records[0].details["sizes"].items()
    }
    yield f"trained on {sizes['train']} rows, selected by and reported on {sizes['dev']} rows"
    others = set()
    for record in records:
        papers = get_recipe(record.model).values("paper")
        for name, value in options_of(record).items():
            text = json.dumps(value, sort_keys=True)
            if name in papers and text != json.dumps(papers[name], sort_keys=True):
                others.add(f"{name} {value if isinstance(value, str) else text}")
    yield f"settings that differ from the paper: {', '.join(sorted(others))}"
