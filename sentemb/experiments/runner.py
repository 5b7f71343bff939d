"""Run the trials of an experiment, each once, regardless of interruptions."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy.typing as npt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sentemb._files import check_writable
from sentemb._machine import cores
from sentemb.errors import InputError, naming
from sentemb.evaluation import schema
from sentemb.evaluation.record import has_records, load_records, read_record, write_record
from sentemb.evaluation.schema import Record, slug
from sentemb.evaluation.suites import get_suite
from sentemb.experiments.experiment import Experiment, Method, Trial, default_options
from sentemb.experiments.labelled_sets import ImpossibleDraw
from sentemb.experiments.tables import metric_of, options_of, score_of
from sentemb.training.recipes import RECIPES, recipes_of

if TYPE_CHECKING:
    from sentemb.training.progress import ConsoleProgress

logger = logging.getLogger(__name__)

Arrays = Mapping[str, npt.NDArray[Any]]
Announce = Callable[[str], None]


class Outcome(NamedTuple):
    """Result of a trial: a record without its trial, with predictions and gold values."""

    record: Record
    predictions: Arrays
    gold: Arrays


class Job(NamedTuple):
    """A function that runs a trial, in this process or another, and what decides its result."""

    run: Callable[[], Outcome]
    checksums: Mapping[str, str]  # of the data
    settings: Mapping[str, Any] = {}  # all but data and seed


@dataclass(frozen=True)
class Place:
    """Folders of a study, and the function that takes its messages."""

    work: Path
    data_dir: str | Path | None = None
    keep_models: bool = False
    progress: ConsoleProgress | None = None
    announce: Announce = logger.info


Task = Sequence[tuple[Trial, Callable[[], Outcome]]]
"""Trials that one process runs one after another."""


class TrialKind(ABC):
    """A kind of experiment: its trials, and how to run one."""

    suite: str
    data_model: ClassVar[type[BaseModel]]  # of the experiment's table `data`
    recipes: ClassVar[tuple[str, ...]]  # kinds of recipes that methods may have; empty if they have none

    def __init__(self, experiment: Experiment, data: Any, place: Place) -> None:
        for method in experiment.chosen if self.recipes else ():
            if method.recipe in RECIPES and RECIPES[method.recipe].kind not in self.recipes:
                raise InputError(
                    f"the recipe {method.recipe} cannot be used in a {experiment.kind} experiment",
                    f"use one of {', '.join(name for kind in self.recipes for name in recipes_of(kind))}",
                )
        self.experiment, self.place = experiment, place

    def trials(self) -> list[Trial]:
        """Return all combinations, a whole seed before the next, and trials of the same data side by side."""
        return [
            Trial(method, names, setting, seed)
            for seed in self.experiment.seeds
            for names in self.groups()
            for setting in self.experiment.settings
            for method in self.methods(names)
        ]

    @abstractmethod
    def groups(self) -> Iterable[tuple[str, ...]]:
        """Return the data sets of the trials. Each group is evaluated in one trial."""

    def shared(self, trial: Trial) -> Hashable:
        """Return what is equal for trials that one process runs one after another."""
        return trial

    def methods(self, names: tuple[str, ...]) -> Sequence[Method]:
        """Return the methods with all options for some data sets."""
        return self.experiment.chosen

    @abstractmethod
    def settings(self, trial: Trial) -> dict[str, Any]:
        """Return all settings of a trial except seed and data, as JSON values. Refuse wrong ones."""

    @abstractmethod
    def prepare(self, trial: Trial) -> Job:
        """Read or draw the data of a trial. Every call returns the same data."""

    def file_name(self, trial: Trial, job: Job) -> str | None:
        """Return a file name that depends on all settings except the name of the base, and on the data."""
        settings = {name: value for name, value in job.settings.items() if name != "base"}
        sets = [slug(name) for name in trial.datasets] if len(trial.datasets) == 1 else []
        key = short_key([trial.method.recipe, settings, *sets, str(trial.setting), job.checksums])
        parts = [slug(trial.method.name), *sets, str(trial.setting), key, f"seed-{trial.seed}"]
        return f"{'.'.join(parts)}.json"

    def check(self, jobs: Mapping[Trial, Job], records: Sequence[Record]) -> None:  # noqa: B027
        """Raise InputError if records of the folder cannot share a table with the trials."""

    def end(self, trial: Trial) -> None:  # noqa: B027
        """Remove files that a trial with a record does not need."""


def run_experiment(
    experiment: Experiment,
    folder: Path,
    *,
    jobs: int = 1,
    data_dir: str | Path | None = None,
    work: Path | None = None,
    keep_models: bool = False,
    progress: ConsoleProgress | None = None,
    announce: Announce | None = None,
) -> list[Record]:
    """Run the trials of an experiment that do not have a record yet.

    A trial is identified by its method with all settings, the content of its base, its data and its seed. If
    one of them changes, it is another trial. An interrupted training resumes from its checkpoint. A killed
    trial has its whole record or none.

    Args:
        experiment: The experiment.
        folder: Folder of the records. Several experiments may share it.
        jobs: Number of processes that run trials. They share the cores.
        data_dir: Folder of local data sets; `SENTEMB_DATA` by default.
        work: Folder in which models are trained; `FOLDER/models` by default. A model is removed once it has
            its record.
        keep_models: Keep trained encoders.
        progress: Progress display of trainings in this process.
        announce: Called with a line for each finished trial, with the time left; the log by default.

    Returns:
        The record of every trial that its data allow, in the order of the grid. The others are announced and
        skipped.

    Raises:
        InputError: A method refuses its settings or its data, and the error names the trial; the folder has
            records of other rows; a record is damaged; or no trial is possible.

    Example:
        >>> run_experiment(load_experiment("ablations"), Path("runs/ablations"))  # doctest: +SKIP
    """
    say = announce or (progress.announce if progress is not None else logger.info)
    kind = _kind_of(experiment)
    with naming(f"{experiment.name}, data"):
        data = kind.data_model(**experiment.data)
    shown = progress if jobs == 1 else None
    place = Place(work or folder / "models", data_dir, keep_models, shown, say)
    return run_trials(kind(experiment, data, place), folder, jobs=jobs, announce=say)


def data_fields(experiment: Experiment) -> Mapping[str, FieldInfo]:
    """Return the fields of an experiment's table `data`."""
    return _kind_of(experiment).data_model.model_fields


def _kind_of(experiment: Experiment) -> type[TrialKind]:
    if experiment.kind == "classification":
        from sentemb.experiments.classification import ClassificationTrials

        return ClassificationTrials
    if experiment.kind == "multitask":
        from sentemb.experiments.multitask import MultiTaskTrials

        return MultiTaskTrials
    from sentemb.experiments.sts import FrozenTrials, StsTrials

    return FrozenTrials if experiment.kind == "frozen" else StsTrials


def run_trials(
    kind: TrialKind, folder: Path, *, jobs: int = 1, announce: Announce = logger.info
) -> list[Record]:
    """Run the trials of a kind that do not have a record yet; see `run_experiment`."""
    if jobs < 1:
        raise InputError(f"--jobs is {jobs}", "use --jobs 1 or more")
    check_writable(folder)
    plan = _plan(kind, announce)
    there = load_records([folder], suite=kind.suite) if has_records(folder) else []
    kind.check(plan, there)
    name = kind.experiment.name
    records = {
        trial: record for trial, one in plan.items() for record in there if _is_of(record, name, trial, one)
    }
    earlier = [record.environment.seconds.get("total") for record in records.values()]
    taken = [seconds for seconds in earlier if seconds is not None]
    for trial in records:
        kind.end(trial)  # files that a kill left
    left = [trial for trial in plan if trial not in records]

    def remaining() -> str:
        return f", about {_duration(fmean(taken) * len(left) / jobs)} left" if left and taken else ""

    announce(f"{len(plan)} trials, {len(records)} already finished{remaining()}")
    tasks = [[(one, plan[one].run) for one in together] for _, together in groupby(left, kind.shared)]
    with closing(_run_tasks(tasks, min(jobs, max(len(tasks), 1)))) as ended:
        for trial, outcome, seconds in ended:
            record = _complete(outcome.record, name, trial, plan[trial], seconds)
            file = kind.file_name(trial, plan[trial])
            path = write_record(record, outcome.predictions, outcome.gold, folder, name=file)
            records[trial] = read_record(path)
            kind.end(trial)
            left.remove(trial)
            taken.append(seconds)
            done = f"[{len(plan) - len(left)}/{len(plan)}] {trial}: {_headline(record)}"
            announce(f"{done}, {_duration(seconds)}{remaining()}")
    return [records[trial] for trial in plan]


def _plan(kind: TrialKind, announce: Announce) -> dict[Trial, Job]:
    trials = kind.trials()
    if not trials:
        raise InputError("an experiment needs at least one method, data set, setting and seed")
    if len(set(trials)) < len(trials):
        raise InputError("two trials of the experiment are identical", "list each method, set and seed once")
    settings = {}
    for trial in trials:  # all errors, before any data is read
        with naming(trial.method.name):
            settings[trial] = kind.settings(trial)
    plan: dict[Trial, Job] = {}
    impossible: dict[str, ImpossibleDraw] = {}
    for trial in trials:
        try:
            plan[trial] = kind.prepare(trial)._replace(settings=settings[trial])
        except ImpossibleDraw as error:
            impossible[f"{trial.datasets[0]} {trial.setting} seed {trial.seed}"] = error
    for place, reason in impossible.items():
        announce(f"skipped: {place}: {reason.message}")
    if not plan:
        reason = next(iter(impossible.values()))
        raise InputError("the experiment does not have a trial that can run", reason.message)
    return plan


def _is_of(record: Record, experiment: str, trial: Trial, job: Job) -> bool:
    """Return whether a record is that of a trial."""
    made, wanted = record.trial, (experiment, trial.method.name, trial.setting.as_dict(), trial.seed)
    if made is None or (made.experiment, made.method, made.setting, record.seed) != wanted:
        return False
    checksums = record.details.get("checksums") or {one.name: one.sha256 for one in record.datasets}
    # The name of the base does not decide the weights if its content is known.
    ignored = {"base"} if "start_fingerprint" in job.settings else set()
    return checksums == job.checksums and not {*differing(record, job.settings)} - ignored


def differing(record: Record, planned: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of settings that differ. A setting that a record lacks has its default."""
    defaults, recorded = default_options(record.suite), options_of(record)
    for name in sorted(recorded.keys() | planned.keys()):
        first, second = (side.get(name, defaults.get(name)) for side in (recorded, planned))
        if _json(first) != _json(second):
            yield name


def _complete(record: Record, experiment: str, trial: Trial, one: Job, seconds: float) -> Record:
    options = json.loads(_json(one.settings))
    method, setting = trial.method.name, trial.setting.as_dict()
    taken = {**record.environment.seconds, "total": seconds}
    return record.model_copy(
        update={
            "trial": schema.Trial(experiment=experiment, method=method, setting=setting, options=options),
            "details": {**record.details, "checksums": dict(one.checksums)},
            "environment": record.environment.model_copy(update={"seconds": taken}),
            "base": options.get("base", record.base),
        }
    )


def _headline(record: Record) -> str:
    """Return the mean score of the data sets, or the score of all of them together."""
    overall = score_of(record, schema.OVERALL)
    scores = [score_of(record, one.name) for one in record.datasets] if overall is None else [overall]
    scale = get_suite(record.suite).scale
    mean = 100 / scale * fmean(score for score in scores if score is not None)
    return f"{metric_of(record)} {mean:.{1 if scale == 1 else 2}f}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _run_tasks(tasks: Iterable[Task], jobs: int) -> Generator[tuple[Trial, Outcome, float], None, None]:
    """Run tasks in this process, or in several that share the cores, and yield results with seconds.

    Two processes of one thread take less time than one of two threads if batches are small. The processes are
    spawned, because torch does not survive a fork. Each holds one end of a pipe, and ends when the other end
    is closed: by this function, or by the system when this process dies.
    """
    if jobs == 1:
        yield from ((trial, *_run(trial, run)) for task in tasks for trial, run in task)
        return
    context = get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    # Temporary files of a killed process are removed with the folder.
    scratch = tempfile.TemporaryDirectory(prefix="sentemb-study-", ignore_cleanup_errors=True)
    arguments = (theirs, max(1, cores() // jobs), scratch.name)
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start, initargs=arguments)
    waiting = iter(tasks)
    running: set[Future[list[tuple[Trial, Outcome, float]]]] = set()
    try:
        while True:
            while len(running) < jobs and (task := next(waiting, None)) is not None:
                running.add(pool.submit(_run_task, task))
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                running.remove(future)
                yield from future.result()
    except BrokenProcessPool:
        raise InputError(
            "a worker process was killed, probably because the machine ran out of memory",
            "run the same command with fewer --jobs; finished trials are kept",
        ) from None
    finally:
        ours.close()
        pool.shutdown(cancel_futures=True)
        scratch.cleanup()


def _run_task(task: Task) -> list[tuple[Trial, Outcome, float]]:
    return [(trial, *_run(trial, run)) for trial, run in task]


def _run(trial: Trial, run: Callable[[], Outcome]) -> tuple[Outcome, float]:
    """Run a trial and return its outcome and seconds. Errors name it."""
    started = time.perf_counter()
    try:
        with naming(trial):
            return run(), time.perf_counter() - started
    except InputError:
        raise
    except Exception as error:
        error.add_note(f"in the trial {trial}")
        raise


def _start(pipe: Connection, threads: int, scratch: str) -> None:
    import torch

    def end_with_the_first_process() -> None:
        pipe.poll(None)  # returns when the other end is closed, because nothing is ever sent
        os._exit(1)

    tempfile.tempdir = scratch
    torch.set_num_threads(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process decides what Ctrl-C does
    threading.Thread(target=end_with_the_first_process, daemon=True).start()


def short_key(values: Any) -> str:
    """Return eight hexadecimal digits that identify JSON values."""
    return hashlib.sha256(_json(values).encode()).hexdigest()[:8]


def _json(values: Any) -> str:
    return json.dumps(values, sort_keys=True, allow_nan=False)
