"""Contrastive learning on NLI triples under a head of two layers (Chen, Stanford CS224N, section 5.1).

SimCSE's objective on SimCSE's triples with the project's optimisation; `training/simcse.py --supervised` has
SimCSE's own, with batches of 512 and a head that stays in the model:

    python training/simcse_nli.py --base bert-base-uncased --output simcse-nli

Batches that do not fit into memory; triples made of labelled pairs; hard negatives for pairs without any:

    python training/simcse_nli.py --batch-size 512 --mini-batch-size 32 --output simcse-nli-512
    sentemb data nli-triples pairs.tsv --only split=train --output triples.jsonl
    sentemb data mine-negatives pairs.csv --model all-MiniLM-L6-v2 --output triples.jsonl
    python training/simcse_nli.py --data triples.jsonl --columns sent0,sent1,hard_neg --output mine

The result loads as SentenceTransformer("simcse-nli").
"""

from __future__ import annotations

import argparse
from typing import Any

from sentemb.training import TrainConfig, resolve
from sentemb.training.program import program_parser, run_program

# The paper; where it is silent, the project's starter code.
PAPER: dict[str, Any] = {
    "epochs": 3,  # table 8
    "learning_rate": 2e-5,  # table 10
    "betas": [0.9, 0.999],  # starter code
    "epsilon": 1e-6,  # starter code
    "weight_decay": 0.0,  # starter code
    "schedule": "constant",  # section 7
    "warmup": 0.0,  # section 7
    "clip": 0.0,  # starter code
    "max_length": 512,  # starter code
}
LOSS: dict[str, Any] = {"temperature": 0.05, "head": "two-layer"}  # sections 4.1 and 5.3


def configure(options: argparse.Namespace) -> TrainConfig:
    """Put the paper's values and the command line together.

    Args:
        options: The command line.

    Returns:
        The configuration.
    """
    cache = {} if options.mini_batch_size is None else {"mini_batch_size": options.mini_batch_size}
    return resolve(
        "simcse-nli",
        overrides=PAPER
        | {
            "base": options.base,
            "data": options.data,
            "columns": None if options.columns is None else options.columns.split(","),
            "output": options.output,
            "dev": options.dev,
            "data_dir": options.data_dir,
            "preset": options.preset,
            "max_steps": options.max_steps,
            "batch_size": options.batch_size,
            "loss_options": LOSS | cache,
        },
        assignments={"seeds": options.seeds},
    )


def main() -> None:
    """Read the command line and train."""
    parser = program_parser(__doc__, data=None, seeds="11711")
    parser.add_argument("--columns", help="text columns in the order of their roles: a,b,c")
    parser.add_argument("--batch-size", type=int, default=16, help="rows per step; section 5.3 of the paper")
    parser.add_argument(
        "--mini-batch-size", type=int, help="encode so many rows at a time, with a gradient cache"
    )
    print(run_program(parser, configure))


if __name__ == "__main__":
    main()
