"""Running the trials of an experiment, each once, whatever interrupts it."""

from __future__ import annotations

import hashlib
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy.typing as npt
from pydantic import BaseModel

from sentemb._files import check_writable
from sentemb.errors import InputError
from sentemb.evaluation.record import load_records, read_record, write_record
from sentemb.evaluation.schema import Record, Trial
from sentemb.experiments.eta import Eta, duration
from sentemb.experiments.experiment import Experiment, PlannedTrial, default_options
from sentemb.experiments.samplers import ImpossibleDraw
from sentemb.experiments.workers import run_here, run_in_processes
from sentemb.training.recipes import RECIPES, recipes_of

if TYPE_CHECKING:
    from sentemb.training.progress import ConsoleProgress

logger = logging.getLogger(__name__)

Arrays = Mapping[str, npt.NDArray[Any]]


class Outcome(NamedTuple):
    """What running a trial gave: a record that does not know its trial yet, and what it was computed from."""

    record: Record
    predictions: Arrays
    gold: Arrays


class Prepared(NamedTuple):
    """A trial that can be run, in this process or another, and the checksums of its data."""

    run: Callable[[], Outcome]
    checksums: Mapping[str, str]


@dataclass(frozen=True)
class Place:
    """Where trials find their data and train their models, and who hears of it."""

    work: Path
    data_dir: str | Path | None = None
    keep_models: bool = False
    progress: ConsoleProgress | None = None
    announce: Callable[[str], None] = logger.info


class TrialKind(ABC):
    """What differs between kinds of experiments: which trials there are, and how one is run."""

    suite: str
    parallel: ClassVar[bool] = True
    data_model: ClassVar[type[BaseModel]]  # of the experiment's table `data`
    recipes: ClassVar[tuple[str, ...]]  # kinds of the recipes that its methods may have; none: no recipes

    def __init__(self, experiment: Experiment, data: Any, place: Place) -> None:
        for method in experiment.chosen if self.recipes else ():
            if method.recipe in RECIPES and RECIPES[method.recipe].kind not in self.recipes:
                raise InputError(
                    f"the recipe {method.recipe} cannot be used in a {experiment.kind} experiment",
                    f"use one of {', '.join(name for kind in self.recipes for name in recipes_of(kind))}",
                )
        self.experiment, self.place = experiment, place

    @abstractmethod
    def trials(self) -> list[PlannedTrial]:
        """The trials, those of the same data side by side."""

    @abstractmethod
    def settings(self, trial: PlannedTrial) -> dict[str, Any]:
        """All that a trial is trained with but seed and data, as JSON values; refuses what is wrong."""

    @abstractmethod
    def prepare(self, trial: PlannedTrial) -> Prepared:
        """Read or draw the data of a trial, the same at each call."""

    @abstractmethod
    def headline(self, record: Record) -> str:
        """The number of a finished trial that a line of progress shows."""

    def file_name(self, trial: PlannedTrial, planned: Planned) -> str | None:
        """Name of the record; by default that of any record of the model."""
        return None

    def check(self, plan: Mapping[PlannedTrial, Planned], records: Sequence[Record]) -> None:  # noqa: B027
        """Refuse a folder whose records cannot share a table with the trials."""

    def begin(self, trials: Sequence[PlannedTrial]) -> None:  # noqa: B027
        """Do once what several of the trials need that are about to be run."""

    def end(self, trial: PlannedTrial) -> None:  # noqa: B027
        """Remove what a trial with a record no longer needs."""


@dataclass(frozen=True, eq=False)
class Planned:
    """What decides a trial beside its seed."""

    settings: Mapping[str, Any]
    checksums: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class _Task:
    trial: PlannedTrial
    prepared: Prepared

    def run(self) -> Outcome:
        """Run the trial; a failure names it."""
        try:
            return self.prepared.run()
        except InputError as error:
            raise InputError(f"{self.trial}: {error.message}", error.hint) from error
        except Exception as error:
            error.add_note(f"in the trial {self.trial}")
            raise


def run_trials(
    kind: TrialKind, folder: Path, *, jobs: int = 1, announce: Callable[[str], None] = logger.info
) -> list[Record]:
    """Run the trials that have no record yet; see `run_experiment`."""
    if jobs < 1:
        raise InputError(f"--jobs is {jobs}", "use --jobs 1 or more")
    check_writable(folder)
    plan = _plan(kind, announce)
    there = load_records([folder], suite=kind.suite) if any(folder.glob("*.json")) else []
    kind.check(plan, there)
    records = {
        trial: record
        for trial, one in plan.items()
        for record in there
        if _is_of(record, kind.experiment.name, trial, one)
    }
    eta = Eta(jobs)
    for trial, record in records.items():
        kind.end(trial)  # what a kill left of it
        if (seconds := record.environment.seconds.get("total")) is not None:
            eta.note(trial, seconds)
    left = [trial for trial in plan if trial not in records]
    announce(f"{len(plan)} trials, {len(records)} already finished{eta.remaining(left)}")
    kind.begin(left)
    tasks = (_Task(trial, kind.prepare(trial)) for trial in list(left))
    processes = min(jobs, max(len(left), 1)) if kind.parallel else 1
    run = run_here if processes == 1 else partial(run_in_processes, jobs=processes)
    with closing(run(_Task.run, tasks)) as ended:
        for task, outcome, seconds in ended:
            trial = task.trial
            record = _complete(outcome.record, kind.experiment.name, trial, plan[trial], seconds)
            name = kind.file_name(trial, plan[trial])
            path = write_record(record, outcome.predictions, outcome.gold, folder, name=name)
            records[trial] = read_record(path)
            kind.end(trial)
            left.remove(trial)
            eta.note(trial, seconds)
            announce(
                f"[{len(plan) - len(left)}/{len(plan)}] {trial}: {kind.headline(record)}, "
                f"{duration(seconds)}{eta.remaining(left)}"
            )
    return [records[trial] for trial in plan]


def _is_of(record: Record, experiment: str, trial: PlannedTrial, planned: Planned) -> bool:
    """Whether a record is that of a trial."""
    made = record.trial
    if made is None or (made.experiment, made.method, record.seed) != (
        experiment,
        trial.method.name,
        trial.seed,
    ):
        return False
    checksums = record.details.get("checksums") or {one.name: one.sha256 for one in record.datasets}
    # What the base is called does not decide the weights where its content is known.
    other = {*differing(record, planned.settings)}
    other -= {"base"} if "start_fingerprint" in planned.settings else set()
    return not other and made.setting == trial.setting.as_dict() and checksums == planned.checksums


def short_key(values: Any) -> str:
    """Eight hexadecimal digits that tell JSON values from others."""
    return hashlib.sha256(_written(values).encode()).hexdigest()[:8]


def _written(values: Any) -> str:
    return json.dumps(values, sort_keys=True, allow_nan=False)


def _plan(kind: TrialKind, announce: Callable[[str], None]) -> dict[PlannedTrial, Planned]:
    trials = kind.trials()
    if not trials:
        raise InputError("an experiment needs at least one method, data set, setting and seed")
    if len(set(trials)) < len(trials):
        raise InputError("two trials of the experiment are identical", "list each method, set and seed once")
    settings = {trial: _settings_of(kind, trial) for trial in trials}  # all errors, before any data is read
    plan: dict[PlannedTrial, Planned] = {}
    impossible: dict[str, ImpossibleDraw] = {}
    for trial in trials:
        try:
            plan[trial] = Planned(settings[trial], kind.prepare(trial).checksums)
        except ImpossibleDraw as error:
            impossible[f"{trial.datasets[0]} {trial.setting} seed {trial.seed}"] = error
    for place, reason in impossible.items():
        announce(f"skipped: {place}: {reason.message}")
    if not plan:
        raise InputError(
            "the experiment does not have a trial that can run", next(iter(impossible.values())).message
        )
    return plan


def _settings_of(kind: TrialKind, trial: PlannedTrial) -> Mapping[str, Any]:
    try:
        settings = kind.settings(trial)
        _written(settings)
    except InputError as error:
        raise InputError(f"{trial.method.name}: {error.message}", error.hint) from error
    except (TypeError, ValueError) as error:
        raise InputError(f"{trial.method.name}: the options cannot be saved in the record: {error}") from None
    return settings


def _complete(record: Record, experiment: str, trial: PlannedTrial, one: Planned, seconds: float) -> Record:
    recorded = Trial(
        experiment=experiment,
        method=trial.method.name,
        setting=trial.setting.as_dict(),
        options=json.loads(_written(one.settings)),
    )
    details = {**record.details, "checksums": dict(one.checksums)}
    taken = {**record.environment.seconds, "total": seconds}
    environment = record.environment.model_copy(update={"seconds": taken})
    changes = {"trial": recorded, "details": details, "environment": environment}
    return record.model_copy(update={**changes, "base": recorded.options.get("base", record.base)})


def differing(record: Record, planned: Mapping[str, Any]) -> Iterator[str]:
    """The names whose values differ, as JSON has them; what a record does not know yet is at its default."""
    defaults, recorded = default_options(record.suite), record.trial.options if record.trial else {}
    for name in sorted(recorded.keys() | planned.keys()):
        values = [side.get(name, defaults.get(name)) for side in (recorded, planned)]
        if _written(values[0]) != _written(values[1]):
            yield name
