"""One self-contained HTML page: headings, paragraphs, tables and pictures, no script and no second file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; max-width: 62rem; margin: 2rem auto;
  padding: 0 1rem }
h1 { font-size: 1.7rem } h2 { font-size: 1.2rem; margin-top: 2.2rem }
table { border-collapse: collapse; margin: .8rem 0 }
th, td { padding: .3rem .8rem; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top }
td.number { text-align: right; font-variant-numeric: tabular-nums }
img { max-width: 100% } p.note { color: #555 } code { background: #f3f3f3; padding: 0 .2rem }
"""


class Page:
    """A page that is written from top to bottom.

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
        self._parts: list[str] = []

    def heading(self, text: str) -> None:
        """Start a section.

        Args:
            text: The heading.
        """
        self._parts.append(f"<h2>{escape(text)}</h2>")

    def text(self, text: str, *, note: bool = False) -> None:
        """Add a paragraph.

        Args:
            text: Plain text.
            note: Set it back, for a remark.
        """
        self._parts.append(f"<p{' class=note' if note else ''}>{escape(text)}</p>")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str | float]]) -> None:
        """Add a table; numbers stand to the right with two decimals.

        Args:
            header: The column names.
            rows: The cells, as many a row as there are columns.
        """
        head = "".join(f"<th>{escape(name)}</th>" for name in header)
        body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
        self._parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")

    def picture(self, uri: str, description: str) -> None:
        """Add a picture.

        Args:
            uri: A `data:` URI.
            description: What it shows, for those who cannot see it.
        """
        self._parts.append(f'<img src="{escape(uri)}" alt="{escape(description)}">')

    def html(self) -> str:
        """The page so far.

        Returns:
            A complete HTML document.
        """
        title = escape(self._title)
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f"<style>{STYLE}</style></head><body><h1>{title}</h1>\n"
            + "\n".join(self._parts)
            + "\n</body></html>\n"
        )


def _cell(value: str | float) -> str:
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    return f'<td class="number">{value:.2f}</td>'
