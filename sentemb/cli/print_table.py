"""A table on standard output, as markdown on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from sentemb.cli.console import printable, show

if TYPE_CHECKING:
    from sentemb.report.table import Table


def print_table(table: Table, *, markdown: bool) -> None:
    """Print a table in columns that fit a terminal, or as markdown."""
    if markdown:
        typer.echo(printable(table.markdown()), nl=False)
    else:
        show(table)
