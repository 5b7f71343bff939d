"""`sentemb card`: the evaluation of a model in its card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sentemb.errors import InputError


def card(
    model: Annotated[Path, typer.Argument(help="Folder of a model.")],
    results: Annotated[Path, typer.Option("--results", "-r", help="Folder of result records.")],
) -> None:
    """Write what records say of a model into its README.md: the hub's metadata, and a section of tables.

    Everything else in the file stays as it is, and a second run replaces what the first one wrote.
    """
    if not model.is_dir():
        raise InputError(f"no such folder: {model}", "name the folder that the model was saved in")
    from sentemb.encoding import load_encoder
    from sentemb.evaluation.card import eval_results, evaluation_section, update_card
    from sentemb.evaluation.recorded import read_recorded

    if not results.exists():
        raise InputError(f"no such folder: {results}", "name the folder that holds the records")
    encoder = load_encoder(model)
    recorded = read_recorded([results], fingerprint=encoder.fingerprint)
    path = model / "README.md"
    found = eval_results(recorded)
    update_card(path, encoder.name, found, evaluation_section(recorded))
    typer.echo(f"{path}: {len(found)} results of {encoder.name}")
