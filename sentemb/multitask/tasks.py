"""The three tasks that one encoder serves, and their sets: SST-5, Quora's question pairs and STS."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sentemb.data import load_columns, load_labelled
from sentemb.data.labelled import LabelledTexts
from sentemb.data.pairs import split_pairs
from sentemb.errors import InputError
from sentemb.training.config import Task as Task

TASKS: tuple[Task, ...] = ("sentiment", "paraphrase", "similarity")
"""In the order in which round robin visits them: SST, Quora, STS (Chen, section 5.3)."""

HIGHEST_SCORE = 5.0
"""Two texts of this score say the same (STS)."""

_WANTED = {
    "sentiment": "single texts of two or more classes",
    "paraphrase": "pairs of texts of two classes, the second of which marks paraphrases",
    "similarity": f"pairs of texts with scores from 0 to {HIGHEST_SCORE:g}",
}


@dataclass(frozen=True)
class TaskSets:
    """One split of each task's set.

    Attributes:
        sentiment: Single texts with classes.
        paraphrase: Pairs of two classes, of which the second is "they are paraphrases".
        similarity: Pairs with scores from 0 to 5.

    Raises:
        InputError: A set is of another kind.

    Example:
        >>> train, dev = load_task_sets(data_dir="data")  # doctest: +SKIP
        >>> train.sentiment.label_names  # doctest: +SKIP
    """

    sentiment: LabelledTexts
    paraphrase: LabelledTexts
    similarity: LabelledTexts

    def __post_init__(self) -> None:
        scores = self.similarity.labels
        suitable = {
            "sentiment": len(self.sentiment.label_names) >= 2,
            "paraphrase": len(self.paraphrase.label_names) == 2,
            "similarity": not self.similarity.label_names
            and 0 <= scores.min() <= scores.max() <= HIGHEST_SCORE,
        }
        for task, data in self:
            if not suitable[task] or (data.pairs is None) != (task == "sentiment"):
                raise InputError(
                    f"{data.name} {data.split} is not suitable for the task {task}", f"use {_WANTED[task]}"
                )

    def __iter__(self) -> Iterator[tuple[Task, LabelledTexts]]:
        for task in TASKS:
            yield task, self[task]

    def __getitem__(self, task: Task) -> LabelledTexts:
        data: LabelledTexts = getattr(self, task)
        return data

    def columns(self, task: Task) -> list[list[str]]:
        """Return the text columns of a set."""
        data = self[task]
        return [data.texts] if data.pairs is None else [data.texts, data.pairs]

    def sample(self, rows: int | None) -> TaskSets:
        """Return up to `rows` rows of each set (None: all), always the same ones."""
        if rows is None:
            return self
        # Drawn, because published files may be in the order of their classes.
        drawn = [np.sort(np.random.default_rng(0).permutation(len(data))[:rows]) for _, data in self]
        return TaskSets(*(data.select(chosen) for (_, data), chosen in zip(self, drawn, strict=True)))


def load_task_sets(
    *,
    data_dir: str | os.PathLike[str] | None = None,
    held_out: float | None = None,
    check_rows: bool = True,
) -> tuple[TaskSets, TaskSets]:
    """Load the training and dev sets of Stanford's CS 224N default project.

    The project's starter code lower-cases the texts and puts spaces around the punctuation of pairs, which
    the tokenizer of an uncased BERT does by itself. Here the texts stay as they are, so that a model meets
    in use what it met in training.

    Args:
        data_dir: Folder that holds `cs224n/`; None means `SENTEMB_DATA`.
        held_out: Divide Quora's dev split instead of reading its training split, which is not always at hand:
            the share of the pairs to evaluate on. No text is in both parts.
        check_rows: Refuse a set whose row count is not the published one.

    Returns:
        Training sets and dev sets.

    Raises:
        InputError: A set is missing or broken, or `held_out` is not a share.

    Example:
        >>> train, dev = load_task_sets(data_dir="data")  # doctest: +SKIP
    """

    def load(name: str, split: str) -> LabelledTexts:
        return load_labelled(f"cs224n-{name}", split=split, data_dir=data_dir, check_rows=check_rows)

    if held_out is None:
        pairs = load("quora", "train"), load("quora", "dev")
    elif not 0 < held_out < 1:
        raise InputError(f"held_out is {held_out:g}", "use a fraction between 0 and 1")
    else:
        whole = load("quora", "dev")
        parts = split_pairs(whole, seed=0, dev=held_out / 2, test=held_out / 2)
        rest = np.sort(np.concatenate([parts.dev, parts.test]))
        pairs = whole.select(parts.train, split="dev, remainder"), whole.select(rest, split="dev, held out")
    train, dev = (
        TaskSets(load("sst", split), one, load("sts", split))
        for split, one in zip(("train", "dev"), pairs, strict=True)
    )
    return train, dev


def read_nli_columns(
    source: str, *, data_dir: str | os.PathLike[str] | None = None, rows: int | None = None
) -> list[list[str]]:
    """Read NLI triples.

    Args:
        source: A file of three text columns, or a name of the catalogue.
        data_dir: Folder of local data sets; None means `SENTEMB_DATA`.
        rows: Maximum number of rows.

    Returns:
        Anchors, positives and hard negatives.

    Raises:
        InputError: The source does not have three columns of text.

    Example:
        >>> columns = read_nli_columns("nli.csv", rows=1000)  # doctest: +SKIP
    """
    triples = load_columns(source, data_dir=data_dir, limit=rows)
    if len(triples.column_names) != 3:
        raise InputError(
            f"{source} does not have three columns", "provide anchors, positives and hard negatives"
        )
    return [list(triples[name]) for name in triples.column_names]
