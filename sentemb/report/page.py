"""Reports: sections with tables and figures, as markdown, LaTeX, or one self-contained HTML page."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sentemb.report.table import ABSENT, GROUP, Table, escape_latex

_NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
_TICKS, _MARGIN = 5, 0.04  # of a forest plot: ticks of the axis, and the share of the width free on each side


class Answer(NamedTuple):
    """A retrieved document.

    Args:
        name: Name of the document.
        text: Text of the document.
        right: Whether it is relevant.
    """

    name: str
    text: str
    right: bool


@dataclass(frozen=True)
class Estimate:
    """A row of a forest plot.

    Attributes:
        name: The system.
        size: Its difference from the baseline.
        low: Lower end of the interval.
        high: Upper end.
        significant: Whether the difference is significant.

    Example:
        >>> Estimate("simcse", 3.2, 2.7, 3.7, True).size
        3.2
    """

    name: str
    size: float
    low: float
    high: float
    significant: bool


@dataclass(frozen=True)
class ForestPlot:
    """Differences from one baseline with their intervals, drawn on a common axis.

    Attributes:
        title: Title of the plot.
        axis: Label of the axis.
        estimates: The rows.

    Example:
        >>> plot = ForestPlot("Against the base", "difference", [Estimate("simcse", 3.2, 2.7, 3.7, True)])
    """

    title: str
    axis: str
    estimates: Sequence[Estimate]

    def layout(self) -> dict[str, Any]:
        """Return the places of all elements in percent of the width, for the template of the page."""
        ends = [0.0, *(end for one in self.estimates for end in (one.low, one.high))]
        span = (max(ends) - min(ends)) or 1.0
        low, high = min(ends) - _MARGIN * span, max(ends) + _MARGIN * span

        def place(value: float) -> float:
            return round(100 * (value - low) / (high - low), 2)

        rough = (high - low) / _TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
        ticks = [round(x * step, 10) for x in range(math.ceil(low / step), math.floor(high / step) + 1)]
        return {
            "title": self.title,
            "axis": self.axis,
            "zero": place(0.0),
            "ticks": [{"place": place(tick), "text": f"{tick:+g}" if tick else "0"} for tick in ticks],
            "rows": [
                {
                    "name": one.name,
                    "estimate": place(one.size),
                    "low": place(one.low),
                    "high": place(one.high),
                    "text": f"{one.size:+.2f}  ({one.low:+.2f} to {one.high:+.2f})",
                    "significant": one.significant,
                }
                for one in self.estimates
            ],
        }


@dataclass(frozen=True)
class Chart:
    """A figure of the page.

    Attributes:
        svg: An SVG element, see `figures.svg_of`.
        description: Alternative text.

    Example:
        >>> Chart("<svg></svg>", "a curve").description
        'a curve'
    """

    svg: str
    description: str


@dataclass(frozen=True)
class Section:
    """A part of a report.

    Attributes:
        name: Name in the marks of a document: a word.
        heading: Its heading.
        sentences: Its sentences.
        tables: Its tables.
        charts: Its figures, only on the page.
        forests: Its forest plots, only on the page.

    Example:
        >>> section = Section("sts", "STS", sentences=("SimCSE is better than its base.",))
    """

    name: str
    heading: str
    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    forests: tuple[ForestPlot, ...] = ()

    def markdown(self) -> str:
        """Return the sentences as a list, then the tables."""
        listed = "".join(f"- {sentence}\n" for sentence in self.sentences)
        return "\n".join([*([listed] if listed else []), *(table.markdown() for table in self.tables)])


class Page:
    """A page that is written from top to bottom. All text is escaped, and the browser may load nothing.

    Args:
        title: Title of the window and first heading.

    Example:
        >>> page = Page("Result")
        >>> page.text("It works.")
        >>> "<p>It works.</p>" in page.html()
        True
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[dict[str, Any]] = []

    def heading(self, text: str) -> None:
        """Start a section."""
        self._add("heading", text=text, anchor=f"section-{len(self._parts)}")

    def text(self, text: str, *, style: Literal["verdict", "note"] | None = None) -> None:
        """Add a paragraph."""
        self._add("text", text=text, style=style)

    def commands(self, *lines: str) -> None:
        """Add shell commands."""
        self._add("commands", lines=lines)

    def answers(self, question: str, found: Mapping[str, Sequence[Answer]]) -> None:
        """Add the hits of several search methods for a question, side by side."""
        self._add("answers", question=question, found=found)

    def table(self, table: Table, *, folded: str = "") -> None:
        """Add a table with its notes. A click on the name of a column sorts the rows by it.

        Args:
            table: The table.
            folded: Summary of a folded table; by default the table is open.
        """
        groups = [[_cell(group or ABSENT)] for group in table.groups] or [[] for _ in table.rows]
        rows = [
            before
            + [_cell(x, (row, column) in table.best, (row, column) in table.top) for column, x in cells]
            for row, (before, cells) in enumerate(zip(groups, map(enumerate, table.rows), strict=True))
        ]
        first = [GROUP] if table.groups else []
        self._add(
            "table",
            title=table.title,
            header=[*first, *table.header],
            names=len(first) + table.names,
            rows=rows,
            notes=table.all_notes,
            folded=folded,
        )

    def charts(self, charts: Mapping[str, str]) -> None:
        """Add figures side by side, on a narrow page one below the other.

        Args:
            charts: Alternative text to an SVG element of `figures.svg_of`.
        """
        self._add(
            "charts", charts=[{"description": text, "svg": Markup(svg)} for text, svg in charts.items()]
        )

    def forest(self, plot: ForestPlot) -> None:
        """Add a forest plot."""
        self._add("forest", **plot.layout())

    def html(self) -> str:
        """Return the page so far."""
        script = _source("page.js")
        digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
        return (
            _environment()
            .get_template("page.html")
            .render(
                title=self._title,
                parts=self._parts,
                headings=[part for part in self._parts if part["kind"] == "heading"],
                style=Markup(_source("page.css")),
                script=Markup(script),
                script_hash=f"sha256-{digest}",
            )
        )

    def _add(self, kind: str, **values: Any) -> None:
        self._parts.append({"kind": kind, **values})


def markdown_report(title: str, sections: Sequence[Section]) -> str:
    """Write all sections in markdown.

    Example:
        >>> section = Section("sts", "STS", sentences=("SimCSE is better than its base.",))
        >>> print(markdown_report("Report", [section]))
        # Report
        <BLANKLINE>
        ## STS
        <BLANKLINE>
        - SimCSE is better than its base.
    """
    parts = [f"## {one.heading}\n\n{one.markdown()}" for one in sections if one.sentences or one.tables]
    return "\n".join([f"# {title}\n", *parts])


def latex_report(sections: Sequence[Section]) -> str:
    r"""Write all sentences and tables in LaTeX, for `\input`.

    Example:
        >>> text = latex_report([Section("sts", "STS", sentences=("SimCSE is better.",))])
    """
    parts = ["% \\usepackage{booktabs}\n"]
    for one in sections:
        parts += [escape_latex(sentence) + "\n" for sentence in one.sentences]
        parts += [table.latex() for table in one.tables]
    return "\n".join(parts)


def html_report(title: str, sections: Sequence[Section], *, verdicts: Sequence[str] = ()) -> str:
    """Write all sections as one page, the verdicts first.

    Example:
        >>> page = html_report("Report", [Section("sts", "STS", sentences=("SimCSE is better.",))])
        >>> page[:15]
        '<!doctype html>'
    """
    page = Page(title)
    for verdict in verdicts:
        page.text(verdict, style="verdict")
    if any(one.tables for one in sections):
        page.text("Click a column name to sort by it. Click again to reverse the order.", style="note")
    for one in sections:
        page.heading(one.heading)
        for sentence in one.sentences:
            page.text(sentence)
        for plot in one.forests:
            page.forest(plot)
        if one.charts:
            page.charts({chart.description: chart.svg for chart in one.charts})
        for table in one.tables:
            page.table(table)
    return page.html()


def _cell(text: str, bold: bool = False, underlined: bool = False) -> dict[str, Any]:
    found = _NUMBER.search(text)
    value = None if found is None else float(found.group().replace(",", "").replace("−", "-"))
    return {"text": text, "bold": bold, "underlined": underlined, "value": value}


@cache
def _environment() -> Environment:
    loader = PackageLoader("sentemb", "report/templates")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined)


def _source(name: str) -> str:
    """Read a file of the package that goes into the page unchanged."""
    return files("sentemb.report").joinpath("templates", name).read_text(encoding="utf-8")
