"""The sections of a report, written as markdown, as LaTeX, or as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sentemb.report.forest import ForestPlot
from sentemb.report.page import Page
from sentemb.report.table import Table, escape_latex


@dataclass(frozen=True)
class Chart:
    """A figure of the page.

    Attributes:
        svg: An SVG element, see `figures.svg_of`.
        description: What it shows, for those who cannot see it.

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
        name: What the marks of a document call it: a word.
        heading: Its heading.
        sentences: What there is to say, each a sentence.
        tables: Its tables.
        charts: Its figures, which only the page shows.
        forests: Its forest plots, which only the page shows.

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
        """The sentences as a list, then the tables."""
        listed = "".join(f"- {sentence}\n" for sentence in self.sentences)
        return "\n".join([*([listed] if listed else []), *(table.markdown() for table in self.tables)])


def markdown_report(title: str, sections: Sequence[Section]) -> str:
    """All sections in markdown.

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
    r"""All sentences and tables in LaTeX, to be read by `\input`.

    Example:
        >>> text = latex_report([Section("sts", "STS", sentences=("SimCSE is better.",))])
    """
    parts = ["% \\usepackage{booktabs}\n"]
    for one in sections:
        parts += [escape_latex(sentence) + "\n" for sentence in one.sentences]
        parts += [table.latex() for table in one.tables]
    return "\n".join(parts)


def html_report(title: str, sections: Sequence[Section], *, verdicts: Sequence[str] = ()) -> str:
    """All sections as one page, the verdicts first.

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
