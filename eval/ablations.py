"""SG-BERT's table 5: what each part of SG-OPT is worth, and what its hyperparameters do.

Every row is trained once for each seed on the sentences of STS-B and judged on the seven STS sets; a row of
the table is the mean over its seeds beside the paper's, which has eight:

    python eval/ablations.py --data-dir data --output runs/ablations
    python eval/ablations.py --rows sg-opt,sg --seeds 1,2 --base bert-mini --data-dir data --output runs/small

Each row and seed leaves a result record (JSON) with its predictions, and is not run again: the same command
goes on where it was interrupted, and `python eval/sts.py --output runs/ablations` shows every protocol. A
model is removed once it is judged, unless `--keep-models` is given. From BERT-base a row and seed is the
paper's 1,079 steps of 16 sentences with 22 passes over STS-B dev; all rows share one computation of the
frozen encoder's views.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from sentemb.evaluation.seed_table import seed_table
from sentemb.losses import ViewCache
from sentemb.training.study import Row, recipe_row
from sentemb.training.study_program import run_study, study_parser

SEEDS = "1,2,3,4,1234,2345,3456,7890"  # table 8


class Ablation(NamedTuple):
    """A row: a recipe, what differs from it, and the paper's average of the seven sets."""

    recipe: str
    loss_options: Mapping[str, Any]
    published: str


ABLATIONS = {
    "sg-opt": Ablation("sg-opt", {}, "74.62"),
    "sg-opt2": Ablation("sg-opt2", {}, "73.14"),
    "sg-opt1": Ablation("sg-opt1", {}, "72.61"),
    "sg": Ablation("sg", {}, "72.17"),
    "sg-opt-tau-0.1": Ablation("sg-opt", {"temperature": 0.1}, "70.39"),
    "sg-opt-tau-0.001": Ablation("sg-opt", {"temperature": 0.001}, "74.16"),
    "sg-opt-lambda-0": Ablation("sg-opt", {"drift_weight": 0.0}, "73.76"),
    "sg-opt-lambda-1": Ablation("sg-opt", {"drift_weight": 1.0}, "73.18"),
    "sg-opt-no-head": Ablation("sg-opt", {"projection_width": None}, "72.78"),
}


def rows(options: argparse.Namespace) -> dict[str, Callable[[], Row]]:
    """The rows of the table."""
    cache = ViewCache()
    names = ("base", "data", "dev", "data_dir", "preset", "max_steps")
    given = {name: getattr(options, name) for name in names}
    return {
        name: partial(
            recipe_row, name, one.recipe, {**given, "loss_options": one.loss_options}, view_cache=cache
        )
        for name, one in ABLATIONS.items()
    }


def main() -> None:
    """Read the command line, run and print."""
    parser = study_parser(__doc__, rows=list(ABLATIONS), seeds=SEEDS)
    parser.add_argument("--data", help="file, folder, hub id or catalogue name; STS-B's sentences by default")
    parser.add_argument("--preset", choices=("paper", "released"), default="paper")
    published = {name: one.published for name, one in ABLATIONS.items()}
    print(seed_table(run_study(parser, rows), published=published).markdown())


if __name__ == "__main__":
    main()
