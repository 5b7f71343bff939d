"""Running the cells of a study, each once, whatever interrupts it."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from sentemb.errors import InputError
from sentemb.evaluation.classification.cell import Cell, FitPredict, Outcome, Splits, checked
from sentemb.evaluation.classification.metrics import task_of
from sentemb.evaluation.classification.records import (
    CellRecord,
    read_cell,
    record_of,
    write_cell,
)
from sentemb.evaluation.classification.workers import run_here, run_in_processes
from sentemb.evaluation.record_files import prepare_folder

logger = logging.getLogger(__name__)

SplitsOf = Callable[[Cell], Splits]


class Study:
    """Runs cells and keeps a record of each; a cell that has its record is not run again.

    The name of a record holds a checksum of the settings and of the data, so that a changed one is another
    cell. Records are written when a cell has ended, the predictions first: whatever is killed when, a cell
    has its whole record or none.

    Args:
        folder: Where the records go; several studies may share one.
        fit_predict: Trains and predicts; knows nothing of cells.
        splits_of: The data of a cell, the same at each call.
        jobs: How many processes run cells.
        say: Takes a line on each cell that ended; the log by default.
        command: The command line, for the records.

    Example:
        >>> study = Study(folder, fit_predict, splits_of)  # doctest: +SKIP
        >>> records = study.run(cells)  # doctest: +SKIP
    """

    def __init__(
        self,
        folder: Path,
        fit_predict: FitPredict,
        splits_of: SplitsOf,
        *,
        jobs: int = 1,
        say: Callable[[str], None] = logger.info,
        command: Sequence[str] | None = None,
    ) -> None:
        if jobs < 1:
            raise InputError(f"{jobs} processes run nothing", "give --jobs 1 or more")
        self.folder = folder
        self.jobs = jobs
        self._fit_predict = fit_predict
        self._splits_of = splits_of
        self._say = say
        self._command = command

    def run(self, cells: Sequence[Cell]) -> list[CellRecord]:
        """Run what has no record yet.

        Args:
            cells: The cells; those of the same data are best side by side.

        Returns:
            The record of every cell, in their order.

        Raises:
            InputError: Two cells are the same, a record is damaged, or a method refuses its data.
        """
        prepare_folder(self.folder)
        paths = self._paths(cells)
        records = {cell: read_cell(path) for cell, path in paths.items() if path.exists()}
        clock = _Clock({cell: record.seconds["total"] for cell, record in records.items()}, self.jobs)
        missing = [cell for cell in cells if cell not in records]
        self._say(f"{len(cells)} cells, {len(records)} of them finished before")
        tasks = self._with_splits(missing)
        ended = (
            run_here(self._fit_predict, tasks)
            if self.jobs == 1
            else run_in_processes(self._fit_predict, tasks, min(self.jobs, max(len(missing), 1)))
        )
        left = list(missing)
        with closing(ended):
            for cell, splits, outcome, seconds in ended:
                record = self._record(cell, splits, outcome, seconds)
                write_cell(record, paths[cell])
                records[cell] = record
                left.remove(cell)
                clock.note(cell, seconds)
                number = len(cells) - len(left)
                self._say(
                    f"[{number}/{len(cells)}] {cell}: {cell.metric} {100 * record.score:.1f}, "
                    f"{_duration(seconds)}{clock.remaining(left)}"
                )
        return [records[cell] for cell in cells]

    def _paths(self, cells: Sequence[Cell]) -> dict[Cell, Path]:
        paths: dict[Cell, Path] = {}
        for cell, splits in self._with_splits(cells):
            paths[cell] = self.folder / cell.file_name(splits)
        if len(set(paths.values())) < len(cells):
            raise InputError("two cells of the study are the same", "name each method, set and seed once")
        return paths

    def _with_splits(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Splits]]:
        """Each cell with its data, which is read once for consecutive cells that share it."""
        previous: object = None
        splits: Splits | None = None
        for cell in cells:
            key = (cell.data, cell.point, cell.seed)
            if splits is None or key != previous:
                previous, splits = key, self._splits_of(cell)
            yield cell, splits

    def _record(self, cell: Cell, splits: Splits, outcome: Outcome, seconds: float) -> CellRecord:
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
            scores=task.scores(splits.test.labels, outcome.predictions),
            total_seconds=seconds,
            command=self._command,
        )


class _Clock:
    """What is left of a study, by what cells of the same kind took."""

    def __init__(self, seconds: dict[Cell, float], jobs: int) -> None:
        self._jobs = jobs
        self._seconds: dict[object, list[float]] = defaultdict(list)
        for cell, duration in seconds.items():
            self.note(cell, duration)

    def note(self, cell: Cell, seconds: float) -> None:
        for key in (self._kind(cell), None):
            self._seconds[key].append(seconds)

    def remaining(self, cells: Sequence[Cell]) -> str:
        if not cells:
            return ""
        kinds = [self._kind(cell) for cell in cells]
        expected = sum(fmean(self._seconds[kind if kind in self._seconds else None]) for kind in kinds)
        return f", about {_duration(expected / self._jobs)} left"

    def _kind(self, cell: Cell) -> object:
        return (cell.method.name, cell.data, cell.point)


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
