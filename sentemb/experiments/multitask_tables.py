"""The tables of the CS224N paper from the records of our runs, with its figures beside ours."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import combinations
from statistics import fmean
from typing import Any

from pydantic import BaseModel, field_validator

from sentemb.errors import InputError
from sentemb.evaluation.schema import OVERALL, Record
from sentemb.report.table import ABSENT, Table, mean_cell
from sentemb.training import get_recipe

COLUMNS = (OVERALL, "sentiment", "paraphrase", "similarity")
"""In the order of the paper."""

Scores = Mapping[str, float]
BySeed = Mapping[int, Mapping[str, Record]]


class PaperRow(BaseModel):
    """A row of a table."""

    label: str
    figures: tuple[float | None, ...]  # by COLUMNS, as fractions; None where the paper reports nothing
    # One; or one for each task, where a score is that of the task's own run; or none: the best of all runs.
    runs: tuple[str, ...]

    @field_validator("figures")
    @classmethod
    def _absent(cls, figures: tuple[float, ...]) -> tuple[float | None, ...]:
        return tuple(None if math.isnan(figure) else figure for figure in figures)


class PaperTable(BaseModel):
    """A table of the paper: its number, what it compares, and its rows in order."""

    number: int
    title: str
    rows: tuple[PaperRow, ...]


@cache
def paper_tables() -> tuple[PaperTable, ...]:
    """Tables 1 to 10 of the paper."""
    file = resources.files("sentemb.experiments") / "published" / "multitask.toml"
    tables = tomllib.loads(file.read_text(encoding="utf-8"))["tables"]
    return tuple(map(PaperTable.model_validate, tables))


def multitask_tables(records: Sequence[Record]) -> list[Table]:
    """Make the tables of the paper of which some row was run."""
    seeds: dict[int, dict[str, Record]] = {}
    for record in records:
        rows = seeds.setdefault(record.seed or 0, {})
        if record.model in rows:
            raise InputError(
                f"two records of {record.model} with seed {record.seed} differ in settings or data",
                "keep each experiment in a separate folder",
            )
        rows[record.model] = record
    made = [_table(paper, seeds) for paper in paper_tables()]
    return [table for table in made if any(row[1] != ABSENT for row in table.rows)]


def _table(paper: PaperTable, seeds: BySeed) -> Table:
    ours = [_over_seeds(row, seeds) for row in paper.rows]
    rows = tuple(
        (row.label, str(len(scores) or ABSENT), *_cells(row, scores))
        for row, scores in zip(paper.rows, ours, strict=True)
    )
    used = [runs[run] for row in paper.rows for runs in seeds.values() for run in row.runs if run in runs]
    return Table(
        title=f"Table {paper.number}: {paper.title}; dev sets, x 100",
        header=("row", "seeds", *(cell for name in COLUMNS for cell in (name, "paper"))),
        rows=rows,
        notes=(*_order_notes(paper, ours), *_setting_notes(used)),
    )


def _over_seeds(row: PaperRow, seeds: BySeed) -> list[Scores]:
    """The row's scores with each seed that has all of its runs."""
    found = []
    for runs in seeds.values():
        if not row.runs:
            found.append(_of_ensemble(list(runs.values())))
        elif all(run in runs for run in row.runs):
            found.append(_of_runs([runs[run] for run in row.runs]))
    return found


def _of_runs(records: Sequence[Record]) -> Scores:
    if len(records) == 1:
        return {name: _score(records[0], name) for name in COLUMNS}
    # A run on a single task is chosen by that task, and has nothing to say on the others.
    return {task: _score(record, task, "best") for task, record in zip(COLUMNS[1:], records, strict=True)}


def _of_ensemble(records: Sequence[Record]) -> Scores:
    best = {task: max(_score(record, task, "best") for record in records) for task in COLUMNS[1:]}
    return {OVERALL: fmean(best.values()), **best}


def _score(record: Record, name: str, protocol: str = "all") -> float:
    """A score by its column; each task has one metric."""
    return next(one.value for one in record.scores if (one.dataset, one.protocol) == (name, protocol))


def _cells(row: PaperRow, scores: Sequence[Scores]) -> list[str]:
    cells = []
    for name, figure in zip(COLUMNS, row.figures, strict=True):
        values = [100 * one[name] for one in scores if name in one]
        cells += [mean_cell(values, 1), ABSENT if figure is None else f"{100 * figure:.1f}"]
    return cells


def _order_notes(paper: PaperTable, ours: Sequence[Sequence[Scores]]) -> list[str]:
    """For each column, how many pairs of rows are in the paper's order, and how many clearly are not."""
    notes = []
    for column, name in enumerate(COLUMNS):
        known = [
            (figure, 100 * fmean(values), row.label)
            for row, scores in zip(paper.rows, ours, strict=True)
            if (figure := row.figures[column]) is not None
            and (values := [one[name] for one in scores if name in one])
        ]
        pairs = [sorted(pair, reverse=True) for pair in combinations(known, 2) if pair[0][0] != pair[1][0]]
        against = [
            f"; not {better} over {worse} ({one - other:+.1f})"
            for (_, one, better), (_, other, worse) in pairs
            if one <= other
        ]
        if pairs:
            held = f"{len(pairs) - len(against)} of {len(pairs)}"
            notes.append(f"{name}: {held} pairs of rows are in the order of the paper{''.join(against)}")
    return notes


def _setting_notes(records: Sequence[Record]) -> list[str]:
    """The data, and what the runs have otherwise than the paper."""
    if not records:
        return []
    sizes = records[0].details["sizes"]
    told = {split: ", ".join(f"{rows} {task}" for task, rows in of.items()) for split, of in sizes.items()}
    others = sorted({f"{name} {value}" for record in records for name, value in _own_settings(record)})
    return [
        f"trained on {told['train']} rows, selected by and reported on {told['dev']} rows",
        f"settings that differ from the paper: {', '.join(others)}",
    ]


def _own_settings(record: Record) -> list[tuple[str, str]]:
    papers = get_recipe(record.model).values("paper")
    options = {} if record.trial is None else record.trial.options
    return [
        (name, value if isinstance(value, str) else _written(value))
        for name, value in options.items()
        if name in papers and _written(value) != _written(papers[name])
    ]


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
