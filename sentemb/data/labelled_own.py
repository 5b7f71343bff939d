"""Labelled texts of the user's own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sentemb.data.formats import read_rows
from sentemb.data.label_values import LabelNumbers, in_order, spelling
from sentemb.data.labelled import LabelledTexts, Labels
from sentemb.data.record import Record
from sentemb.errors import InputError


def read_labelled(
    path: str | os.PathLike[str],
    *,
    text: str = "text",
    pair: str | None = None,
    label: str = "label",
    label_names: Sequence[str] | None = None,
    scores: bool = False,
    name: str | None = None,
    split: str = "train",
    encoding: str = "utf-8",
) -> LabelledTexts:
    """Read labelled texts of one's own from a table.

    Args:
        path: A `.csv`, `.tsv`, `.jsonl` or `.parquet` file, also with `.gz` or `.xz`.
        text: Column of the texts, or of the first of each pair.
        pair: Column of the second of each pair.
        label: Column of the labels: strings, whole numbers, or true and false.
        label_names: The classes in the order of their numbers, as those of the training split for its dev
            split. By default the labels of this file, sorted: as numbers where all are whole numbers.
        scores: Labels are numbers to predict, not classes.
        name: What results call the set; the file's name without suffixes by default.
        split: What results call the split.
        encoding: Text encoding.

    Returns:
        The rows in the order of the file.

    Raises:
        InputError: The file, a column, a text or a label is missing or broken, or a label is none of
            `label_names`; with the line.
    """
    source = Path(path)
    if scores and label_names:
        raise InputError("scores have no label names", "leave one of the two out")
    columns = [column for column in (text, pair, label) if column is not None]
    rows = [
        Record(f"{source}:{number}", values)
        for number, values in read_rows(source, columns=columns, encoding=encoding)
    ]
    title = name or source.name.split(".")[0]
    labels: Labels
    if scores:
        names: tuple[str, ...] = ()
        labels = np.array([row.number(label) for row in rows], dtype=np.float64)
    else:
        spelled = [spelling(row.values[label], row.location) for row in rows]
        names = tuple(label_names or in_order(spelled))
        numbers = LabelNumbers(names, spellings=names, where=title)
        labels = np.array(
            [numbers.number(one, row.location) for one, row in zip(spelled, rows, strict=True)],
            dtype=np.int64,
        )
    return LabelledTexts(
        name=title,
        split=split,
        texts=[row.text(text) for row in rows],
        pairs=None if pair is None else [row.text(pair) for row in rows],
        labels=labels,
        label_names=names,
        source=str(source),
    )
