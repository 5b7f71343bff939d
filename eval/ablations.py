r"""SG-BERT's table 5: what each part of SG-OPT is worth, and what its hyperparameters do.

Every row is trained once for each seed on the sentences of STS-B and judged on the seven STS sets; a row of
the table is the mean over its seeds beside the paper's, which has eight:

    python eval/ablations.py --data-dir data --output runs/ablations
    python eval/ablations.py --rows sg-opt,sg --seeds 1,2 --base bert-mini --max-steps 300 \
        --set learning_rate=1.5e-4 --data-dir data --output runs/small

Each row and seed leaves a result record (JSON) of the model BASE-ROW-seed-N with its predictions, and is not
run again: the same command goes on where it was interrupted, and `python eval/sts.py --output runs/ablations`
shows every protocol. A model is removed once it is judged, unless `--keep-models` is given. From BERT-base a
row and seed is the paper's 1,079 steps of 16 sentences with 22 passes over STS-B dev; all rows share one
computation of the frozen encoder's views. What `--set` gives is for all rows, but for the one change that a
row is about.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from sentemb.encoding.resolve import name_of
from sentemb.evaluation.naming import without_seed
from sentemb.evaluation.seed_table import seed_table
from sentemb.losses import ViewCache
from sentemb.training.study import Row, recipe_row
from sentemb.training.study_program import recipe_settings, run_study, study_parser

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
    given = recipe_settings(options, "data", "preset")
    loss_options = given.pop("loss_options", {})
    base = name_of(options.base)

    def maker(name: str, one: Ablation) -> Callable[[], Row]:
        changed = {**given, "loss_options": {**loss_options, **one.loss_options}}
        return partial(recipe_row, f"{base}-{name}", one.recipe, changed, view_cache=cache)

    return {name: maker(name, one) for name, one in ABLATIONS.items()}


def variant_of(method: str) -> str | None:
    """The row that a method's records are of, where `BASE-ROW` is the name of one."""
    found = [name for name in ABLATIONS if method.endswith(f"-{name}")]
    return max(found, key=len, default=None)


def main() -> None:
    """Read the command line, run and print."""
    parser = study_parser(__doc__, rows=list(ABLATIONS), seeds=SEEDS)
    parser.add_argument("--data", help="file, folder, hub id or catalogue name; STS-B's sentences by default")
    parser.add_argument("--preset", choices=("paper", "released"), default="paper")
    records = run_study(parser, rows)
    published = {
        method: ABLATIONS[variant].published
        for method in (without_seed(record.model) for record in records)
        if (variant := variant_of(method)) is not None
    }
    print(seed_table(records, published=published).markdown())


if __name__ == "__main__":
    main()
