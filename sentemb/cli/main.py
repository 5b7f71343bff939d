"""The `sentemb` command."""

from __future__ import annotations

import os
import sys

import typer

from sentemb import __version__
from sentemb.cli import (
    analyse,
    analyse_geometry,
    analyse_map,
    augment,
    data,
    eval_all,
    eval_classify,
    eval_map,
    eval_tables,
    eval_tune,
    evaluate,
    index,
    overlap,
    pairs,
    train,
)
from sentemb.cli.card import card
from sentemb.cli.classify import classify
from sentemb.cli.compare import compare
from sentemb.cli.quickstart import quickstart
from sentemb.cli.report import report
from sentemb.errors import InputError

# Modules that only an extra installs.
_EXTRAS = {
    "matplotlib": "report",
    "optuna": "tune",
    "rapidfuzz": "overlap",
}

# Without rich's help pages `sentemb --help` answers in half the time.
app = typer.Typer(
    name="sentemb",
    help="Train, judge and serve sentence embeddings.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command(name="quickstart")(quickstart)
app.command(name="classify")(classify)
app.command(name="card")(card)
app.command(name="compare")(compare)
app.command(name="report")(report)
data.app.command(name="split-pairs")(pairs.split_pairs)
data.app.command(name="nli-triples")(pairs.nli_triples)
data.app.command(name="mine-negatives")(pairs.mine_negatives)
data.app.command(name="overlap")(overlap.overlap)
data.app.command(name="back-translate")(augment.back_translate)
data.app.command(name="noisy-copies")(augment.noisy_copies)
app.add_typer(data.app, name="data")
app.add_typer(train.app, name="train")
evaluate.app.command(name="all")(eval_all.judge_everything)
evaluate.app.command(name="classify")(eval_classify.classify)
evaluate.app.command(name="tables")(eval_tables.tables)
evaluate.app.command(name="tune")(eval_tune.tune)
evaluate.app.command(name="map")(eval_map.draw_map)
app.add_typer(evaluate.app, name="eval")
analyse.app.command(name="geometry")(analyse_geometry.geometry)
analyse.app.command(name="map")(analyse_map.pair_map)
app.add_typer(analyse.app, name="analyse")
app.add_typer(index.app, name="index")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sentemb {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and leave."
    ),
) -> None:
    pass


def run(arguments: list[str] | None = None) -> None:
    """Run the command; a mistake of the user's is one line on standard error and exit code 2."""
    try:
        app(args=arguments)
    except InputError as error:
        _leave(str(error), 2)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _leave(f"{place}{error.strerror or error}", 2)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        _leave(f"this needs {error.name}; pip install 'sentemb[{_EXTRAS[error.name]}]'", 2)
    except KeyboardInterrupt:
        _leave("interrupted", 130)


def _leave(message: str, code: int) -> None:
    sys.stdout.flush()
    sys.stderr.write(f"sentemb: error: {' '.join(message.split())}\n")
    sys.stderr.flush()
    # A worker thread of an interrupted library call must not hold the process.
    os._exit(code) if code == 130 else sys.exit(code)
