"""A table on standard output."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from sentemb._tables import Table

# A table that is piped into a file must not be folded at the width of no terminal.
_WIDTH_WITHOUT_TERMINAL = 240


def print_table(table: Table, *, markdown: bool) -> None:
    """Print a table in columns, or as markdown."""
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    if markdown:
        typer.echo(table.markdown(), nl=False)
        return
    typer.echo(table.title)
    printed = RichTable(box=None, pad_edge=False)
    for index, title in enumerate(table.header):
        printed.add_column(title, justify="left" if index < table.names else "right", overflow="fold")
    for row in table.rows:
        printed.add_row(*(Text(cell) for cell in row))
    Console(width=None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL).print(printed)
    for note in table.notes:
        typer.echo(f"note: {note}")
