"""Rows of the paper's tables over several seeds, each run once, whatever interrupts it."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from sentemb._files import read_json
from sentemb.encoding.fingerprint import fingerprint_of
from sentemb.errors import InputError
from sentemb.evaluation.environment import hardware, library_versions
from sentemb.evaluation.record_files import prepare_folder
from sentemb.evaluation.workers import run_here, run_in_processes
from sentemb.modules import build_encoder
from sentemb.multitask.config import MultiTaskConfig
from sentemb.multitask.evaluation import METRICS, OVERALL, predict_tasks, score_tasks
from sentemb.multitask.fit import fit_multitask
from sentemb.multitask.model import MultiTaskModel
from sentemb.multitask.paper import PAPER_TABLES
from sentemb.multitask.recipes import ROWS
from sentemb.multitask.records import RowRecord, read_row, write_row
from sentemb.multitask.session import checksum, describe_set
from sentemb.multitask.stages import uses_nli
from sentemb.multitask.tasks import TASKS, TaskSets
from sentemb.training.checkpoints import remove_folder
from sentemb.training.folder import RunFolder

logger = logging.getLogger(__name__)


def rows_of_tables(tables: Sequence[int]) -> list[str]:
    """The rows that some tables need; of rows with the same settings the first.

    Args:
        tables: Numbers from 1 to 10.

    Returns:
        Names of `ROWS`, each once, in the order of the tables.

    Raises:
        InputError: There is no such table.
    """
    for number in tables:
        if number not in PAPER_TABLES:
            raise InputError(
                f"the paper has no table {number}", f"give numbers from 1 to {max(PAPER_TABLES)}"
            )
    runs = (run for number in tables for row in PAPER_TABLES[number].rows for run in row.runs)
    return list(dict.fromkeys(map(first_alike, runs)))


def first_alike(row: str) -> str:
    """The first row with the settings of a row: several tables repeat the same run."""
    return next(name for name, settings in ROWS.items() if settings == ROWS[row])


@dataclass(frozen=True, eq=False)
class _Task:
    config: MultiTaskConfig
    train: TaskSets
    dev: TaskSets
    nli: Sequence[Sequence[str]]
    settings: dict[str, Any]
    checksums: dict[str, str]
    path: Path

    def __str__(self) -> str:
        return f"{self.config.recipe} seed {self.config.seeds[0]}"


def run_rows(
    configs: Sequence[MultiTaskConfig],
    train: TaskSets,
    dev: TaskSets,
    *,
    nli: Sequence[Sequence[str]] = (),
    folder: Path,
    jobs: int = 1,
    say: Callable[[str], None] = logger.info,
) -> list[RowRecord]:
    """Run the configurations that have no record yet.

    The name of a record holds a checksum of all settings, of the base and of the data. A run goes on where it
    was interrupted; its folder is removed when its record is written.

    Args:
        configs: One for each row and seed; `output` is the folder of the run.
        train: Sets to train on.
        dev: Sets to choose by and to report.
        nli: Columns of NLI triples, for the rows that need them.
        folder: Where the records go.
        jobs: How many processes train.
        say: Takes a line on each run that ended.

    Returns:
        A record for each configuration, in their order.

    Raises:
        InputError: A configuration, the data or a folder cannot be used.
    """
    if jobs < 1:
        raise InputError(f"{jobs} processes run nothing", "give --jobs 1 or more")
    prepare_folder(folder)
    tasks = [_planned(config, train, dev, nli, folder) for config in configs]
    left = [task for task in tasks if not task.path.exists()]
    say(f"{len(tasks)} runs, {len(tasks) - len(left)} of them finished before")
    ended = run_here(_run, left) if jobs == 1 else run_in_processes(_run, left, min(jobs, max(1, len(left))))
    with closing(ended):
        for number, (task, record, seconds) in enumerate(ended, start=1):
            write_row(record, task.path)
            remove_folder(Path(task.config.output))
            overall = 100 * record.scores[OVERALL]
            say(f"[{number}/{len(left)}] {task}: overall {overall:.1f}, {seconds:.0f} s")
    return [read_row(task.path) for task in tasks]


def _planned(
    config: MultiTaskConfig, train: TaskSets, dev: TaskSets, nli: Sequence[Sequence[str]], folder: Path
) -> _Task:
    left_out = ("output", "seeds", "recipe")
    settings = {name: value for name, value in config.values().items() if name not in left_out}
    settings["start_fingerprint"] = _fingerprint(config.base, config.pooling)
    sums = {
        f"{split}.{task}": describe_set(data)["sha256"]
        for split, sets in (("train", train), ("dev", dev))
        for task, data in sets
    }
    triples = nli if uses_nli(config) else ()
    if triples:
        sums["nli"] = checksum(triples)
    deciding = {name: value for name, value in settings.items() if name != "base"}
    key = hashlib.sha256(json.dumps([deciding, sums], sort_keys=True).encode()).hexdigest()[:8]
    path = folder / f"{config.recipe}.{key}.seed-{config.seeds[0]}.json"
    return _Task(config, train, dev, triples, settings, sums, path)


@lru_cache(maxsize=4)
def _fingerprint(base: str, pooling: str) -> str:
    return fingerprint_of(build_encoder(base, pooling=pooling))  # type: ignore[arg-type]


def _run(task: _Task) -> RowRecord:
    config = task.config
    try:
        run = RunFolder(Path(config.output))
        if run.status() == "finished" and not run.differing(config):
            model = MultiTaskModel.load(config.output)
        else:
            model = fit_multitask(config, task.train, task.dev, nli=task.nli, resume=True).model
    except InputError as error:
        raise InputError(f"{task}: {error.message}", error.hint) from error
    predictions = predict_tasks(model, task.dev)
    record = read_json(run.record)
    best = record["best"]
    return RowRecord(
        row=config.recipe,
        seed=config.seeds[0],
        scores=score_tasks(predictions, task.dev),
        best={name: best[name]["score"] for name in (*METRICS.values(), OVERALL)},
        predictions=predictions,
        gold={name: task.dev[name].labels for name in TASKS},
        settings=task.settings,
        sizes={
            "train": {name: len(data) for name, data in task.train},
            "dev": {name: len(data) for name, data in task.dev},
        },
        checksums=task.checksums,
        steps=record["steps"],
        kept_step=record["kept_step"],
        seconds=record["seconds"],
        versions=library_versions(),
        hardware=hardware(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )
