"""One self-contained HTML page: headings, paragraphs, sortable tables, charts, and no second file."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sentemb.report.forest import ForestPlot
from sentemb.report.table import ABSENT, GROUP, Table

_NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


class Answer(NamedTuple):
    """A document that was found.

    Args:
        name: What it is called.
        text: What it says.
        right: Whether it answers the question.
    """

    name: str
    text: str
    right: bool


class Page:
    """A page that is written from top to bottom; all text is escaped, and the browser may load nothing.

    Args:
        title: Shown in the window's title and as the first heading.

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
        self._parts.append({"kind": "heading", "text": text, "anchor": f"section-{len(self._parts)}"})

    def text(self, text: str, *, style: Literal["verdict", "note"] | None = None) -> None:
        """Add a paragraph."""
        self._parts.append({"kind": "text", "text": text, "style": style})

    def commands(self, *lines: str) -> None:
        """Add commands to type."""
        self._parts.append({"kind": "commands", "lines": lines})

    def answers(self, question: str, found: Mapping[str, Sequence[Answer]]) -> None:
        """Add what several ways to search found for a question, side by side."""
        self._parts.append({"kind": "answers", "question": question, "found": found})

    def table(self, table: Table, *, folded: str = "") -> None:
        """Add a table, its notes below it; a click on a column's name sorts the rows by it.

        Args:
            table: The table.
            folded: What to click on to see it; by default it is seen at once.
        """
        groups = [[_cell(group or ABSENT)] for group in table.groups] or [[] for _ in table.rows]
        rows = [
            before
            + [
                _cell(text, bold=(number, column) in table.best, underlined=(number, column) in table.top)
                for column, text in enumerate(row)
            ]
            for number, (before, row) in enumerate(zip(groups, table.rows, strict=True))
        ]
        first = [GROUP] if table.groups else []
        self._parts.append(
            {
                "kind": "table",
                "title": table.title,
                "header": [*first, *table.header],
                "names": len(first) + table.names,
                "rows": rows,
                "notes": table.all_notes,
                "folded": folded,
            }
        )

    def charts(self, charts: Mapping[str, str]) -> None:
        """Add figures side by side, on a narrow page one below the other.

        Args:
            charts: Description, for those who cannot see it, to an SVG element of `figures.svg_of`.
        """
        drawn = [{"description": text, "svg": Markup(svg)} for text, svg in charts.items()]
        self._parts.append({"kind": "charts", "charts": drawn})

    def forest(self, plot: ForestPlot) -> None:
        """Add a forest plot."""
        self._parts.append({"kind": "forest", **plot.layout()})

    def html(self) -> str:
        """The page so far."""
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


def _cell(text: str, *, bold: bool = False, underlined: bool = False) -> dict[str, Any]:
    found = _NUMBER.search(text)
    value = None if found is None else float(found.group().replace(",", "").replace("−", "-"))
    return {"text": text, "bold": bold, "underlined": underlined, "value": value}


@cache
def _environment() -> Environment:
    loader = PackageLoader("sentemb", "report/templates")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined)


def _source(name: str) -> str:
    """A file of the package that goes into the page as it is."""
    return files("sentemb.report").joinpath("templates", name).read_text(encoding="utf-8")
