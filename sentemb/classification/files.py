"""A user's own tables of texts, with labels to train on or without."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sentemb.classification.inputs import Input
from sentemb.data.labelled import LabelledTexts, read_labelled
from sentemb.data.sources import read_rows
from sentemb.errors import InputError


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
    inputs: list[Input] = []
    for row in read_rows(path, columns=[text] if pair is None else [text, pair]):
        inputs.append(row.text(text) if pair is None else (row.text(text), row.text(pair)))
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
