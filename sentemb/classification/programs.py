"""What the programs for labelled texts share: their flags, a user's own files, the table at the end."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import NamedTuple

from sentemb.classification.classifier import Classifier
from sentemb.classification.config import ClassifierConfig
from sentemb.classification.evaluator import score_classifier
from sentemb.classification.files import read_own_labelled
from sentemb.classification.fit import fit_classifier
from sentemb.classification.grades import score_grades
from sentemb.data.labelled import LabelledTexts
from sentemb.errors import InputError
from sentemb.training.program import base_parser, run_with_options
from sentemb.training.progress import ConsoleProgress


class Sets(NamedTuple):
    """What a program trains on.

    Attributes:
        train: Texts to train on.
        validation: Texts to choose the weights by; None keeps the last.
        test: Texts to report, with the same classes or, where classes are grades, with scores.
    """

    train: LabelledTexts
    validation: LabelledTexts | None
    test: LabelledTexts | None


def program_parser(
    description: str | None, *, tasks: Iterable[str], base: str | None = None
) -> argparse.ArgumentParser:
    """Make the command line that every such program has."""
    parser = base_parser(description, base=base)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--task", choices=list(tasks), help="data set of the paper, split as there")
    source.add_argument("--train", help="a table of your own: .csv .tsv .jsonl .parquet")
    parser.add_argument("--validation", help="with --train: table to choose the weights by")
    parser.add_argument("--test", help="with --train: table to report")
    parser.add_argument("--columns", help="with --train: text column, or a,b for pairs; text by default")
    parser.add_argument("--label", help="with --train: label column; label by default")
    parser.add_argument("--seed", type=int, default=1, help="of head, dropout, order and splits")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any other setting")
    return parser


def run_program(
    parser: argparse.ArgumentParser,
    configure: Callable[[argparse.Namespace], ClassifierConfig],
    task_sets: Callable[[argparse.Namespace], Sets],
) -> str:
    """Read the command line and train a classifier on a paper's task or a user's own files."""

    def run(options: argparse.Namespace) -> str:
        config = configure(options)
        sets = _own_sets(options) if options.task is None else task_sets(_without_own(options))
        classifier = fit_classifier(
            config, sets.train, sets.validation, resume=options.resume, progress=ConsoleProgress()
        ).classifier
        lines = [f"{config.recipe} on {sets.train.name}, {len(sets.train)} rows, seed {options.seed}"]
        for title, data in (("validation", sets.validation), ("test", sets.test)):
            if data is not None:
                lines.append(f"{title:<10}  {len(data):>6} rows  {_scores(classifier, data)}")
        return "\n".join([*lines, f"classifier  {config.output}"])

    return run_with_options(parser, run)


def _scores(classifier: Classifier, data: LabelledTexts) -> str:
    score = score_classifier if data.label_names else score_grades
    return "  ".join(f"{name} {100 * value:.2f}" for name, value in score(classifier, data).items())


def _without_own(options: argparse.Namespace) -> argparse.Namespace:
    for name in ("validation", "test", "columns", "label"):
        if getattr(options, name) is not None:
            raise InputError(
                f"--{name} goes with --train, and --task {options.task} brings its own rows",
                f"leave --{name} out, or give a table with --train in place of --task",
            )
    return options


def _own_sets(options: argparse.Namespace) -> Sets:
    columns = (options.columns or "text").split(",")

    def read(path: str, split: str, label_names: tuple[str, ...] | None = None) -> LabelledTexts:
        return read_own_labelled(
            path, columns=columns, label=options.label or "label", label_names=label_names, split=split
        )

    train = read(options.train, "train")
    others = [
        None if path is None else read(path, split, train.label_names)
        for split, path in (("validation", options.validation), ("test", options.test))
    ]
    return Sets(train, *others)
