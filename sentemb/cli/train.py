"""`sentemb train`."""

from __future__ import annotations

import typer

app = typer.Typer(help="Train an encoder.", no_args_is_help=True, rich_markup_mode=None)
