"""Programs under `training/` and `eval/` that are verbs of the command."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from sentemb.cli.console import error_line
from sentemb.cli.main import run, verb_command
from sentemb.errors import InputError, unknown

if TYPE_CHECKING:
    from sentemb.evaluation.schema import Record
    from sentemb.report.table import Table


def program(recipes: Mapping[str, str], *, default: str, option: str = "objective") -> None:
    """Run a program that trains one of several recipes, which `--objective` names."""
    arguments = sys.argv[1:]
    chosen, flag = default, f"--{option}"
    if flag in arguments[:-1]:
        at = arguments.index(flag)
        chosen = arguments[at + 1]
        del arguments[at : at + 2]
    if chosen not in recipes:
        _leave(unknown(option, chosen, recipes))
    run(["train", *recipes[chosen].split(), *arguments])


def evaluate_or_show(
    description: str,
    verb: Sequence[str],
    *,
    suite: str,
    tables: Callable[[Sequence[Record]], Iterable[Table]],
) -> None:
    """Evaluate the models that the command line names, or print the tables of a suite's records."""
    from sentemb.evaluation.record import load_records

    words = sys.argv[1:]
    if {"-h", "--help"} & {*words}:
        typer.echo(f"{description}\nOptions: sentemb {' '.join(verb)} --help")
        return
    # The verb itself knows which words are values of its options.
    command = verb_command(*verb[:2])
    parameters = command.make_context(verb[1], [*verb[2:], *words], resilient_parsing=True).params
    if parameters["models"] and parameters["output"]:
        run([*verb, *words])
    try:
        if not parameters["output"]:
            raise InputError("--output is missing", "pass --output FOLDER with the records")
        records = load_records(Path(parameters["output"]), suite=suite)
    except (InputError, OSError) as error:
        _leave(error)
    typer.echo("\n".join(table.markdown() for table in tables(records)))


def _leave(error: Exception) -> NoReturn:
    sys.stderr.write(error_line(str(error)))
    sys.exit(2)
