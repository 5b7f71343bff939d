"""What the programs of tables of trained rows share: their options, and the way to its records."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentemb.data.sts import STS_SETS
from sentemb.errors import InputError, unknown
from sentemb.evaluation.result import ResultRecord
from sentemb.evaluation.sts import load_sets
from sentemb.evaluation.suites import STS, Suite
from sentemb.training.config import TrainConfig
from sentemb.training.config.checks import checked
from sentemb.training.program import run_with_options
from sentemb.training.progress import ConsoleProgress
from sentemb.training.settings import parse_settings, split_settings
from sentemb.training.study import Row, judge_rows
from sentemb.training.values import parsed


def study_parser(description: str | None, *, rows: Sequence[str], seeds: str) -> argparse.ArgumentParser:
    """Make a parser with the options of all of them."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", default="bert-base-uncased", help="base model: folder or hub id")
    parser.add_argument("--output", required=True, help="folder for records; what is there is not run again")
    parser.add_argument("--rows", default=",".join(rows), help=f"some of {','.join(rows)}; all by default")
    parser.add_argument("--seeds", default=seeds, help="each row once for each: 1,2,3")
    parser.add_argument("--sets", default=",".join(STS_SETS), help="STS sets to judge on")
    parser.add_argument("--dev", default="stsb", help="dev set: stsb, a file of scored pairs, or none")
    parser.add_argument("--data-dir", help="folder of local data sets; SENTEMB_DATA by default")
    parser.add_argument("--max-steps", type=int, help="stop training early, to try things out")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of all recipes' rows"
    )
    parser.add_argument("--models", type=Path, help="where models are trained; OUTPUT/models by default")
    parser.add_argument("--keep-models", action="store_true", help="do not remove judged models")
    return parser


def recipe_settings(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Read what the command line says of every row that trains a recipe."""
    given = {name: getattr(options, name) for name in ("base", "dev", "data_dir", "max_steps", *names)}
    return {**given, **parse_settings(split_settings(options.set), TrainConfig)}


def run_study(
    parser: argparse.ArgumentParser,
    rows_of: Callable[[argparse.Namespace], Mapping[str, Callable[[], Row]]],
    *,
    suite: Suite = STS,
) -> list[ResultRecord]:
    """Read the command line, train the rows that it asks for, and judge them."""

    def run(options: argparse.Namespace) -> list[ResultRecord]:
        makers = rows_of(options)
        names, seeds = rows_and_seeds(options, makers)
        pairs = load_sets(options.sets.split(","), data_dir=options.data_dir)
        return judge_rows(
            [makers[name]() for name in names],
            seeds,
            pairs,
            folder=Path(options.output),
            suite=suite,
            models=options.models,
            keep_models=options.keep_models,
            progress=ConsoleProgress(),
        )

    return run_with_options(parser, run)


def rows_and_seeds(options: argparse.Namespace, known: Collection[str]) -> tuple[list[str], tuple[int, ...]]:
    """Read `--rows` and `--seeds`."""
    names = options.rows.split(",")
    for name in names:
        if name not in known:
            raise unknown("row", name, known)
    seeds = checked("seeds", parsed(options.seeds, tuple[int, ...]), tuple[int, ...])
    if len({*seeds}) < len(seeds) or len({*names}) < len(names):
        raise InputError("a row or a seed is named twice", "name each once, for example --seeds 1,2,3")
    return names, seeds
