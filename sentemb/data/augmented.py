"""Noisy copies of labelled rows, made offline by back-translation (SCL, section 4.2).

The paper samples at temperatures of 0.3 to 0.9 and adds three copies to each labelled row. It does not say
whether both texts of a pair are translated; the file decides, by repeating the one that is not.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sentemb.data.catalogue import get
from sentemb.data.files import read_file
from sentemb.data.labelled import LabelledTexts
from sentemb.data.remote import source_at
from sentemb.data.sources import kind_of, read_rows
from sentemb.errors import InputError

RATIO = 3
"""Copies for each labelled row (SCL, section 4.2: "1:3")."""
_INDEX, _TEXT = "index", "augmented"


class Copy(NamedTuple):
    """A noisy copy of the row with a number, from 0, in the training split."""

    original: int
    text: str
    pair: str | None
    temperature: float | None
    location: str


def read_copies(
    path: str | os.PathLike[str], *, pair: str | None = None, temperature: str | None = None
) -> list[Copy]:
    """Read noisy copies from a table, as `sentemb data noisy-copies` writes it.

    Args:
        path: A `.tsv`, `.csv`, `.jsonl` or `.parquet` file, also compressed, with the number of the original
            row in column `index`, from 0, and the copy, or the first text of a pair, in column `augmented`.
        pair: Column of the second text of a pair.
        temperature: Column of the sampling temperature.

    Returns:
        The copies in the order of the file.

    Raises:
        InputError: The file or a column is missing, or a cell does not fit; with the line.

    Example:
        >>> copies = read_copies("copies.csv")  # doctest: +SKIP
    """
    columns = [_INDEX, _TEXT, *(name for name in (pair, temperature) if name)]
    copies = []
    for row in read_file(source_at(path), columns=columns):
        number = row.number(_INDEX)
        if not number.is_integer():
            raise InputError(f"{row.location}: the index {number:g} is not a whole number")
        second = row.text(pair) if pair else None
        degree = row.number(temperature) if temperature else None
        copies.append(Copy(int(number), row.text(_TEXT), second, degree, row.location))
    return copies


def read_originals(
    source: str,
    columns: Sequence[str] | None = None,
    *,
    only: Collection[int] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
) -> dict[int, tuple[str, ...]]:
    """Read the text, or the two texts, of each row to copy, by its number in the training split."""
    if not columns and kind_of(source) != "entry":
        raise InputError(f"the text columns of {source} are not clear", "name them with --columns")
    names = columns or get(source).text_columns
    if len(names) > 2:
        raise InputError(f"got {len(names)} text columns", "name one column, or two for pairs")
    return {
        number: tuple(row.filled(name) for name in names)
        for number, row in enumerate(read_rows(source, columns=names, data_dir=data_dir))
        if only is None or number in only
    }


def add_copies(
    data: LabelledTexts,
    rows: npt.NDArray[np.int64],
    copies: Iterable[Copy],
    *,
    seed: int,
    temperature: float | None = None,
    ratio: int = RATIO,
) -> LabelledTexts:
    """Make a noisy training set: the chosen rows, then `ratio` copies of each, with their labels.

    Args:
        data: The training split.
        rows: The labelled rows to train on, such as those of `stratified_sample`; SCL has 100.
        copies: Copies of rows of the training split; those of other rows are skipped.
        seed: Seed of the choice if a row has more copies.
        temperature: Use only copies of this temperature; all by default.
        ratio: Copies of each row.

    Returns:
        (1 + ratio) times as many rows.

    Raises:
        InputError: A copy does not belong to a row of the split, only one of both has pairs, or a chosen row
            has too few copies.

    Example:
        >>> noisy = add_copies(data, rows, read_copies("copies.csv"), seed=1)  # doctest: +SKIP
    """
    by_row: defaultdict[int, list[Copy]] = defaultdict(list)
    for copy in copies:
        if temperature is None or copy.temperature == temperature:
            _check_copy(copy, data)
            by_row[copy.original].append(copy)
    rng = np.random.default_rng(seed)
    chosen: list[Copy] = []
    for row in rows.tolist():
        found = by_row[row]
        if len(found) < ratio:
            at = "" if temperature is None else f" at temperature {temperature:g}"
            raise InputError(
                f"row {row} of {data.name} {data.split} has {len(found)} copies{at}, but {ratio} are needed",
                "make more copies, or choose a smaller ratio",
            )
        chosen += [found[number] for number in np.sort(rng.permutation(len(found))[:ratio])]
    kept = data.select(rows)
    return replace(
        kept,
        split=f"{kept.split} with copies",
        texts=kept.texts + [copy.text for copy in chosen],
        pairs=None if kept.pairs is None else kept.pairs + [copy.pair or "" for copy in chosen],
        labels=np.concatenate([kept.labels, np.repeat(kept.labels, ratio)]),
    )


def _check_copy(copy: Copy, data: LabelledTexts) -> None:
    if (copy.pair is None) != (data.pairs is None):
        raise InputError(
            f"{copy.location}: {data.name} has {'single texts' if data.pairs is None else 'pairs'}",
            "name one column of copies per text (augmented, augmented_pair)",
        )
    if not 0 <= copy.original < len(data):
        raise InputError(
            f"{copy.location}: {data.name} {data.split} does not have row {copy.original} (counted from 0)",
            "use the training split from which the copies were made",
        )
