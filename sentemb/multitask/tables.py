"""The paper's tables from the records of our runs, with the paper's figures beside ours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean, stdev
from typing import Any

from sentemb.errors import InputError
from sentemb.evaluation.table import ABSENT, Table
from sentemb.multitask.evaluation import METRICS, OVERALL
from sentemb.multitask.paper import PAPER_TABLES, PaperRow, PaperTable
from sentemb.multitask.recipes import multitask_recipe
from sentemb.multitask.records import RowRecord
from sentemb.multitask.study import first_alike
from sentemb.multitask.tasks import TASKS

COLUMNS = {OVERALL: "overall", **{METRICS[task]: task for task in TASKS}}
"""Heading of each score, in the order of the paper."""

Scores = Mapping[str, float]
BySeed = Mapping[int, Mapping[str, RowRecord]]


def multitask_tables(records: Sequence[RowRecord], tables: Sequence[int]) -> list[Table]:
    """Make tables of the paper.

    Args:
        records: Records of one study: the same base, data and settings beside those of the rows.
        tables: Numbers from 1 to 10.

    Returns:
        A table for each number: mean ± sample standard deviation over seeds x 100 and the paper's figure
        beside it, with notes on where the paper's order holds. A row that was not run is dashes.

    Raises:
        InputError: Two records are of the same row and seed, or of different data.
    """
    seeds: dict[int, dict[str, RowRecord]] = {}
    for record in records:
        rows = seeds.setdefault(record.seed, {})
        if record.row in rows:
            raise InputError(
                f"two records of {record.row} with seed {record.seed}, of different settings or data",
                "keep each study in a folder of its own",
            )
        rows[record.row] = record
    return [_table(number, PAPER_TABLES[number], seeds) for number in tables]


def _table(number: int, paper: PaperTable, seeds: BySeed) -> Table:
    ours = [_over_seeds(row, seeds) for row in paper.rows]
    rows = tuple(
        (row.label, str(len(scores) or ABSENT), *_cells(row, scores))
        for row, scores in zip(paper.rows, ours, strict=True)
    )
    used = [record for row in paper.rows for record in _records_of(row, seeds)]
    return Table(
        title=f"Table {number}: {paper.title}; dev sets, x 100",
        header=("row", "seeds", *(cell for name in COLUMNS.values() for cell in (name, "paper"))),
        rows=rows,
        notes=(*_order_notes(paper, ours), *_setting_notes(used)),
    )


def _over_seeds(row: PaperRow, seeds: BySeed) -> list[Scores]:
    """The row's scores with each seed that has all of its runs."""
    found = []
    for runs in seeds.values():
        if not row.runs:
            found.append(_of_ensemble(runs))
        elif all(first_alike(run) in runs for run in row.runs):
            found.append(_of_runs(row, [runs[first_alike(run)] for run in row.runs]))
    return found


def _of_runs(row: PaperRow, records: Sequence[RowRecord]) -> Scores:
    if len(records) == 1:
        return records[0].scores
    # A run on a single task is chosen by that task, and has nothing to say on the others.
    return {METRICS[task]: record.best[METRICS[task]] for task, record in zip(TASKS, records, strict=True)}


def _of_ensemble(runs: Mapping[str, RowRecord]) -> Scores:
    best = {METRICS[task]: max(record.best[METRICS[task]] for record in runs.values()) for task in TASKS}
    return {OVERALL: fmean(best.values()), **best}


def _cells(row: PaperRow, scores: Sequence[Scores]) -> list[str]:
    cells = []
    for metric, figure in zip(COLUMNS, row.figures, strict=True):
        values = [100 * one[metric] for one in scores if metric in one]
        mean = f"{fmean(values):.1f}" if values else ABSENT
        cells.append(mean + (f" ± {stdev(values):.1f}" if len(values) > 1 else ""))
        cells.append(ABSENT if figure is None else f"{100 * figure:.1f}")
    return cells


def _order_notes(paper: PaperTable, ours: Sequence[Sequence[Scores]]) -> list[str]:
    """For each column, how many pairs of rows are in the paper's order, and how many clearly are not."""
    notes = []
    for column, metric in enumerate(COLUMNS):
        compared: list[tuple[bool, str]] = []
        for first, second in combinations(range(len(paper.rows)), 2):
            theirs = paper.rows[first].figures[column], paper.rows[second].figures[column]
            values = [[100 * one[metric] for one in ours[row] if metric in one] for row in (first, second)]
            if None in theirs or theirs[0] == theirs[1] or not all(values):
                continue
            better, worse = (first, second) if theirs[0] > theirs[1] else (second, first)  # type: ignore[operator]
            difference = _mean_of(ours[better], metric) - _mean_of(ours[worse], metric)
            told = f"{paper.rows[better].label} over {paper.rows[worse].label} ({difference:+.1f})"
            compared.append((difference > 0, told))
        if compared:
            against = "; not ".join(told for agrees, told in compared if not agrees)
            held = sum(agrees for agrees, _ in compared)
            other = f"; not {against}" if against else ""
            notes.append(
                f"{COLUMNS[metric]}: {held} of {len(compared)} pairs of rows in the paper's order{other}"
            )
    return notes


def _mean_of(scores: Sequence[Scores], metric: str) -> float:
    return 100 * fmean(one[metric] for one in scores if metric in one)


def _records_of(row: PaperRow, seeds: BySeed) -> list[RowRecord]:
    return [runs[first_alike(run)] for runs in seeds.values() for run in row.runs if first_alike(run) in runs]


def _setting_notes(records: Sequence[RowRecord]) -> list[str]:
    """The data, and what the runs have otherwise than the paper."""
    if not records:
        return []
    sizes = records[0].sizes
    told = {split: ", ".join(f"{rows} {task}" for task, rows in of.items()) for split, of in sizes.items()}
    others = sorted({f"{name} {value}" for record in records for name, value in _own_settings(record)})
    return [
        f"trained on {told['train']} rows, chosen by and reported on {told['dev']} rows",
        f"otherwise than the paper: {', '.join(others)}",
    ]


def _own_settings(record: RowRecord) -> list[tuple[str, str]]:
    papers = multitask_recipe(record.row).values("paper")
    return [
        (name, value if isinstance(value, str) else _written(value))
        for name, value in record.settings.items()
        if name in papers and _written(value) != _written(papers[name])
    ]


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
