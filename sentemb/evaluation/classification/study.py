"""Running the cells of a study, each once, whatever interrupts it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from sentemb.errors import InputError
from sentemb.evaluation.classification.cell import Cell, Describe, FitPredict, Outcome, Splits, checked
from sentemb.evaluation.classification.clock import Clock, duration
from sentemb.evaluation.classification.draws import ImpossibleDraw
from sentemb.evaluation.classification.metrics import task_of
from sentemb.evaluation.classification.records import (
    CellRecord,
    read_cell,
    read_cells,
    record_of,
    write_cell,
)
from sentemb.evaluation.record_files import prepare_folder
from sentemb.evaluation.workers import run_here, run_in_processes

logger = logging.getLogger(__name__)

SplitsOf = Callable[[Cell], Splits]
_Task = tuple[Cell, Splits]


@dataclass(frozen=True, eq=False)
class _Planned:
    """A cell that can be run: where its record goes, and what decides it."""

    path: Path
    settings: Mapping[str, Any]
    checksums: Mapping[str, str]


class Study:
    """Runs cells and keeps a record of each; a cell that has its record is not run again.

    The name of a record holds a checksum of all settings, of the base and of the data, so that a changed one
    is another cell. Records are written when a cell has ended, the predictions first: whatever is killed
    when, a cell has its whole record or none.

    Args:
        folder: Where the records go; several studies may share one.
        fit_predict: Trains and predicts; knows nothing of cells.
        describe: All settings of a training, defaults included.
        splits_of: The data of a cell, the same at each call.
        jobs: How many processes run cells.
        say: Takes a line on each cell that ended; the log by default.

    Example:
        >>> study = Study(folder, fit_predict, describe, splits_of)  # doctest: +SKIP
        >>> records = study.run(cells)  # doctest: +SKIP
    """

    def __init__(
        self,
        folder: Path,
        fit_predict: FitPredict,
        describe: Describe,
        splits_of: SplitsOf,
        *,
        jobs: int = 1,
        say: Callable[[str], None] = logger.info,
    ) -> None:
        if jobs < 1:
            raise InputError(f"{jobs} processes run nothing", "give --jobs 1 or more")
        self.folder = folder
        self.jobs = jobs
        self._fit_predict = fit_predict
        self._describe = describe
        self._splits_of = splits_of
        self._say = say
        self._settings: dict[str, Mapping[str, Any]] = {}

    def run(self, cells: Sequence[Cell]) -> list[CellRecord]:
        """Run what has no record yet.

        Args:
            cells: The cells; those of the same data are best side by side.

        Returns:
            The record of every cell that its set allows, in their order; what it does not allow is said and
            left out.

        Raises:
            InputError: Two cells are the same, a record is damaged, the folder holds records of other rows or
                of another metric, a method refuses its settings or its data, or no cell is possible.
        """
        prepare_folder(self.folder)
        plan = self._plan(cells)
        cells = list(plan)
        self._check_folder(plan)
        records = {cell: read_cell(one.path) for cell, one in plan.items() if one.path.exists()}
        clock = Clock({cell: record.seconds["total"] for cell, record in records.items()}, self.jobs)
        left = [cell for cell in cells if cell not in records]
        self._say(f"{len(cells)} cells, {len(records)} of them finished before{clock.remaining(left)}")
        with closing(self._outcomes(left)) as ended:
            for (cell, splits), outcome, seconds in ended:
                record = self._record(cell, plan[cell], splits, outcome, seconds)
                write_cell(record, plan[cell].path)
                records[cell] = record
                left = [other for other in left if other != cell]
                clock.note(cell, seconds)
                self._say(
                    f"[{len(cells) - len(left)}/{len(cells)}] {cell}: {cell.metric} "
                    f"{100 * record.score:.1f}, {duration(seconds)}{clock.remaining(left)}"
                )
        return [records[cell] for cell in cells]

    def _outcomes(self, cells: Sequence[Cell]) -> Generator[tuple[_Task, Outcome, float], None, None]:
        run = partial(_run, self._fit_predict)
        tasks = ((cell, splits) for cell, splits in self._with_splits(cells) if isinstance(splits, Splits))
        if self.jobs == 1:
            return run_here(run, tasks)
        return run_in_processes(run, tasks, min(self.jobs, max(len(cells), 1)))

    def _plan(self, cells: Sequence[Cell]) -> dict[Cell, _Planned]:
        for cell in cells:
            self._settings_of(cell)  # all that is wrong with a method, before any data is read
        plan: dict[Cell, _Planned] = {}
        impossible: dict[str, ImpossibleDraw] = {}
        for cell, splits in self._with_splits(cells):
            if isinstance(splits, ImpossibleDraw):
                impossible[f"{cell.data} {cell.point} seed {cell.seed}"] = splits
                continue
            settings = self._settings_of(cell)
            plan[cell] = _Planned(self.folder / cell.file_name(splits, settings), settings, splits.checksums)
        for place, error in impossible.items():
            self._say(f"left out: {place}: {error.message}")
        if not plan:
            raise InputError("no cell of the study is possible", next(iter(impossible.values())).message)
        if len({one.path for one in plan.values()}) + _skipped(cells, plan) < len(cells):
            raise InputError("two cells of the study are the same", "name each method, set and seed once")
        return plan

    def _settings_of(self, cell: Cell) -> Mapping[str, Any]:
        method = cell.method
        try:
            key = json.dumps([method.recipe, cell.options], sort_keys=True)
            if key not in self._settings:
                self._settings[key] = self._describe(method.recipe, cell.options)
        except InputError as error:
            raise InputError(f"{method.name}: {error.message}", error.hint) from error
        except (TypeError, ValueError) as error:
            raise InputError(f"{method.name}: the options cannot be recorded: {error}") from None
        return self._settings[key]

    def _check_folder(self, plan: Mapping[Cell, _Planned]) -> None:
        """Refuse, before anything is trained, a folder whose records cannot share a table with the cells."""
        if not any(self.folder.glob("*.json")):
            return
        there = {
            (one.cell.data, one.cell.point, one.cell.seed): (one.cell.metric, one.checksums)
            for one in read_cells([self.folder])
        }
        for cell, one in plan.items():
            found = there.get((cell.data, cell.point, cell.seed), (cell.metric, one.checksums))
            if found != (cell.metric, one.checksums):
                raise InputError(
                    f"{self.folder} holds records of {cell.data} at {cell.point} with other rows or another "
                    "metric",
                    "take another --output folder",
                )

    def _with_splits(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Splits | ImpossibleDraw]]:
        """Each cell with its data, which is drawn once for consecutive cells that share it."""
        previous: object = None
        splits: Splits | ImpossibleDraw | None = None
        for cell in cells:
            key = (cell.data, cell.point, cell.seed)
            if splits is None or key != previous:
                previous = key
                try:
                    splits = self._splits_of(cell)
                except ImpossibleDraw as error:
                    splits = error
            yield cell, splits

    def _record(
        self, cell: Cell, planned: _Planned, splits: Splits, outcome: Outcome, seconds: float
    ) -> CellRecord:
        try:
            outcome = checked(outcome, splits)
        except ValueError as error:
            error.add_note(f"in the cell {cell}")
            raise
        # Of a growing number of classes the catalogue's task has all.
        task = replace(task_of(splits.test), classes=len(splits.test.label_names))
        return record_of(
            cell,
            splits,
            outcome,
            settings=planned.settings,
            scores=task.scores(splits.test.labels, outcome.predictions),
            total_seconds=seconds,
        )


def _run(fit_predict: FitPredict, task: _Task) -> Outcome:
    cell, splits = task
    try:
        return fit_predict(
            cell.method.recipe, splits.train, splits.validation, splits.test, cell.seed, cell.options
        )
    except InputError as error:
        raise InputError(f"{cell}: {error.message}", error.hint) from error
    except Exception as error:
        error.add_note(f"in the cell {cell}")
        raise


def _skipped(cells: Sequence[Cell], plan: Mapping[Cell, _Planned]) -> int:
    return sum(cell not in plan for cell in cells)
