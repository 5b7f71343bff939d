"""SentEval's tasks and your own files: sets, classifiers by preset, validation, and scores."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import StratifiedKFold

from sentemb._uris import local_path
from sentemb.data.files import name_and_split, names_a_file
from sentemb.data.labelled import LabelledTexts, load_labelled, read_probe
from sentemb.errors import InputError
from sentemb.evaluation.measures import measure
from sentemb.evaluation.suites import TRANSFER

Rows = npt.NDArray[np.int64]
Parts = Mapping[str, LabelledTexts]
Validation = Literal["nested", "folds", "split"]
"""Nested folds, folds on the training split, or a dev split."""

OUTER_SEED = 1111
"""Of the folds of tasks without a test split, whatever the classifier's seed."""


@dataclass(frozen=True, kw_only=True)
class NeuralPreset:
    """SentEval's own classifier: logistic regression, or one hidden layer, trained by batches.

    Every `epoch_size` passes the network is scored on rows that it is not trained on. Scores that are not a
    new best are counted, also when a best one comes between them; the one after `tenacity` of them ends the
    training, and the weights of the best score are kept.
    """

    hidden: int  # units of the hidden layer with its sigmoid; 0 for none
    optimizer: Literal["adam", "rmsprop"]
    batch_size: int
    tenacity: int
    epoch_size: int
    folds: int  # k of the cross-validations
    max_epochs: int = 200  # a network that has seen more passes is not trained further
    penalties: tuple[float, ...] = (
        1e-5,
        1e-4,
        1e-3,
        1e-2,
    )  # weight decay, L2 in the gradient, to choose from
    # part of the training rows that stops the last fit, where a task has no dev split
    validation_share: float = 0.05

    @property
    def learning_rate(self) -> float:
        """Torch's default of the optimizer, which SentEval leaves as it is."""
        return 1e-3 if self.optimizer == "adam" else 1e-2

    @property
    def fold_penalties(self) -> tuple[float, ...]:
        """Penalties of tasks that validate by folds of their training split."""
        return self.penalties


@dataclass(frozen=True, kw_only=True)
class LogisticPreset:
    """L2-regularised logistic regression to convergence: no seed, no batches, no early stop."""

    folds: int  # k of the cross-validations
    penalties: tuple[float, ...]  # C of scikit-learn, an inverse, to choose from
    fold_penalties: tuple[float, ...]  # those of tasks that validate by folds of their training split


Preset = NeuralPreset | LogisticPreset

_SIMCSE: dict[str, Any] = {"hidden": 0, "optimizer": "adam", "batch_size": 64, "tenacity": 5, "epoch_size": 4}
PRESETS: Mapping[str, Preset] = {
    # SBERT-WK's script, which SG-BERT's table 9 follows.
    "sg-bert": NeuralPreset(**{**_SIMCSE, "hidden": 50}, folds=10),
    # SimCSE's evaluation.py, mode test.
    "simcse": NeuralPreset(**_SIMCSE, folds=10),
    # SimCSE's mode fasttest, which is SentEval's "prototyping" setting and BERT-flow's.
    "simcse-fast": NeuralPreset(
        hidden=0, optimizer="rmsprop", batch_size=128, tenacity=3, epoch_size=2, folds=5
    ),
    # The grids of C of SentEval's scikit-learn classifiers (validation.py): that of TREC and MRPC, its
    # KFoldClassifier, has 2**-1 to 2**5, the others have 2**-2 to 2**3.
    "logreg": LogisticPreset(
        folds=10,
        penalties=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
        fold_penalties=(0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
    ),
}
"""The classifiers that published transfer scores were made with, by name."""


def get_preset(name: str) -> Preset:
    """Return a preset by its name."""
    if name not in PRESETS:
        raise InputError(f"unknown preset {name!r}", f"choose one of {', '.join(PRESETS)}")
    return PRESETS[name]


@dataclass(frozen=True)
class TransferTask:
    """A task."""

    name: str  # on the command line
    label: str  # in papers
    data: str  # its set in the catalogue, or the file of a probing task
    validation: Validation  # how the penalty is chosen, and what is reported
    linear: bool = False  # SentEval gives it no hidden layer, whatever the preset
    f1: bool = False  # F1 of the second class is reported in addition to accuracy

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that it needs; predictions are of the last."""
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
    )
}
"""By name."""

TRANSFER_TASKS = TRANSFER.sets
"""The seven of the papers, whose mean is their "Avg."."""

PROBING_TASKS = tuple(name for name, task in TASKS.items() if task.data.endswith(".txt"))
"""The ten of Conneau et al. (2018)."""


def task_of(title: str) -> TransferTask:
    """Return a task by its name in results; any other than those of `TASKS` is a file of your own."""
    return TASKS.get(title) or TransferTask(title, title, "", "nested")


def title_of(name: str) -> str:
    """Return the name of a task, or of a file of your own, in results."""
    return name if name in TASKS or not names_a_file(name) else name_and_split(local_path(name))[0]


def check_tasks(names: Sequence[str]) -> None:
    """Raise InputError if names are not a list of tasks or files."""
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


def load_tasks(
    names: Sequence[str] = TRANSFER_TASKS,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    check_rows: bool = True,
) -> dict[str, dict[str, LabelledTexts]]:
    """Read the splits of tasks, or of files that are cross-validated as MR is, by their names in results.

    Rows are in SentEval's order: it sorts them by their numbers of words and then by their labels before it
    makes folds of them; rows that are equal in both stay as they are in the files. Another order would give
    other folds.
    """
    check_tasks(names)
    found = {}
    for name in names:
        if name not in TASKS:
            parts = {"train": load_labelled(name)}
        elif name in PROBING_TASKS:
            parts = read_probe(TASKS[name].data, data_dir=data_dir, check_rows=check_rows)
        else:
            parts = {
                split: load_labelled(TASKS[name].data, split=split, data_dir=data_dir, check_rows=check_rows)
                for split in TASKS[name].splits
            }
        found[title_of(name)] = {split: _sort_rows(part) for split, part in parts.items()}
    return found


def _sort_rows(data: LabelledTexts) -> LabelledTexts:
    keys = [[len(text.split()) for text in data.texts], data.labels]
    if data.pairs is not None:
        keys.insert(1, [len(text.split()) for text in data.pairs])
    return data.select(np.lexsort([np.asarray(key) for key in reversed(keys)]))


def check_folds(tasks: Mapping[str, Parts], preset: Preset) -> None:
    """Raise InputError if data cannot be divided into a preset's folds, before time is spent on encoding."""
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


def task_scores(
    task: TransferTask, gold: npt.NDArray[Any], predictions: npt.NDArray[Any], *, folds: int
) -> dict[str, float]:
    """Return SentEval's scores, rounded as there: accuracy and F1."""
    nested = task.validation == "nested"
    accuracy = nested_accuracy(gold, predictions, folds) if nested else percent(np.mean(predictions == gold))
    return {"accuracy": accuracy} | ({"f1": percent(measure("f1", predictions, gold))} if task.f1 else {})


def accuracy_of_folds(
    task: str, preset: str, gold: npt.NDArray[Any], predictions: npt.NDArray[Any]
) -> float | None:
    """Return the accuracy of a task that is reported as a mean over folds; None of other tasks."""
    if task_of(task).validation != "nested" or preset not in PRESETS:
        return None
    return nested_accuracy(gold, predictions, PRESETS[preset].folds)


def nested_accuracy(gold: npt.NDArray[Any], predictions: npt.NDArray[Any], folds: int) -> float:
    """Return the mean accuracy of the outer folds, each of which is rounded."""
    right = predictions == gold
    parts = stratified_folds(np.arange(len(gold)), gold, folds, OUTER_SEED)
    return round(float(np.mean([percent(np.mean(right[test])) for _, test in parts])), 2)


def stratified_folds(
    rows: Rows, labels: npt.NDArray[np.int64], count: int, seed: int
) -> list[tuple[Rows, Rows]]:
    """Return the training and test rows of each fold."""
    divided = StratifiedKFold(n_splits=count, shuffle=True, random_state=seed)
    return [(rows[train], rows[test]) for train, test in divided.split(rows, labels[rows])]


def percent(share: float | np.floating[Any]) -> float:
    """Return a share x 100, rounded to two decimals as SentEval does before it compares or averages."""
    return round(100 * float(share), 2)
