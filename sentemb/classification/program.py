"""`sentemb train RECIPE` for classifiers: a paper's task, split as there, or tables of your own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sentemb.classification.classifier import Classifier
from sentemb.classification.evaluator import score_classifier
from sentemb.classification.files import read_own_labelled
from sentemb.classification.fit import fit_classifier
from sentemb.classification.grades import grade_classes, score_grades
from sentemb.data import cap_per_class, lacon_train_split, load_labelled, scl_dev_split
from sentemb.data.labelled import LabelledTexts
from sentemb.data.sampling import LACON_WHOLE
from sentemb.errors import InputError, unknown
from sentemb.training.config import ClassifierConfig
from sentemb.training.progress import ConsoleProgress
from sentemb.training.recipes import PROTOCOLS, Protocol

_OF_OWN_TABLES = ("validation", "test", "columns", "label")


class Sets(NamedTuple):
    """What a classifier is trained on.

    Attributes:
        train: Texts to train on.
        validation: Texts to choose the weights by; None keeps the last.
        test: Texts to report, with the same classes or, where classes are grades, with scores.
    """

    train: LabelledTexts
    validation: LabelledTexts | None
    test: LabelledTexts | None


def train_classifier(
    config: ClassifierConfig,
    flags: Mapping[str, Any],
    *,
    resume: bool = False,
    progress: ConsoleProgress | None = None,
) -> list[str]:
    """Train on what the flags name and score the result, a line for each set."""
    if flags.get("task") is None:
        sets = _own_sets(flags)
    else:
        sets = _task_sets(config, flags["task"], PROTOCOLS[flags["protocol"]], flags.get("data_dir"))
    classifier = fit_classifier(
        config, sets.train, sets.validation, resume=resume, progress=progress
    ).classifier
    lines = [f"{config.recipe} on {sets.train.name}, {len(sets.train)} rows, seed {config.seeds[0]}"]
    for title, data in (("validation", sets.validation), ("test", sets.test)):
        if data is not None:
            lines.append(f"{title:<10}  {len(data):>6} rows  {_scores(classifier, data)}")
    return [*lines, f"classifier  {config.output}"]


def check_flags(flags: Mapping[str, Any]) -> None:
    """Refuse flags that do not go together, before anything is read."""
    task, own = flags.get("task"), flags.get("train")
    if (task is None) == (own is None):
        raise InputError(
            "training data is missing" if task is None else "--task and --train are both set",
            "specify either --task or --train",
        )
    if task is None:
        return
    for name in _OF_OWN_TABLES:
        if flags.get(name) is not None:
            raise InputError(
                f"--{name} needs --train; --task {task} already defines its rows",
                f"remove --{name}, or replace --task with --train FILE",
            )
    if flags.get("protocol") is None:
        raise InputError("the task needs a protocol", f"set --protocol {'|'.join(PROTOCOLS)}")
    if task not in (tasks := PROTOCOLS[flags["protocol"]].tasks):
        raise unknown("task", task, tasks)


def _scores(classifier: Classifier, data: LabelledTexts) -> str:
    score = score_classifier if data.label_names else score_grades
    return "  ".join(f"{name} {100 * value:.2f}" for name, value in score(classifier, data).items())


def _own_sets(flags: Mapping[str, Any]) -> Sets:
    columns = (flags.get("columns") or "text").split(",")

    def read(split: str, label_names: tuple[str, ...] | None = None) -> LabelledTexts:
        label = flags.get("label") or "label"
        return read_own_labelled(
            flags[split], columns=columns, label=label, label_names=label_names, split=split
        )

    train = read("train")
    if len(train.label_names) == 1:
        only = train.label_names[0]
        raise InputError(
            f"{flags['train']}: all rows have the label {only!r}", "add examples of at least one more class"
        )
    others = [
        read(split, train.label_names) if flags.get(split) is not None else None
        for split in ("validation", "test")
    ]
    return Sets(train, *others)


def _task_sets(config: ClassifierConfig, task: str, protocol: Protocol, data_dir: str | None) -> Sets:
    """A task, divided as the protocol's paper does it."""
    name = "stsb-glue" if task == "stsb" else task
    (seed,) = config.seeds
    train, test = (
        load_labelled(name, split=split, data_dir=data_dir)
        for split in ("train", protocol.tasks[task].get("test", "dev"))
    )
    if protocol.split == "lacon":  # section 3.1: a capped sample, 5 % of which choose the weights
        if task not in LACON_WHOLE:
            train = train.select(cap_per_class(train.labels, seed=seed))
        rows = lacon_train_split(train.labels, seed=seed)
        return Sets(train.select(rows.train), train.select(rows.validation, split="validation"), test)
    if protocol.split == "scl":  # section 4.1: the dev split in two, the same for all seeds
        parts = scl_dev_split(test.labels)
        return Sets(
            train, test.select(parts.validation, split="validation"), test.select(parts.test, split="test")
        )
    if task == "stsb":
        if config.recipe.startswith("ce"):
            raise InputError(
                "the cross-entropy recipes do not support the task stsb, which has scores instead of classes",
                "use another --task or recipe",
            )
        # Footnote 3; the released code does not round.
        train = grade_classes(train, decimals=None if config.preset == "released" else 1)
    return Sets(train, None, test)
