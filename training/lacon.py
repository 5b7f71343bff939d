"""LaCon: label anchored contrastive learning (Zhang et al., NAACL 2022), and what it is compared with.

The paper's runs from BERT-base: a sample of the training split, 5 % of which choose the weights, and the dev
split as test set; with its fusion block; and its baselines under the same optimization:

    python training/lacon.py --task cola --output lacon-cola
    python training/lacon.py --task rte --objective lacon-fusion --output lacon-rte
    python training/lacon.py --task rte --objective leam --output leam-rte

The paper searched learning rate, batch size, heads, temperature and the weight of the label regulariser per
data set, and does not say what it found:

    python training/lacon.py --task rte --set learning_rate=3e-5 --set loss_options.heads=12 --output lacon-12

Your own texts, or pairs of texts:

    python training/lacon.py --train train.csv --validation dev.csv --test test.csv --output mine

The result loads as Classifier.load("lacon-cola"), its encoder as SentenceTransformer("lacon-cola").
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

from sentemb.classification import ClassifierConfig, optimization_of, resolve_classifier
from sentemb.classification.programs import Sets, program_parser, run_program
from sentemb.data import cap_per_class, lacon_train_split, load_labelled
from sentemb.data.sampling import LACON_WHOLE
from sentemb.training import split_settings


class Task(NamedTuple):
    """A row of Table 1.

    Attributes:
        metric: What it reports, and chooses by.
        test: The split that the paper tests on.
        base: Base model.
    """

    metric: str
    test: str = "dev"
    base: str = "bert-base-uncased"


TASKS = {
    "dbpedia": Task("accuracy", test="test"),
    "tnews": Task("macro_f1", base="bert-base-chinese"),
    "qqp": Task("accuracy"),
    "mrpc-msr": Task("accuracy", test="test"),  # 4.07K to train on, 1.7K to test: the original split
    "qnli": Task("accuracy"),
    "rte": Task("accuracy"),
    "cola": Task("matthews"),
    "yelp": Task("accuracy", test="test"),
}
OBJECTIVES = ("lacon", "lacon-fusion", "ce", "ce-cl", "scl", "leam", "lsan")  # table 2


def configure(options: argparse.Namespace) -> ClassifierConfig:
    """Put the paper's values and the command line together.

    Args:
        options: The command line.

    Returns:
        The configuration.
    """
    task = TASKS.get(options.task, Task("accuracy"))
    return resolve_classifier(
        options.objective,
        # Section 3.1 of the paper: everything that is compared there is trained in the same way.
        overrides=optimization_of("lacon")
        | {
            "base": options.base or task.base,
            "metric": task.metric,
            "output": options.output,
            "seeds": [options.seed],
        },
        assignments=split_settings(options.set),
    )


def task_sets(options: argparse.Namespace) -> Sets:
    """The training split, capped per class and divided, and the split to test on (section 3.1).

    Args:
        options: The command line.

    Returns:
        The three sets; sample and validation part depend on the seed.
    """
    whole, test = (
        load_labelled(options.task, split=split, data_dir=options.data_dir)
        for split in ("train", TASKS[options.task].test)
    )
    if options.task not in LACON_WHOLE:
        whole = whole.select(cap_per_class(whole.labels, seed=options.seed))
    rows = lacon_train_split(whole.labels, seed=options.seed)
    return Sets(whole.select(rows.train), whole.select(rows.validation, split="validation"), test)


def main() -> None:
    """Read the command line, train and score."""
    parser = program_parser(__doc__, tasks=TASKS)
    parser.add_argument("--objective", choices=OBJECTIVES, default="lacon", help="row of Table 2")
    print(run_program(parser, configure, task_sets))


if __name__ == "__main__":
    main()
