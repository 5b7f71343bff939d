r"""Several tasks on one encoder, with contrastive learning (Chen, Stanford CS 224N default project).

The paper's best single model from BERT-base, on SST-5, Quora's question pairs and STS, all of which one saved
model answers; and any other row of its Tables 1 to 10:

    python training/multitask.py --data-dir data --output multitask
    python training/multitask.py --row table1-fusion --data-dir data --output fusion
    python training/multitask.py --row table5-nli --nli nli.csv --data-dir data --output nli
    python training/multitask.py --row table7-gradient-surgery --data-dir data --output surgery
    python training/multitask.py --row table7-gradient-surgery --preset released --data-dir data \
        --output surgery-released

The ensemble asks for each task the best checkpoint among finished runs:

    python training/multitask.py --row table2-ensemble --runs multitask,single-paraphrase,fusion \
        --data-dir data --output ensemble

The data folder holds cs224n/. Where quora-train.csv is missing there, a part of quora-dev.csv can take its
place. Any setting may be changed, and a few rows of everything are enough to try a row out:

    python training/multitask.py --held-out 0.2 --set sharing=separate --data-dir data --output own
    python training/multitask.py --data-dir data --held-out 0.2 --rows 50 --base bert-mini \
        --set epochs=1 --set contrast_epochs=1 --output toy

The result loads as MultiTaskModel.load("multitask"), its encoder as SentenceTransformer("multitask"), an
ensemble as TaskEnsemble.load("ensemble").
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sentemb.errors import InputError
from sentemb.multitask import (
    ROWS,
    MultiTaskConfig,
    TaskEnsemble,
    TaskSets,
    evaluate_tasks,
    fit_multitask,
    load_task_sets,
    read_nli_columns,
    resolve_multitask,
)
from sentemb.multitask.stages import uses_nli
from sentemb.training import split_settings
from sentemb.training.program import base_parser, run_with_options
from sentemb.training.progress import ConsoleProgress

ENSEMBLE = "table2-ensemble"


def configure(options: argparse.Namespace) -> MultiTaskConfig:
    """Put the paper's values, the file and the command line together.

    Args:
        options: The command line.

    Returns:
        The configuration.
    """
    return resolve_multitask(
        options.row,
        file=options.config,
        overrides={
            "base": options.base,
            "output": options.output,
            "preset": options.preset,
            "seeds": None if options.seed is None else [options.seed],
        },
        assignments=split_settings(options.set),
    )


def read_sets(options: argparse.Namespace) -> tuple[TaskSets, TaskSets]:
    """Read the training and dev sets.

    Args:
        options: The command line.

    Returns:
        Training and dev sets.

    Raises:
        InputError: A set is missing or broken.
    """
    train, dev = load_task_sets(data_dir=options.data_dir, held_out=options.held_out)
    return train.sample(options.rows), dev.sample(options.rows)


def train(options: argparse.Namespace) -> str:
    """Train a row, or put an ensemble together.

    Args:
        options: The command line.

    Returns:
        A table of the scores on the dev sets.

    Raises:
        InputError: Options do not go together.
    """
    if (options.row == ENSEMBLE) != (options.runs is not None):
        raise InputError(f"--runs goes with --row {ENSEMBLE}", "give both or none of the two")
    sets, dev = read_sets(options)
    if options.runs is not None:
        ensemble = TaskEnsemble.of_runs(options.runs.split(","))
        ensemble.save(options.output)
        scores = evaluate_tasks(ensemble, dev)
    else:
        config = configure(options)
        nli = (
            read_nli_columns(options.nli, data_dir=options.data_dir, rows=options.rows)
            if uses_nli(config)
            else []
        )
        progress = ConsoleProgress()
        fitted = fit_multitask(config, sets, dev, nli=nli, resume=options.resume, progress=progress)
        scores = evaluate_tasks(fitted.model, dev)
    lines = [f"{name:<20} {100 * score:6.2f}" for name, score in scores.items()]
    return "\n".join([*lines, f"{options.row:<20} {options.output}"])


def main() -> None:
    """Read the command line, train and score."""
    parser = base_parser(__doc__, base=None)
    parser.add_argument(
        "--row", choices=[*ROWS, ENSEMBLE], default="table2-given", help="row of Tables 1 to 10"
    )
    parser.add_argument("--runs", help="folders of finished runs, for the ensemble: a,b,c")
    parser.add_argument("--nli", default="simcse-nli", help="triples: a file or a catalogue name")
    parser.add_argument(
        "--held-out", type=float, help="divide quora-dev.csv, and judge by so large a share of it"
    )
    parser.add_argument("--rows", type=int, help="use only so many rows of each set, to try things out")
    parser.add_argument("--preset", choices=("paper", "released"), help="paper by default")
    parser.add_argument("--seed", type=int, help="11711 by default, as in the starter code")
    parser.add_argument("--config", type=Path, help="TOML file of settings")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any other setting")
    print(run_with_options(parser, train))


if __name__ == "__main__":
    main()
