"""Results as a table of text cells, for a terminal, markdown or LaTeX; the report's page draws it as HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

ABSENT = "–"
# What the rows of a group have in common, where a table has no headings between rows.
GROUP = "base"
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
# As papers write it, small and below the line.
_DEVIATION = re.compile(r" \$\\pm\$ (\d+(?:\.\d+)?)")
# More columns than that are wider than a page in letters of the usual size.
_NARROW = 8
# Where markdown would read a tag or a comment.
_TAG = re.compile(r"<(?=[A-Za-z/!?])")


@dataclass(frozen=True)
class Table:
    """Text cells under a title that names measure and protocol.

    Attributes:
        title: The title.
        header: One cell per column.
        rows: The rows.
        notes: Whatever a reader must know before comparing rows.
        best: The cells to print in bold, as numbers of row and column from 0.
        names: How many of the first columns hold names; the others hold numbers.
        groups: What each row has in common with those around it, such as its base model: a heading between
            rows in LaTeX, a column before the others elsewhere; empty where there is no such thing, and an
            empty string for a row of none.
        top: The cells to underline, where bold means the best of a group and these are the best of all.
            Markdown has no underlining.

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

    def markdown(self) -> str:
        """The table in markdown."""
        title = [f"**{_markdown(self.title)}**", ""] if self.title else []
        lines = [*title, *self._markdown_rows()]
        if self.notes:
            lines += ["", *(f"- {_markdown(note)}" for note in self.notes)]
        return "\n".join(lines) + "\n"

    def _markdown_rows(self) -> Iterator[str]:
        beside = [_markdown(group or ABSENT) for group in self.groups]
        header, names = ((GROUP, *self.header), self.names + 1) if beside else (self.header, self.names)
        yield f"| {' | '.join(map(_markdown, header))} |"
        yield f"|{names * '---|'}{(len(header) - names) * '---:|'}"
        for number, row in enumerate(self._cells("**{}**", _markdown)):
            yield f"| {' | '.join([*beside[number : number + 1], *row])} |"

    @property
    def all_notes(self) -> tuple[str, ...]:
        """The notes, with what underlining means where there is some."""
        return (*self.notes, *(["underlined: the best of all"] if self.top else []))

    def latex(self) -> str:
        """The table in LaTeX, for the package booktabs."""
        columns = self.names * "l" + (len(self.header) - self.names) * "r"
        lines = [r"\begin{table}", r"\centering", f"\\caption{{{escape_latex(self.title)}}}"]
        if len(self.header) > _NARROW:
            lines.append(r"\scriptsize\setlength{\tabcolsep}{2pt}")
        lines += [f"\\begin{{tabular}}{{{columns}}}", r"\toprule"]
        lines.append(" & ".join(map(escape_latex, self.header)) + r" \\")
        lines += self._latex_rows()
        lines += [r"\bottomrule", r"\end{tabular}"]
        lines += [f"\\par\\footnotesize {escape_latex(note)}" for note in self.all_notes]
        return "\n".join([*lines, r"\end{table}"]) + "\n"

    def _latex_rows(self) -> Iterator[str]:
        cells = self._cells(r"\textbf{{{}}}", _latex_cell, underline=r"\underline{{{}}}")
        lines = [" & ".join(row) + r" \\" for row in cells]
        grouped = zip(self.groups or [""] * len(lines), lines, strict=True)
        for group, members in groupby(grouped, itemgetter(0)):
            yield r"\midrule"
            if group:
                yield f"\\multicolumn{{{len(self.header)}}}{{l}}{{\\textit{{{escape_latex(group)}}}}} \\\\"
            yield from ((r"\quad " if group else "") + line for _, line in members)

    def _cells(self, bold: str, escape: Callable[[str], str], underline: str = "{}") -> list[list[str]]:
        def shown(number: int, column: int, cell: str) -> str:
            written = escape(cell)
            if (number, column) in self.top:
                written = underline.format(written)
            return bold.format(written) if (number, column) in self.best else written

        return [
            [shown(number, column, cell) for column, cell in enumerate(row)]
            for number, row in enumerate(self.rows)
        ]


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it stands."""
    # Two hyphens in a row would be printed as a dash.
    plain = " ".join(text.split()).replace("--", "-\u200b-")
    return "".join(_LATEX.get(character, character) for character in plain)


def _latex_cell(text: str) -> str:
    return _DEVIATION.sub(r"$_{\\pm \1}$", escape_latex(text))


def _markdown(text: str) -> str:
    return _TAG.sub(r"\\<", " ".join(text.split()).replace("|", "\\|"))
