"""SentEval's tasks and files of one's own: which set, which features, which way to validate."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sentemb._uris import local_path
from sentemb.data.files import name_and_split, names_a_file
from sentemb.data.labelled import LabelledTexts, load_labelled, read_probe
from sentemb.data.sts import load_scored_pairs
from sentemb.errors import InputError
from sentemb.evaluation.transfer.presets import NeuralPreset, Preset

Validation = Literal["nested", "folds", "split", "regression"]
"""Nested folds, folds on the training split, a dev split, or a dev split that stops a regression."""


@dataclass(frozen=True)
class TransferTask:
    """A task."""

    name: str  # what the command line calls it
    label: str  # what papers call it
    data: str  # its set in the catalogue, or the file of a probing task
    validation: Validation  # how the penalty is chosen, and what is reported
    linear: bool = False  # SentEval gives it no hidden layer, whatever the preset
    f1: bool = False  # F1 of the second class is reported beside accuracy

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that it needs."""
        needed = {"nested": ("train",), "folds": ("train", "test")}
        return needed.get(self.validation, ("train", "dev", "test"))

    @property
    def tested(self) -> str:
        """The split that predictions are of."""
        return self.splits[-1]


TASKS: Mapping[str, TransferTask] = {
    task.name: task
    for task in (
        TransferTask("mr", "MR", "mr", "nested"),
        TransferTask("cr", "CR", "cr", "nested"),
        TransferTask("subj", "SUBJ", "subj", "nested"),
        TransferTask("mpqa", "MPQA", "mpqa", "nested"),
        TransferTask("sst2", "SST-2", "sst2-senteval", "split"),
        TransferTask("trec", "TREC", "trec", "folds"),
        TransferTask("mrpc", "MRPC", "mrpc-msr", "folds", f1=True),
        TransferTask("sst5", "SST-5", "sst5", "split"),
        TransferTask("sick-e", "SICK-E", "sick-e", "split"),
        TransferTask("length", "Length", "sentence_length.txt", "split"),
        TransferTask("word-content", "WordContent", "word_content.txt", "split", linear=True),
        TransferTask("depth", "Depth", "tree_depth.txt", "split"),
        TransferTask("top-constituents", "TopConst", "top_constituents.txt", "split"),
        TransferTask("bigram-shift", "BShift", "bigram_shift.txt", "split"),
        TransferTask("tense", "Tense", "past_present.txt", "split"),
        TransferTask("subj-number", "SubjNum", "subj_number.txt", "split"),
        TransferTask("obj-number", "ObjNum", "obj_number.txt", "split"),
        TransferTask("odd-man-out", "SOMO", "odd_man_out.txt", "split"),
        TransferTask("coordination-inversion", "CoordInv", "coordination_inversion.txt", "split"),
        TransferTask("stsb-trained", "STS-B (trained)", "stsb", "regression"),
        TransferTask("sickr-trained", "SICK-R (trained)", "sickr", "regression"),
    )
}
"""By name."""

TRANSFER_TASKS = ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc")
"""The seven of the papers, whose mean is their "Avg."."""

PROBING_TASKS = tuple(name for name, task in TASKS.items() if task.data.endswith(".txt"))
"""The ten of Conneau et al. (2018)."""

RELATEDNESS_TASKS = tuple(name for name, task in TASKS.items() if task.validation == "regression")
"""STS-B and SICK-R as SentEval's own code has them: a regression that is trained on the pairs, under every
preset the same. Most papers report the cosine without training, `evaluate_sts`; the two do not compare."""


def task_of(title: str) -> TransferTask:
    """A task by what results call it; any other than those of `TASKS` is a file of one's own."""
    return TASKS.get(title) or TransferTask(title, title, "", "nested")


def title_of(name: str) -> str:
    """What results call a task, or a file of one's own."""
    return name if name in TASKS or not names_a_file(name) else name_and_split(local_path(name))[0]


def load_tasks(
    names: Sequence[str] = TRANSFER_TASKS,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    check_rows: bool = True,
) -> dict[str, dict[str, LabelledTexts]]:
    """Read the sets of tasks, their rows in SentEval's order.

    SentEval sorts rows by their numbers of words and then by their labels before it makes folds of them; rows
    that are equal in both stay as they are in the files. Another order would give other folds.

    Args:
        names: Tasks, or files as `load_labelled` takes them, which are cross-validated as MR is.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        check_rows: Refuse a split whose number of rows is not the published one.

    Returns:
        The splits of each task, by their names; a file is called by its name without suffixes.

    Raises:
        InputError: No name, a name twice, an unknown task, or data that cannot be used.
    """
    check_tasks(names)
    return {title_of(name): _load(name, data_dir, check_rows=check_rows) for name in names}


def check_tasks(names: Sequence[str]) -> None:
    """Refuse what is no list of tasks."""
    if isinstance(names, str) or not names:
        raise InputError("the list of tasks is empty", f"choose among {', '.join(TASKS)}")
    for name in names:
        if name not in TASKS and not names_a_file(name):
            raise InputError(
                f"unknown task {name!r}", f"use a labelled file, or choose among {', '.join(TASKS)}"
            )
        if name not in TASKS and title_of(name) in TASKS:
            raise InputError(f"{name} has the same name as the task {title_of(name)}", "rename the file")
    titles = [title_of(name) for name in names]
    if twice := sorted({title for title in titles if titles.count(title) > 1}):
        raise InputError(f"the task {twice[0]} is listed twice", "list each task once")


def check_folds(tasks: Mapping[str, Mapping[str, LabelledTexts]], preset: Preset) -> None:
    """Refuse data that cannot be divided into a preset's folds, before time is spent on encoding."""
    folds = preset.folds
    # Of the rows outside a fold, each class must have one for every inner fold.
    needed = {"nested": folds + 2, "folds": folds}
    for title, parts in tasks.items():
        least = needed.get(task_of(title).validation, 0)
        if not least:
            continue
        train = parts["train"]
        where = train.source or title
        counts = {name: count for name, count in train.class_counts.items() if count}
        if len(counts) == 1:
            raise InputError(
                f"{where}: all rows have the class {min(counts)!r}", "add rows of a second class"
            )
        for name, count in counts.items():
            if count < least:
                raise InputError(
                    f"{where}: class {name!r} has {count} rows, but {folds}-fold cross-validation "
                    f"needs {least} of each class",
                    "add rows, remove the class, or use the preset simcse-fast, which has 5 folds",
                )
        outside = len(train) - math.ceil(len(train) / folds)
        if isinstance(preset, NeuralPreset) and int(preset.validation_share * outside) == 0:
            raise InputError(
                f"{where}: {len(train)} rows are too few for the validation split of early stopping",
                "add rows, or use the preset logreg",
            )


def _load(
    name: str, data_dir: str | os.PathLike[str] | None, *, check_rows: bool
) -> dict[str, LabelledTexts]:
    if name not in TASKS:
        return {"train": _sorted(load_labelled(name))}
    task = TASKS[name]
    if name in PROBING_TASKS:
        parts = read_probe(task.data, data_dir=data_dir, check_rows=check_rows)
    else:
        load = _load_graded if task.validation == "regression" else load_labelled
        parts = {
            split: load(task.data, split=split, data_dir=data_dir, check_rows=check_rows)
            for split in task.splits
        }
    return {split: _sorted(part) for split, part in parts.items()}


def _load_graded(
    name: str, *, split: str, data_dir: str | os.PathLike[str] | None, check_rows: bool
) -> LabelledTexts:
    pairs = load_scored_pairs(name, split=split, data_dir=data_dir, check_rows=check_rows)
    return LabelledTexts(name, split, [*pairs.first], [*pairs.second], pairs.gold, (), source=pairs.source)


def _sorted(data: LabelledTexts) -> LabelledTexts:
    keys = [[len(text.split()) for text in data.texts], data.labels]
    if data.pairs is not None:
        keys.insert(1, [len(text.split()) for text in data.pairs])
    return data.select(np.lexsort([np.asarray(key) for key in reversed(keys)]))
