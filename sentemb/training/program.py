"""What every program of a method shares: its options, and the way from them to a trained model."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, TypeVar

from sentemb.errors import InputError
from sentemb.training import Interrupted, Run, TrainConfig, train, train_seeds
from sentemb.training.progress import ConsoleProgress

Result = TypeVar("Result")


def base_parser(description: str | None, *, base: str | None) -> argparse.ArgumentParser:
    """Make a parser with the options of every program, whatever it trains."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--base", default=base, help="base model: folder or hub id; that of the paper by default"
    )
    parser.add_argument("--output", required=True, help="folder for the model and the run")
    parser.add_argument("--data-dir", help="folder of local data sets; SENTEMB_DATA by default")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    return parser


def program_parser(description: str | None, *, data: str | None, seeds: str) -> argparse.ArgumentParser:
    """Make a parser with the options of the programs that train encoders on text."""
    parser = base_parser(description, base="bert-base-uncased")
    parser.add_argument(
        "--data", default=data, help="file, folder, hub id or catalogue name; the paper's data by default"
    )
    parser.add_argument("--dev", default="stsb", help="dev set: stsb, a file of scored pairs, or none")
    parser.add_argument("--preset", choices=("paper", "released"), default="paper")
    parser.add_argument("--seeds", default=seeds, help="one run each: 1,2,3")
    parser.add_argument("--max-steps", type=int, help="stop early, to try things out")
    return parser


def run_program(
    parser: argparse.ArgumentParser, configure: Callable[[argparse.Namespace], TrainConfig]
) -> Run | dict[str, Any]:
    """Read the command line and train an encoder."""

    def run(options: argparse.Namespace) -> Run | dict[str, Any]:
        config = configure(options)
        if len(config.seeds) > 1:
            return train_seeds(config, resume=options.resume, progress=ConsoleProgress()).statistics()
        return train(config, resume=options.resume, progress=ConsoleProgress())

    return run_with_options(parser, run)


def run_with_options(
    parser: argparse.ArgumentParser, action: Callable[[argparse.Namespace], Result]
) -> Result:
    """Read the command line and run; a user error is one line and exit code 2, Ctrl-C one line and 130."""
    options = parser.parse_args()
    try:
        return action(options)
    except Interrupted as interruption:
        parser.exit(130, f"{interruption.folder}: {interruption}\n")
    except (InputError, OSError) as error:
        parser.exit(2, f"error: {error}\n")
