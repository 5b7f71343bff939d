"""The three sets of Stanford's CS 224N default project: SST-5, Quora's question pairs and STS."""

from __future__ import annotations

import os

import numpy as np

from sentemb.data import load_columns, load_labelled
from sentemb.data.labelled import LabelledTexts
from sentemb.data.paraphrases import split_pairs
from sentemb.errors import InputError
from sentemb.multitask.tasks import TaskSets


def load_task_sets(
    *,
    data_dir: str | os.PathLike[str] | None = None,
    held_out: float | None = None,
    seed: int = 0,
    check_rows: bool = True,
) -> tuple[TaskSets, TaskSets]:
    """Load the training and dev sets.

    The project's starter code lower-cases the texts and puts spaces around the punctuation of pairs, which
    the tokenizer of an uncased BERT does by itself. Here the texts stay as they are, so that a model meets
    in use what it met in training.

    Args:
        data_dir: Folder that holds `cs224n/`; None means `SENTEMB_DATA`.
        held_out: Divide Quora's dev split instead of reading its training split, which is not always at hand:
            the share of the pairs to evaluate on. No text is in both parts.
        seed: Draws that division.
        check_rows: Refuse a set whose row count is not the published one.

    Returns:
        Training sets and dev sets.

    Raises:
        InputError: A set is missing or broken, or `held_out` is no share.

    Example:
        >>> train, dev = load_task_sets(data_dir="data")  # doctest: +SKIP
    """

    def load(name: str, split: str) -> LabelledTexts:
        return load_labelled(f"cs224n-{name}", split=split, data_dir=data_dir, check_rows=check_rows)

    if held_out is None:
        train_pairs, dev_pairs = load("quora", "train"), load("quora", "dev")
    else:
        train_pairs, dev_pairs = _divided(load("quora", "dev"), held_out, seed)
    return (
        TaskSets(load("sst", "train"), train_pairs, load("sts", "train")),
        TaskSets(load("sst", "dev"), dev_pairs, load("sts", "dev")),
    )


def read_nli_columns(
    source: str, *, data_dir: str | os.PathLike[str] | None = None, rows: int | None = None
) -> list[list[str]]:
    """Read NLI triples.

    Args:
        source: A file of three text columns, or a name of the catalogue.
        data_dir: Folder of local data sets; None means `SENTEMB_DATA`.
        rows: Read only so many.

    Returns:
        Anchors, positives and hard negatives.

    Raises:
        InputError: The source has other than three columns of text.

    Example:
        >>> columns = read_nli_columns("nli.csv", rows=1000)  # doctest: +SKIP
    """
    triples = load_columns(source, data_dir=data_dir, limit=rows)
    if len(triples.column_names) != 3:
        raise InputError(
            f"{source} does not have three columns", "provide anchors, positives and hard negatives"
        )
    return [list(triples[name]) for name in triples.column_names]


def _divided(pairs: LabelledTexts, held_out: float, seed: int) -> tuple[LabelledTexts, LabelledTexts]:
    if not 0 < held_out < 1:
        raise InputError(f"held_out is {held_out:g}", "use a fraction between 0 and 1")
    parts = split_pairs(pairs, seed=seed, dev=held_out / 2, test=held_out / 2)
    kept = np.sort(np.concatenate([parts.dev, parts.test]))
    return pairs.select(parts.train, split="dev, remainder"), pairs.select(kept, split="dev, held out")
