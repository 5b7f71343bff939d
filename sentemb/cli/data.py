"""`sentemb data`."""

from __future__ import annotations

import typer

app = typer.Typer(help="Data sets: what is known, what is here.", no_args_is_help=True, rich_markup_mode=None)
