"""SentEval's transfer tasks: which set, which features, which way to validate."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sentemb.data.labelled import LabelledTexts, load_labelled
from sentemb.errors import InputError

Validation = Literal["nested", "folds", "split"]
"""Folds inside of folds, folds on the training split, or a dev split."""


@dataclass(frozen=True)
class TransferTask:
    """A task.

    Attributes:
        name: What the command line calls it.
        label: What papers call it.
        data: Its set in the catalogue.
        validation: How the penalty is chosen, and what is reported.
    """

    name: str
    label: str
    data: str
    validation: Validation

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that it needs."""
        return {"nested": ("train",), "folds": ("train", "test"), "split": ("train", "dev", "test")}[
            self.validation
        ]


TASKS: Mapping[str, TransferTask] = {
    task.name: task
    for task in (
        TransferTask("mr", "MR", "mr", "nested"),
        TransferTask("cr", "CR", "cr", "nested"),
        TransferTask("subj", "SUBJ", "subj", "nested"),
        TransferTask("mpqa", "MPQA", "mpqa", "nested"),
        TransferTask("sst2", "SST-2", "sst2-senteval", "split"),
        TransferTask("trec", "TREC", "trec", "folds"),
        TransferTask("mrpc", "MRPC", "mrpc-msr", "folds"),
        TransferTask("sst5", "SST-5", "sst5", "split"),
        TransferTask("sick-e", "SICK-E", "sick-e", "split"),
    )
}
"""By name."""

TRANSFER_TASKS = ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc")
"""The seven of the papers, whose mean is their "Avg."."""


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
        names: Tasks.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        check_rows: Refuse a split whose number of rows is not the published one.

    Returns:
        The splits of each task.

    Raises:
        InputError: No name, a name twice, an unknown task, or data that cannot be used.
    """
    if isinstance(names, str) or not names:
        raise InputError("no list of tasks was given", f"choose among {', '.join(TASKS)}")
    for name in names:
        if name not in TASKS:
            raise InputError(f"no task {name!r}", f"choose among {', '.join(TASKS)}")
    if twice := sorted({name for name in names if list(names).count(name) > 1}):
        raise InputError(f"task {twice[0]} is named twice", "name each task once")
    return {
        name: {
            split: _sorted(
                load_labelled(TASKS[name].data, split=split, data_dir=data_dir, check_rows=check_rows)
            )
            for split in TASKS[name].splits
        }
        for name in names
    }


def _sorted(data: LabelledTexts) -> LabelledTexts:
    keys = [[len(text.split()) for text in data.texts], data.labels]
    if data.pairs is not None:
        keys.insert(1, [len(text.split()) for text in data.pairs])
    return data.select(np.lexsort([np.asarray(key) for key in reversed(keys)]))
