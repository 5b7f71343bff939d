"""Tables of text cells in markdown and LaTeX, and the pivot that makes them from a long frame of scores."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from operator import itemgetter
from statistics import fmean, stdev
from typing import TYPE_CHECKING

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
            *self._latex_rows(),
            *(r"\bottomrule", r"\end{tabular}"),
            *(f"\\par\\footnotesize {escape_latex(note)}" for note in self.all_notes),
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def _latex_rows(self) -> Iterator[str]:
        cells = self._cells(_latex_cell, r"\textbf{{{}}}", r"\underline{{{}}}")
        lines = [" & ".join(row) + r" \\" for row in cells]
        grouped = zip(self.groups or [""] * len(lines), lines, strict=True)
        for group, members in groupby(grouped, itemgetter(0)):
            yield r"\midrule"
            if group:
                yield f"\\multicolumn{{{len(self.header)}}}{{l}}{{\\textit{{{escape_latex(group)}}}}} \\\\"
            yield from ((r"\quad " if group else "") + line for _, line in members)

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


def mean_of_runs(runs: pd.DataFrame) -> str:
    """Format the column `value` as mean ± sample standard deviation."""
    return mean_cell([*runs["value"]])


def pivot(
    frame: pd.DataFrame,
    *,
    title: str,
    rows: Mapping[str, str],
    column: str,
    order: Mapping[str, str],
    cell: Callable[[pd.DataFrame], str] = mean_of_runs,
    complete: bool = True,
    notes: Sequence[str] = (),
    names: int = 1,
) -> Table:
    """Turn a long frame with one score per row into a table.

    Args:
        frame: The scores, in the order of the table's rows.
        title: Title of the table.
        rows: Columns of the frame whose values identify a row, each with its heading.
        column: Column of the frame whose values become columns.
        order: The values that become columns, each with its heading.
        cell: Formats the part of the frame that belongs to a cell.
        complete: Print a dash if a cell has fewer scores than another cell of its row.
        notes: Notes of the table.
        names: Number of leading columns that hold names.

    Returns:
        The table.
    """
    made = []
    for key, runs in frame.groupby([*rows], sort=False, dropna=False):
        parts = dict(iter(runs.groupby(column)))
        enough = max(map(len, parts.values())) if complete else 1
        cells = [cell(parts[one]) if len(parts.get(one, ())) >= enough else ABSENT for one in order]
        made.append((*map(str, key), *cells))
    return Table(title, (*rows.values(), *order.values()), tuple(made), notes=tuple(notes), names=names)


def escape_latex(text: str) -> str:
    """Escape text for LaTeX; two hyphens in a row stay two hyphens."""
    plain = " ".join(text.split()).replace("--", "-\u200b-")
    return "".join(_LATEX.get(character, character) for character in plain)


def _latex_cell(text: str) -> str:
    return _DEVIATION.sub(r"$_{\\pm \1}$", escape_latex(text))


def _markdown(text: str) -> str:
    return _TAG.sub(r"\\<", " ".join(text.split()).replace("|", "\\|"))
