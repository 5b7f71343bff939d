"""SimCSE, unsupervised and supervised (Gao, Yao and Chen, EMNLP 2021).

The paper's runs from BERT-base, on a million Wikipedia sentences and on NLI triples:

    python training/simcse.py --base bert-base-uncased --output unsup-simcse
    python training/simcse.py --supervised --base bert-base-uncased --output sup-simcse

Single seeds differ by three points and more, so train several; your own sentences; your own triples:

    python training/simcse.py --output unsup-simcse-5 --seeds 42,1,2,3,4
    python training/simcse.py --base my-encoder --data sentences.txt --output mine
    python training/simcse.py --supervised --data triples.csv --columns sent0,sent1,hard_neg --output mine

The result loads as SentenceTransformer("unsup-simcse").
"""

from __future__ import annotations

import argparse
from typing import Any

from sentemb.training import TrainConfig, resolve
from sentemb.training.program import program_parser, run_program

# Appendix A of the paper; where it is silent, the released scripts and their library's defaults.
COMMON: dict[str, Any] = {
    "betas": [0.9, 0.999],  # library default
    "epsilon": 1e-8,  # library default
    "weight_decay": 0.0,  # library default
    "schedule": "linear",  # library default
    "warmup": 0.0,  # library default
    "clip": 1.0,  # library default
    "max_length": 32,  # run scripts; evaluation does not truncate
}
UNSUPERVISED = COMMON | {
    "batch_size": 64,  # appendix A
    "epochs": 1,  # appendix A
    "learning_rate": 3e-5,  # appendix A; 1e-5 for large models
    "loss_options": {"temperature": 0.05, "head": "train-only"},  # MLP in training only, section 6.3
}
SUPERVISED = COMMON | {
    "batch_size": 512,  # appendix A
    "epochs": 3,  # appendix A
    "learning_rate": 5e-5,  # appendix A; 1e-5 for large models
    "loss_options": {"temperature": 0.05, "head": None},  # the MLP is kept, as part of the model
}


def configure(options: argparse.Namespace) -> TrainConfig:
    """Put the paper's values and the command line together.

    Args:
        options: The command line.

    Returns:
        The configuration.
    """
    return resolve(
        "simcse-supervised" if options.supervised else "simcse",
        overrides=(SUPERVISED if options.supervised else UNSUPERVISED)
        | {
            "base": options.base,
            "data": options.data,
            "columns": None if options.columns is None else options.columns.split(","),
            "output": options.output,
            "dev": options.dev,
            "data_dir": options.data_dir,
            "preset": options.preset,  # paper: evaluated every 250 steps; released scripts: every 125
            "max_steps": options.max_steps,
        },
        assignments={"seeds": options.seeds},
    )


def main() -> None:
    """Read the command line and train."""
    parser = program_parser(__doc__, data=None, seeds="42")
    parser.add_argument("--supervised", action="store_true", help="train on pairs or triples")
    parser.add_argument("--columns", help="text columns in the order of their roles: a,b,c")
    print(run_program(parser, configure))


if __name__ == "__main__":
    main()
