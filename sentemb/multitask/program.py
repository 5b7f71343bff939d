"""The command line of training/multitask.py: a row of the paper's tables, or an ensemble of finished runs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentemb.errors import InputError
from sentemb.multitask.data import load_task_sets, read_nli_columns
from sentemb.multitask.ensemble import TaskEnsemble
from sentemb.multitask.evaluation import evaluate_tasks
from sentemb.multitask.fit import fit_multitask
from sentemb.multitask.stages import uses_nli
from sentemb.training.config import MultiTaskConfig
from sentemb.training.config.checks import checked
from sentemb.training.outcome import Interrupted
from sentemb.training.progress import ConsoleProgress
from sentemb.training.recipes import recipes_of
from sentemb.training.settings import resolve, split_settings
from sentemb.training.values import parsed

ENSEMBLE = "table2-ensemble"


def main(description: str | None) -> None:
    """Read the command line, train and print the scores on the dev sets."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    rows = [*recipes_of("multitask"), ENSEMBLE]
    parser.add_argument("--row", choices=rows, default="table2-given", help="row of Tables 1 to 10")
    parser.add_argument("--base", help="base model: folder or hub id; that of the paper by default")
    parser.add_argument("--output", required=True, help="folder for the model and the run")
    parser.add_argument("--data-dir", help="folder that holds cs224n/; SENTEMB_DATA by default")
    parser.add_argument("--runs", help="folders of finished runs, for the ensemble: a,b,c")
    parser.add_argument("--nli", default="simcse-nli", help="triples: a file or a catalogue name")
    parser.add_argument(
        "--held-out", type=float, help="divide quora-dev.csv, and evaluate on this share of it"
    )
    parser.add_argument("--rows", type=int, help="use only so many rows of each set, to try things out")
    parser.add_argument("--preset", choices=("paper", "released"), help="paper by default")
    parser.add_argument("--seed", type=int, help="11711 by default, as in the starter code")
    parser.add_argument("--config", type=Path, help="TOML file of settings")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any other setting")
    parser.add_argument("--resume", action="store_true", help="resume an interrupted run")
    try:
        print(_train(parser.parse_args()))  # noqa: T201 - a program
    except Interrupted as interruption:
        parser.exit(130, f"{interruption.folder}: {interruption}\n")
    except (InputError, OSError) as error:
        parser.exit(2, f"error: {error}\n")


def _train(options: argparse.Namespace) -> str:
    if (options.row == ENSEMBLE) != (options.runs is not None):
        raise InputError(f"--runs goes with --row {ENSEMBLE}", "give both or none of the two")
    if options.runs is not None:
        _, dev = load_task_sets(data_dir=options.data_dir, held_out=options.held_out)
        dev = dev.sample(options.rows)
        ensemble = TaskEnsemble.of_runs(options.runs.split(","))
        ensemble.save(options.output)
        scores = evaluate_tasks(ensemble, dev)
    else:
        named = {name: getattr(options, name) for name in ("base", "output", "preset")}
        config = resolve(
            options.row,
            file=options.config,
            overrides=named | {"seeds": None if options.seed is None else [options.seed]},
            assignments=split_settings(options.set),
        )
        return "\n".join(train_row(config, vars(options), resume=options.resume, progress=ConsoleProgress()))
    return "\n".join(_lines(scores, options.row, options.output))


def train_row(
    config: MultiTaskConfig,
    flags: Mapping[str, Any],
    *,
    resume: bool = False,
    progress: ConsoleProgress | None = None,
) -> list[str]:
    """Train a row and score it on the dev sets, a line for each score."""
    held_out, rows = (
        checked(name, parsed(str(flags[name]), kind), kind) if flags.get(name) is not None else None
        for name, kind in (("held_out", float), ("rows", int))
    )
    data_dir = flags.get("data_dir")
    sets = load_task_sets(data_dir=data_dir, held_out=held_out)
    train, dev = (part.sample(rows) for part in sets)
    nli = []
    if uses_nli(config):
        nli = read_nli_columns(flags.get("nli") or "simcse-nli", data_dir=data_dir, rows=rows)
    run = fit_multitask(config, train, dev, nli=nli, resume=resume, progress=progress)
    return _lines(evaluate_tasks(run.model, dev), config.recipe, config.output)


def _lines(scores: Mapping[str, float], row: str, output: str) -> list[str]:
    return [*(f"{name:<20} {100 * score:6.2f}" for name, score in scores.items()), f"{row:<20} {output}"]
