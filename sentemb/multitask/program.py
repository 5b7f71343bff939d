"""`sentemb train ROW` for rows of the paper's tables, and the ensemble of finished runs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from sentemb.multitask.data import load_task_sets, read_nli_columns
from sentemb.multitask.ensemble import TaskEnsemble
from sentemb.multitask.evaluation import evaluate_tasks
from sentemb.multitask.fit import fit_multitask
from sentemb.multitask.stages import uses_nli
from sentemb.training.config import MultiTaskConfig
from sentemb.training.config.base import checked
from sentemb.training.outcome import run_with_options
from sentemb.training.progress import ConsoleProgress
from sentemb.training.values import parsed

ENSEMBLE = "table2-ensemble"


def ensemble_program(description: str | None) -> None:
    """Read the command line, put the best checkpoints of finished runs together and print their scores."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--row", choices=[ENSEMBLE])
    parser.add_argument("--runs", required=True, help="folders of finished runs: a,b,c")
    parser.add_argument("--output", required=True, help="output folder of the ensemble")
    parser.add_argument("--data-dir", help="folder that contains cs224n/; SENTEMB_DATA by default")
    parser.add_argument("--held-out", type=float, help="fraction of quora-dev.csv to evaluate on")
    parser.add_argument("--rows", type=int, help="maximum number of rows of each set")
    print(run_with_options(parser, _make_ensemble))  # noqa: T201 - a program


def _make_ensemble(options: argparse.Namespace) -> str:
    _, dev = load_task_sets(data_dir=options.data_dir, held_out=options.held_out)
    ensemble = TaskEnsemble.of_runs(options.runs.split(","))
    ensemble.save(options.output)
    return "\n".join(_lines(evaluate_tasks(ensemble, dev.sample(options.rows)), ENSEMBLE, options.output))


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
