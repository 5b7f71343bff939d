"""`sentemb index`."""

from __future__ import annotations

import typer

app = typer.Typer(help="Build and search a semantic index.", no_args_is_help=True, rich_markup_mode=None)
