"""SupCL-Seq: supervised contrastive learning on dropout views (Sedghamiz et al., Findings of EMNLP 2021).

The paper's runs from BERT-base on GLUE, with the hyper-parameters of its Table 4; the linear head of the
second stage is fitted in seconds. As in the authors' notebooks nothing is chosen, the dev split is scored:

    python training/supcl_seq.py --task cola --output supcl-cola
    python training/supcl_seq.py --task mrpc --preset released --output supcl-mrpc-released

Your own texts, or pairs of texts:

    python training/supcl_seq.py --train train.csv --validation dev.csv --output mine
    python training/supcl_seq.py --train train.tsv --columns question,answer --label good --output mine

The result loads as Classifier.load("supcl-cola"), its encoder as SentenceTransformer("supcl-cola"). STS-B of
the paper has grades and no classes.
"""

from __future__ import annotations

import argparse
from typing import Any

from sentemb.classification import ClassifierConfig, resolve_classifier
from sentemb.classification.programs import Sets, program_parser, train_and_score
from sentemb.data import load_labelled
from sentemb.errors import InputError
from sentemb.training import split_settings


def row(learning_rate: float, batch_size: int, dropouts: list[float], *, epochs: int = 5) -> dict[str, Any]:
    """A row of Table 4.

    Args:
        learning_rate: Of the contrastive stage.
        batch_size: Of the contrastive stage, in sentences.
        dropouts: One probability per view.
        epochs: Of the contrastive stage; the table's caption has them.

    Returns:
        Settings of the recipe.
    """
    return {
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "epochs": epochs,
        "loss_options": {"dropouts": dropouts, "temperature": 0.05},
    }


TASKS = {
    "cola": row(5e-5, 128, [0.0, 0.1, 0.2]),
    "mrpc": row(1e-4, 128, [0.0, 0.05, 0.1, 0.2]),
    "rte": row(1e-4, 48, [0.0, 0.1, 0.2]),
    "sst2": row(5e-5, 320, [0.0, 0.1, 0.2]),
    "wnli": row(1e-4, 320, [0.0, 0.1, 0.2]),
    "qnli": row(5e-5, 48, [0.0, 0.2], epochs=2),
    "qqp": row(5e-5, 16, [0.0, 0.2, 0.3, 0.4, 0.5], epochs=1),
    "mnli": row(5e-5, 8, [0.1, 0.1], epochs=3),
}


def configure(options: argparse.Namespace) -> ClassifierConfig:
    """Put the paper's values and the command line together.

    Args:
        options: The command line.

    Returns:
        The configuration.
    """
    # The notebooks, which the released preset follows, have one setting for all tasks.
    listed = TASKS[options.task] if options.task and options.preset == "paper" else {}
    return resolve_classifier(
        "supcl-seq",
        overrides=listed
        | {
            "base": options.base,
            "output": options.output,
            "preset": options.preset,
            "seeds": [options.seed],
        },
        assignments=split_settings(options.set),
    )


def task_sets(options: argparse.Namespace) -> Sets:
    """The train and dev split of a GLUE task.

    Args:
        options: The command line.

    Returns:
        The dev split as test set.
    """
    train, dev = (
        load_labelled(options.task, split=split, data_dir=options.data_dir) for split in ("train", "dev")
    )
    return Sets(train, None, dev)


def main() -> None:
    """Read the command line, train and score."""
    parser = program_parser(__doc__, tasks=TASKS, base="bert-base-uncased")
    parser.add_argument("--preset", choices=("paper", "released"), default="paper")
    options = parser.parse_args()
    try:
        print(train_and_score(options, configure(options), task_sets))
    except (InputError, OSError) as error:
        parser.exit(2, f"error: {error}\n")


if __name__ == "__main__":
    main()
