"""Tables of the CS224N paper from records, next to its figures."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from statistics import fmean

from pydantic import BaseModel, field_validator

from sentemb.errors import InputError
from sentemb.evaluation.schema import OVERALL, Record
from sentemb.experiments.experiment import published
from sentemb.experiments.summary import options_of
from sentemb.report.table import ABSENT, Table, mean_cell
from sentemb.training import get_recipe

COLUMNS = (OVERALL, "sentiment", "paraphrase", "similarity")
"""In the order of the paper."""

Scores = Mapping[str, float]
BySeed = Mapping[int, Mapping[str, Record]]


class PaperRow(BaseModel):
    """A row of a table."""

    label: str
    figures: tuple[float | None, ...]  # by COLUMNS, as fractions; None if the paper does not report one
    # One run; or one for each task, whose score is that of its own run; or none: the best of all runs.
    runs: tuple[str, ...]

    @field_validator("figures")
    @classmethod
    def _absent(cls, figures: tuple[float, ...]) -> tuple[float | None, ...]:
        return tuple(None if math.isnan(figure) else figure for figure in figures)


class PaperTable(BaseModel):
    """A table of the paper: its number, its title, and its rows in order."""

    number: int
    title: str
    rows: tuple[PaperRow, ...]


@cache
def paper_tables() -> tuple[PaperTable, ...]:
    """Read tables 1 to 10 of the paper."""
    return tuple(map(PaperTable.model_validate, published("multitask")["tables"]))


def multitask_tables(records: Sequence[Record]) -> list[Table]:
    """Make the tables of the paper that have a record."""
    seeds: dict[int, dict[str, Record]] = {}
    for record in records:
        rows = seeds.setdefault(record.seed or 0, {})
        if record.model in rows:
            problem = f"two records of {record.model} with seed {record.seed} differ in settings or data"
            raise InputError(problem, "keep each experiment in a separate folder")
        rows[record.model] = record
    made = [_table(paper, seeds) for paper in paper_tables()]
    return [table for table in made if any(row[1] != ABSENT for row in table.rows)]


def _table(paper: PaperTable, seeds: BySeed) -> Table:
    ours = [[one for runs in seeds.values() if (one := _scores(row, runs))] for row in paper.rows]
    rows = []
    for row, scores in zip(paper.rows, ours, strict=True):
        cells = []
        for name, figure in zip(COLUMNS, row.figures, strict=True):
            cells += [mean_cell([100 * one[name] for one in scores if name in one], 1)]
            cells += [ABSENT if figure is None else f"{100 * figure:.1f}"]
        rows.append((row.label, str(len(scores) or ABSENT), *cells))
    used = [runs[run] for row in paper.rows for runs in seeds.values() for run in row.runs if run in runs]
    return Table(
        title=f"Table {paper.number}: {paper.title}; dev sets, x 100",
        header=("row", "seeds", *(cell for name in COLUMNS for cell in (name, "paper"))),
        rows=tuple(rows),
        notes=(*_order_notes(paper, ours), *_setting_notes(used)),
    )


def _scores(row: PaperRow, runs: Mapping[str, Record]) -> Scores | None:
    """Return the scores of a row with one seed, None if one of its runs is missing."""
    if not row.runs:
        best = {task: max(_score(run, task, "best") for run in runs.values()) for task in COLUMNS[1:]}
        return {OVERALL: fmean(best.values()), **best}
    if not all(run in runs for run in row.runs):
        return None
    if len(row.runs) == 1:
        return {name: _score(runs[row.runs[0]], name) for name in COLUMNS}
    # A run on a single task is selected by that task, and does not count for the others.
    return {task: _score(runs[run], task, "best") for task, run in zip(COLUMNS[1:], row.runs, strict=True)}


def _score(record: Record, name: str, protocol: str = "all") -> float:
    """Return the score of a column. Each task has one metric."""
    return next(one.value for one in record.scores if (one.dataset, one.protocol) == (name, protocol))


def _order_notes(paper: PaperTable, ours: Sequence[Sequence[Scores]]) -> Iterator[str]:
    """Yield for each column how many pairs of rows are in the paper's order, and list the others."""
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
