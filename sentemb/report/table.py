"""Tables of text cells in markdown and LaTeX, the pivot that makes them, and names of models in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest
from operator import itemgetter
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from sentemb.errors import InputError
from sentemb.evaluation.schema import first_problem
from sentemb.training.values import read_toml

if TYPE_CHECKING:
    import pandas as pd

ABSENT = "–"
GROUP = "base"  # heading of the groups of rows, where they are a column
_LATEX = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": "$<$",
    ">": "$>$",
    "\u200b": "{}",
    "–": "--",
    "…": r"\dots{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "ρ": r"$\rho$",
    "Δ": r"$\Delta$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
}
_DEVIATION = re.compile(r" \$\\pm\$ (\d+(?:\.\d+)?)")  # printed small and below the line, as in papers
_MAX_NORMAL_COLUMNS = 8  # a table with more columns is set in small letters
_TAG = re.compile(r"<(?=[A-Za-z/!?])")  # markdown would read a tag or a comment
_MEAN = re.compile(r"-?\d+\.\d+")


@dataclass(frozen=True)
class Table:
    """Text cells under a title that names measure and protocol.

    Attributes:
        title: The title.
        header: One cell per column.
        rows: The rows.
        notes: Notes on how to compare the rows.
        best: Cells to print in bold, as numbers of row and column from 0.
        names: Number of leading columns that hold names. The others hold numbers.
        groups: Group of each row, such as its base model; empty if rows are not grouped. Groups are headings
            between the rows in LaTeX, and a first column elsewhere.
        top: Cells to underline: the best of all rows, where bold means the best of a group. Markdown does not
            underline.

    Example:
        >>> print(Table("Scores", ("model", "STS-B"), (("bert-mini", "59.0"),)).markdown())
        **Scores**
        <BLANKLINE>
        | model | STS-B |
        |---|---:|
        | bert-mini | 59.0 |
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    best: frozenset[tuple[int, int]] = frozenset()
    names: int = 1
    groups: tuple[str, ...] = ()
    top: frozenset[tuple[int, int]] = frozenset()

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Notes, including the meaning of underlined cells."""
        return (*self.notes, *(["underlined: the best of all"] if self.top else []))

    def markdown(self) -> str:
        """Return the table in markdown."""
        first = [GROUP] if self.groups else []
        header, names = [*first, *self.header], len(first) + self.names
        lines = [f"**{_markdown(self.title)}**", ""] if self.title else []
        lines += [f"| {' | '.join(map(_markdown, header))} |"]
        lines += [f"|{names * '---|'}{(len(header) - names) * '---:|'}"]
        for group, row in zip_longest(self.groups, self._cells(_markdown, "**{}**", "{}")):
            cells = row if group is None else [_markdown(group or ABSENT), *row]
            lines.append(f"| {' | '.join(cells)} |")
        if self.notes:
            lines += ["", *(f"- {_markdown(note)}" for note in self.notes)]
        return "\n".join(lines) + "\n"

    def latex(self) -> str:
        """Return the table in LaTeX, for the package booktabs."""
        small = [r"\scriptsize\setlength{\tabcolsep}{2pt}"] if len(self.header) > _MAX_NORMAL_COLUMNS else []
        columns = self.names * "l" + (len(self.header) - self.names) * "r"
        lines = [
            *(r"\begin{table}", r"\centering", f"\\caption{{{escape_latex(self.title)}}}", *small),
            *(f"\\begin{{tabular}}{{{columns}}}", r"\toprule"),
            " & ".join(map(escape_latex, self.header)) + r" \\",
        ]
        rows = self._cells(
            lambda text: _DEVIATION.sub(r"$_{\\pm \1}$", escape_latex(text)),
            r"\textbf{{{}}}",
            r"\underline{{{}}}",
        )
        grouped = zip(self.groups or [""] * len(rows), rows, strict=True)
        for group, members in groupby(grouped, itemgetter(0)):
            lines.append(r"\midrule")
            if group:
                heading = rf"\textit{{{escape_latex(group)}}}"
                lines.append(rf"\multicolumn{{{len(self.header)}}}{{l}}{{{heading}}} \\")
            lines += [(r"\quad " if group else "") + " & ".join(row) + r" \\" for _, row in members]
        lines += [r"\bottomrule", r"\end{tabular}"]
        lines += [f"\\par\\footnotesize {escape_latex(note)}" for note in self.all_notes]
        return "\n".join([*lines, r"\end{table}"]) + "\n"

    def _cells(self, escape: Callable[[str], str], bold: str, underline: str) -> list[list[str]]:
        def formatted(place: tuple[int, int], text: str) -> str:
            text = underline.format(escape(text)) if place in self.top else escape(text)
            return bold.format(text) if place in self.best else text

        return [
            [formatted((number, column), text) for column, text in enumerate(row)]
            for number, row in enumerate(self.rows)
        ]


def mean_cell(values: Sequence[float], digits: int = 2, *, scale: float = 1.0) -> str:
    """Format mean ± sample standard deviation, a single value alone, and no value as a dash.

    Example:
        >>> mean_cell([59.0, 60.0, 61.0])
        '60.00 ± 1.00'
    """
    if not values:
        return ABSENT
    mean = f"{scale * fmean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {scale * stdev(values):.{digits}f}"


def pivot(
    frame: pd.DataFrame,
    *,
    title: str,
    rows: Mapping[str, str],
    column: str,
    order: Mapping[str, str],
    cell: Callable[[pd.DataFrame], str] = lambda runs: mean_cell([*runs["value"]]),
    complete: bool = True,
    notes: Iterable[str] = (),
) -> Table:
    """Turn a long frame with one score per row into a table.

    `rows` are the columns whose values identify a row, and `order` the values of `column` that become
    columns, each with its heading. `cell` formats the part of the frame that belongs to a cell. With
    `complete`, a cell with fewer scores than another cell of its row is a dash.
    """
    made = []
    for key, runs in frame.groupby([*rows], sort=False, dropna=False):
        parts = dict(iter(runs.groupby(column)))
        enough = max(map(len, parts.values())) if complete else 1
        cells = [cell(parts[one]) if len(parts.get(one, ())) >= enough else ABSENT for one in order]
        made.append((*map(str, key), *cells))
    return Table(title, (*rows.values(), *order.values()), tuple(made), notes=tuple(notes))


_Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True)
class Label:
    """Name of a model in tables.

    Attributes:
        base: Base model. Rows of one base form a group.
        method: Training method.
        pooling: Pooling of the sentence vector.

    Example:
        >>> Label("bert-mini", "SimCSE", "cls").method
        'SimCSE'
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    base: _Text
    method: _Text
    pooling: _Text

    def __str__(self) -> str:
        return f"{self.method} of {self.base} ({self.pooling})"


def read_labels(folder: Path) -> dict[str, Label]:
    """Read `labels.toml`: a table for each model, in the order of the rows. The file is optional.

    Example:
        >>> read_labels(Path("records"))
        {}
    """
    path = folder / "labels.toml"
    if not path.is_file():
        return {}
    try:
        return TypeAdapter(dict[str, Label]).validate_python(read_toml(path))
    except ValidationError as error:
        hint = "set base, method and pooling for each model, and nothing else"
        raise InputError(f"{path}, {first_problem(error)}", hint) from None


def label_table(table: Table, labels: Mapping[str, Label]) -> Table:
    """Replace model names by labels, and group the rows by base."""
    if not any(row[0] in labels for row in table.rows):
        return table
    order, bases = [*labels], [*dict.fromkeys(label.base for label in labels.values())]

    def place(row: tuple[str, ...]) -> tuple[int, int]:
        label = labels.get(row[0])
        return (len(bases), 0) if label is None else (bases.index(label.base), order.index(row[0]))

    rows = sorted(table.rows, key=place)
    found = [labels.get(row[0]) or Label("", row[0], ABSENT) for row in rows]
    return replace(
        table,
        header=("method", "pooling", *table.header[1:]),
        rows=tuple((one.method, one.pooling, *row[1:]) for one, row in zip(found, rows, strict=True)),
        names=2,
        groups=tuple(one.base for one in found),
    )


def mark_best(table: Table) -> Table:
    """Mark the best scores, as SG-BERT's table 1 does.

    The best score of a base with several rows is bold. With several bases, the best score of a column is
    underlined. In a table without bases, the best score of a column is bold.
    """
    groups = table.groups or ("",) * len(table.rows)
    members = [[row for row, of in enumerate(groups) if of == group] for group in dict.fromkeys(groups)]
    compared = [rows for rows in members if len(rows) > 1]
    every_row = range(len(groups) if len(members) > 1 else 0)
    columns = range(table.names + 1, len(table.header))
    note = f"bold: the best of its {GROUP}" if table.groups else "bold: the best"
    return replace(
        table,
        notes=(*table.notes, *([note] if compared else [])),
        best=frozenset(one for rows in compared for x in columns for one in best_cells(table.rows, rows, x)),
        top=frozenset(one for x in columns for one in best_cells(table.rows, every_row, x)),
    )


def best_cells(cells: Sequence[Sequence[str]], rows: Iterable[int], column: int) -> Iterator[tuple[int, int]]:
    """Yield the places of the highest printed mean of a column among some rows."""
    values = {row: float(found.group()) for row in rows if (found := _MEAN.match(cells[row][column]))}
    yield from ((row, column) for row, value in values.items() if value == max(values.values()))


def escape_latex(text: str) -> str:
    """Escape text for LaTeX; two hyphens in a row stay two hyphens."""
    plain = " ".join(text.split()).replace("--", "-\u200b-")
    return "".join(_LATEX.get(character, character) for character in plain)


def _markdown(text: str) -> str:
    return _TAG.sub(r"\\<", " ".join(text.split()).replace("|", "\\|"))
