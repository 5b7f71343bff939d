"""The programs under `eval/` that are verbs of the command: they evaluate models, or show records."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import typer

from sentemb.cli.main import run
from sentemb.errors import InputError
from sentemb.evaluation.record import Record, load_records
from sentemb.report.table import Table


def evaluate_or_show(
    description: str,
    verb: Sequence[str],
    *,
    suite: str,
    tables: Callable[[Sequence[Record]], Iterable[Table]],
) -> None:
    """Evaluate the models that the command line names, or print the tables of a suite's records."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", help="folder, hub id or word-vector file")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for result records")
    arguments, options = parser.parse_known_args()
    if arguments.models:
        run([*verb, *arguments.models, "--output", str(arguments.output), *options])
    try:
        records = load_records(arguments.output, suite=suite)
    except (InputError, OSError) as error:
        parser.exit(2, f"error: {error}\n")
    typer.echo("\n".join(table.markdown() for table in tables(records)))
