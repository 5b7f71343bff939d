"""`sentemb card`: the evaluation of a model in its card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sentemb.cli.console import next_step
from sentemb.cli.options import Records
from sentemb.errors import InputError


def card(
    model: Annotated[Path, typer.Argument(help="Folder of the model whose card to update.")],
    records: Records,
) -> None:
    """Write the evaluation results of a model into its README.md, as hub metadata and as tables.

    The rest of the file is not changed. Running the command again replaces its earlier output.
    """
    if not model.is_dir():
        raise InputError(f"no such folder: {model}", "name the folder in which the model was saved")
    from sentemb.encoding import load_encoder
    from sentemb.evaluation.card import eval_results, evaluation_section, update_card
    from sentemb.evaluation.record import load_records
    from sentemb.report.results import tables_of

    encoder = load_encoder(model)
    found = load_records(records, fingerprint=encoder.fingerprint)
    tables = [table.markdown() for table in tables_of(found)]
    path, results = model / "README.md", eval_results(found)
    update_card(path, encoder.name, results, evaluation_section(found, tables))
    typer.echo(f"{path}: {len(results)} results of {encoder.name}")
    next_step(f"huggingface-cli upload ORG/NAME {model}")
