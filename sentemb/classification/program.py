"""`sentemb train RECIPE` for classifiers: a paper's task, split as there, or tables of your own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sentemb.classification.classifier import Input
from sentemb.classification.evaluator import grade_classes, score_classifier, score_grades
from sentemb.classification.fit import fit_classifier
from sentemb.data import load_labelled
from sentemb.data.labelled import LabelledTexts, read_labelled
from sentemb.data.sampling import LACON_WHOLE, cap_per_class, lacon_train_split, scl_dev_split
from sentemb.data.sources import read_rows
from sentemb.errors import InputError, unknown
from sentemb.training.config import ClassifierConfig
from sentemb.training.progress import ConsoleProgress
from sentemb.training.recipes import PROTOCOLS, Protocol


class Sets(NamedTuple):
    """Texts to train on, to choose the weights by (None keeps the last), and to report."""

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
    fitted = fit_classifier(config, sets.train, sets.validation, resume=resume, progress=progress)
    lines = [f"{config.recipe} on {sets.train.name}, {len(sets.train)} rows, seed {config.seeds[0]}"]
    for title, data in (("validation", sets.validation), ("test", sets.test)):
        if data is not None:
            score = score_classifier if data.label_names else score_grades
            values = score(fitted.classifier, data).items()
            shown = "  ".join(f"{name} {100 * value:.2f}" for name, value in values)
            lines.append(f"{title:<10}  {len(data):>6} rows  {shown}")
    return [*lines, f"classifier  {config.output}"]


def check_flags(flags: Mapping[str, Any]) -> None:
    """Raise InputError for flags that do not go together, before anything is read."""
    task, own = flags.get("task"), flags.get("train")
    if (task is None) == (own is None):
        raise InputError(
            "training data is missing" if task is None else "--task and --train are both set",
            "specify either --task or --train",
        )
    if task is None:
        return
    for name in ("validation", "test", "columns", "label"):
        if flags.get(name) is not None:
            raise InputError(
                f"--{name} needs --train; --task {task} already defines its rows",
                f"remove --{name}, or replace --task with --train FILE",
            )
    if flags.get("protocol") is None:
        raise InputError("the task needs a protocol", f"set --protocol {'|'.join(PROTOCOLS)}")
    if task not in (tasks := PROTOCOLS[flags["protocol"]].tasks):
        raise unknown("task", task, tasks)


def _own_sets(flags: Mapping[str, Any]) -> Sets:
    columns, label = (flags.get("columns") or "text").split(","), flags.get("label") or "label"

    def read(split: str, names: tuple[str, ...] | None = None) -> LabelledTexts | None:
        if (path := flags.get(split)) is None:
            return None
        return read_own_labelled(path, columns=columns, label=label, label_names=names, split=split)

    train = read("train")
    assert train is not None  # check_flags
    if len(train.label_names) == 1:
        raise InputError(
            f"{flags['train']}: all rows have the label {train.label_names[0]!r}",
            "add examples of at least one more class",
        )
    return Sets(train, read("validation", train.label_names), read("test", train.label_names))


def _task_sets(config: ClassifierConfig, task: str, protocol: Protocol, data_dir: str | None) -> Sets:
    """Load a task, divided as the protocol's paper does it."""
    name = "stsb-glue" if task == "stsb" else task
    splits = ("train", protocol.tasks[task].get("test", "dev"))
    train, test = (load_labelled(name, split=split, data_dir=data_dir) for split in splits)
    (seed,) = config.seeds
    if protocol.split == "lacon":  # section 3.1: a capped sample, 5 % of which choose the weights
        if task not in LACON_WHOLE:
            train = train.select(cap_per_class(train.labels, seed=seed))
        rows = lacon_train_split(train.labels, seed=seed)
        return Sets(train.select(rows.train), train.select(rows.validation, split="validation"), test)
    if protocol.split == "scl":  # section 4.1: the dev split in two, the same for all seeds
        parts = scl_dev_split(test.labels)
        chosen, reported = (test.select(getattr(parts, one), split=one) for one in ("validation", "test"))
        return Sets(train, chosen, reported)
    if task == "stsb":
        if config.recipe.startswith("ce"):
            raise InputError(
                "the cross-entropy recipes do not support the task stsb, which has scores instead of classes",
                "use another --task or recipe",
            )
        # Footnote 3; the released code does not round.
        train = grade_classes(train, decimals=None if config.preset == "released" else 1)
    return Sets(train, None, test)


def read_own_labelled(
    path: str | Path,
    *,
    columns: Sequence[str] = ("text",),
    label: str = "label",
    label_names: Sequence[str] | None = None,
    split: str = "train",
) -> LabelledTexts:
    """Read texts, or pairs of texts, and their labels.

    Args:
        path: A table, as `sentemb.data.read_labelled` takes it.
        columns: The column of the texts, or the two columns of the pairs.
        label: Column of the labels.
        label_names: The classes in the order of their numbers; those of the training set for any other.
        split: What messages call it.

    Returns:
        The rows in the order of the file.

    Raises:
        InputError: The file, a column or a label is missing or broken, or a text is empty.

    Example:
        >>> data = read_own_labelled("few.csv")
        >>> data.label_names
        ('abbreviation', 'description', 'entity', 'location', 'number', 'person')
    """
    text, pair = _text_columns(columns)
    data = read_labelled(path, text=text, pair=pair, label=label, label_names=label_names, split=split)
    for column, texts in ((text, data.texts), (pair, data.pairs or [])):
        for row, one in enumerate(texts, start=1):
            if not one.strip():
                raise InputError(
                    f"{path}: column {column!r} of row {row} is empty", "remove the row, or fill in the value"
                )
    return data


def read_own_texts(path: str | Path, *, columns: Sequence[str] = ("text",)) -> list[Input]:
    """Read texts, or pairs of texts, to be classified.

    Args:
        path: A table, or a file with one text a line.
        columns: The column of the texts, or the two columns of the pairs.

    Returns:
        Texts or pairs in the order of the file; empty ones count.

    Raises:
        InputError: The file or a column is missing or broken, or there is no row.

    Example:
        >>> read_own_texts("few.csv")[0]
        'What does it stand for item 0 ?'
    """
    text, pair = _text_columns(columns)
    rows = read_rows(path, columns=[text] if pair is None else [text, pair])
    inputs = [row.text(text) if pair is None else (row.text(text), row.text(pair)) for row in rows]
    if not inputs:
        raise InputError(f"{path} does not contain any rows")
    return inputs


def _text_columns(columns: Sequence[str]) -> tuple[str, str | None]:
    if len(columns) == 1:
        return columns[0], None
    if len(columns) == 2 and columns[0] != columns[1]:
        return columns[0], columns[1]
    raise InputError(
        f"text columns are {', '.join(columns) or '(none)'}",
        "list one text column, or the two columns of pairs",
    )
