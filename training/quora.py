"""Contrastive learning on Quora's question pairs (Chen, Stanford CS224N default project, section 4.1).

The paper's run, in which the loss of non-paraphrases is maximised; without them, as in its table 4; and with
them as further negatives, whose gradient fades once they are apart:

    python training/quora.py --base bert-base-uncased --output quora
    python training/quora.py --negatives ignored --output quora-positives
    python training/quora.py --negatives denominator --output quora-denominator

The project's dev file alone, divided so that no question is in two parts; your own pairs:

    sentemb data split-pairs cs224n-quora --split dev --output quora-parts
    python training/quora.py --data quora-parts/train.jsonl --output quora
    python training/quora.py --data pairs.csv --columns question,other --label same --output mine

The result loads as SentenceTransformer("quora").
"""

from __future__ import annotations

import argparse
from typing import Any

from sentemb.training import TrainConfig, resolve
from sentemb.training.program import program_parser, run_program

# The paper; where it is silent, the project's starter code.
PAPER: dict[str, Any] = {
    "batch_size": 16,  # section 5.3
    "epochs": 5,  # section 5.3
    "learning_rate": 2e-5,  # table 10
    "betas": [0.9, 0.999],  # starter code
    "epsilon": 1e-6,  # starter code
    "weight_decay": 0.0,  # starter code
    "schedule": "constant",  # section 7
    "warmup": 0.0,  # section 7
    "clip": 0.0,  # starter code
    "max_length": 512,  # starter code
}


def configure(options: argparse.Namespace) -> TrainConfig:
    """Put the paper's values and the command line together.

    Args:
        options: The command line.

    Returns:
        The configuration.
    """
    return resolve(
        "quora",
        overrides=PAPER
        | {
            "base": options.base,
            "data": options.data,
            "columns": None if options.columns is None else options.columns.split(","),
            "label": options.label,
            "output": options.output,
            "dev": options.dev,
            "data_dir": options.data_dir,
            "preset": options.preset,
            "max_steps": options.max_steps,
            # Sections 4.1 and 5.3: the head is thrown away.
            "loss_options": {"temperature": 0.05, "head": "two-layer", "negatives": options.negatives},
        },
        assignments={"seeds": options.seeds},
    )


def main() -> None:
    """Read the command line and train."""
    parser = program_parser(__doc__, data=None, seeds="11711")
    parser.add_argument(
        "--negatives",
        choices=("signed", "denominator", "ignored"),
        default="signed",
        help="what pairs that are no paraphrases do",
    )
    parser.add_argument("--columns", help="the two text columns of your own pairs: a,b")
    parser.add_argument("--label", help="their column of 1 (paraphrase) and 0")
    print(run_program(parser, configure))


if __name__ == "__main__":
    main()
