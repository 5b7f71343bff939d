"""Reports: sections with tables and figures, as markdown, LaTeX, or one self-contained HTML page."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sentemb.report.table import ABSENT, GROUP, Table, escape_latex

_NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


class Answer(NamedTuple):
    """A retrieved document."""

    name: str
    text: str
    right: bool  # it is relevant


@dataclass(frozen=True)
class Section:
    """A part of a report.

    Attributes:
        name: Name in the marks of a document: a word.
        heading: Its heading.
        sentences: Its sentences.
        tables: Its tables.
        charts: Its figures, only on the page: alternative text to an SVG element of `svg_of`.

    Example:
        >>> section = Section("sts", "STS", sentences=("SimCSE is better than its base.",))
    """

    name: str
    heading: str
    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: Mapping[str, str] = field(default_factory=dict)

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
        first = [GROUP] if table.groups else []
        rows = [[_cell(group or ABSENT)] for group in table.groups] or [[] for _ in table.rows]
        for number, row in enumerate(table.rows):
            for column, text in enumerate(row):
                place = (number, column)
                rows[number].append(_cell(text, place in table.best, place in table.top))
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
        drawn = [{"description": text, "svg": Markup(svg)} for text, svg in charts.items()]
        self._add("charts", charts=drawn)

    def html(self) -> str:
        """Return the page so far."""
        pages = _templates()
        assert pages.loader is not None
        style, script = (pages.loader.get_source(pages, name)[0] for name in ("page.css", "page.js"))
        digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
        written: str = pages.get_template("page.html").render(
            title=self._title,
            parts=self._parts,
            headings=[part for part in self._parts if part["kind"] == "heading"],
            style=Markup(style),
            script=Markup(script),
            script_hash=f"sha256-{digest}",
        )
        return written

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
        if one.charts:
            page.charts(one.charts)
        for table in one.tables:
            page.table(table)
    return page.html()


def _cell(text: str, bold: bool = False, underlined: bool = False) -> dict[str, Any]:
    found = _NUMBER.search(text)
    value = None if found is None else float(found.group().replace(",", "").replace("−", "-"))
    return {"text": text, "bold": bold, "underlined": underlined, "value": value}


@cache
def _templates() -> Environment:
    loader = PackageLoader("sentemb", "report/templates")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
