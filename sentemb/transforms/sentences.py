"""The sentences of a data source, in pairs where it has pairs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from sentemb.data import load_columns
from sentemb.data.catalogue import get
from sentemb.data.sources import kind_of
from sentemb.data.sts import load_scored_pairs
from sentemb.errors import InputError


class Sentences(NamedTuple):
    """Sentences to fit on.

    Attributes:
        first: First sentences of pairs, or single sentences.
        second: Second sentences of the pairs; None for single sentences.
    """

    first: list[str]
    second: list[str] | None


def load_sentences(
    source: str,
    columns: Sequence[str] | None = None,
    *,
    data_dir: str | os.PathLike[str] | None = None,
) -> Sentences:
    """Load sentences or pairs."""
    base = get(source).derived_from if kind_of(source) == "entry" else None
    if base is not None and columns is None:
        parts = [load_scored_pairs(base, split=split, data_dir=data_dir) for split in get(base).splits]
        return Sentences(
            [text for part in parts for text in part.first], [text for part in parts for text in part.second]
        )
    rows = load_columns(source, columns, data_dir=data_dir)
    names = rows.column_names
    if len(names) > 2:
        raise InputError(
            f"{source} has the text columns {', '.join(names)}", "select one or two of them with --columns"
        )
    return Sentences(list(rows[names[0]]), list(rows[names[1]]) if len(names) == 2 else None)
