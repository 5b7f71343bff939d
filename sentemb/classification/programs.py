"""What the programs for labelled texts share: their flags, a user's own files, the table at the end."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import NamedTuple

from sentemb.classification.config import ClassifierConfig
from sentemb.classification.evaluator import score_classifier
from sentemb.classification.files import read_own_labelled
from sentemb.classification.fit import fit_classifier
from sentemb.data.labelled import LabelledTexts


class Sets(NamedTuple):
    """What a program trains on.

    Attributes:
        train: Texts to train on.
        validation: Texts to choose the weights by; None keeps the last.
        test: Texts to report.
    """

    train: LabelledTexts
    validation: LabelledTexts | None
    test: LabelledTexts | None


def program_parser(
    description: str | None, *, tasks: Iterable[str], base: str | None = None
) -> argparse.ArgumentParser:
    """Make the command line that every such program has.

    Args:
        description: The program's docstring.
        tasks: Data sets of the paper.
        base: Base model of the paper, None where it depends on the task.

    Returns:
        The parser, to which a program may add.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--task", choices=list(tasks), help="data set of the paper, split as there")
    source.add_argument("--train", help="a table of your own: .csv .tsv .jsonl .parquet")
    parser.add_argument("--validation", help="with --train: table to choose the weights by")
    parser.add_argument("--test", help="with --train: table to report")
    parser.add_argument("--columns", default="text", help="with --train: text column, or a,b for pairs")
    parser.add_argument("--label", default="label", help="with --train: label column")
    parser.add_argument(
        "--base", default=base, help="base model: folder or hub id; that of the paper by default"
    )
    parser.add_argument("--output", required=True, help="folder for the classifier and the run")
    parser.add_argument("--data-dir", help="folder of local data sets; SENTEMB_DATA by default")
    parser.add_argument("--seed", type=int, default=1, help="of head, dropout, order and splits")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any other setting")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    return parser


def train_and_score(
    options: argparse.Namespace,
    config: ClassifierConfig,
    task_sets: Callable[[argparse.Namespace], Sets],
) -> str:
    """Train a classifier on a paper's task or a user's own files.

    Args:
        options: The command line.
        config: The configuration.
        task_sets: Reads and splits the sets of `--task`.

    Returns:
        A table of its scores on the validation and the test set.

    Raises:
        InputError: Something in the configuration, the data or the folder cannot be used.
        Interrupted: The user stopped the run, which can be resumed.
    """
    sets = _own_sets(options) if options.task is None else task_sets(options)
    classifier = fit_classifier(config, sets.train, sets.validation, resume=options.resume).classifier
    lines = [f"{config.recipe} on {sets.train.name}, {len(sets.train)} rows, seed {options.seed}"]
    for title, data in (("validation", sets.validation), ("test", sets.test)):
        if data is not None:
            scores = score_classifier(classifier, data)
            row = "  ".join(f"{name} {100 * score:.2f}" for name, score in scores.items())
            lines.append(f"{title:<10}  {len(data):>6} rows  {row}")
    return "\n".join([*lines, f"classifier  {config.output}"])


def _own_sets(options: argparse.Namespace) -> Sets:
    columns = options.columns.split(",")

    def read(path: str, split: str, label_names: tuple[str, ...] | None = None) -> LabelledTexts:
        return read_own_labelled(
            path, columns=columns, label=options.label, label_names=label_names, split=split
        )

    train = read(options.train, "train")
    others = [
        None if path is None else read(path, split, train.label_names)
        for split, path in (("validation", options.validation), ("test", options.test))
    ]
    return Sets(train, *others)
