"""Positive pairs, such as questions and passages, also with hard negatives, found by usual column names."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sentemb._uris import without_secrets
from sentemb.data.catalogue import get
from sentemb.data.columns import load_columns
from sentemb.data.files import list_columns, refuse_bare_string
from sentemb.data.labelled import text_key
from sentemb.data.lines import format_of
from sentemb.data.remote import source_at
from sentemb.data.sources import kind_of, read_rows
from sentemb.data.tables import reads_like_text
from sentemb.errors import InputError

if TYPE_CHECKING:
    from datasets import Dataset

ANCHORS = ("anchor", "query", "question", "sentence1", "sent0")
POSITIVES = ("positive", "passage", "answer", "context", "document", "sentence2", "sent1")
"""Usual names of the columns of questions, and of passages, in any letter case."""
_NEGATIVE = re.compile(r"(hard_)?neg(ative)?(_?\d+)?")  # negative, negative_1, hard_neg, ...
_LABELS = ("label", "labels", "score", "scores", "similarity")
_WITHOUT_HEADER = (".csv", ".tsv")
_NAME_THEM = "name the columns with --columns QUESTION,PASSAGE[,NEGATIVE]"


class PairColumns(NamedTuple):
    """Columns of the question, the passage and any hard negatives; without a header the names are a pair."""

    names: tuple[str, ...]
    is_header: bool


class PositivePairs(NamedTuple):
    """Unique pairs, what the source calls their columns (the roles without a header), and dropped duplicates.

    The columns of `rows` are `anchor`, `positive`, and `negative`, `negative_2`, ... for hard negatives.
    """

    rows: Dataset
    names: tuple[str, ...]
    repeated: int


def load_positive_pairs(
    source: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    data_dir: str | os.PathLike[str] | None = None,
) -> PositivePairs:
    """Load pairs of a question and a passage, and any hard negatives, from what `read_rows` takes.

    By default their columns are found by usual names. A `.csv` or `.tsv` file of two columns whose first line
    reads like text has no header.

    Raises:
        InputError: The source, a column or a row is missing or broken, a role has no column or several, or
            the rows have labels; with the columns of the source.
    """
    found = pair_columns(source, columns, data_dir=data_dir)
    roles = roles_of(len(found.names))
    rows = load_columns(source, found.names, data_dir=data_dir)
    rows = rows.rename_columns(dict(zip(found.names, roles, strict=True)))
    if not found.is_header:
        from datasets import Dataset, concatenate_datasets

        first = Dataset.from_dict({role: [text] for role, text in zip(roles, found.names, strict=True)})
        rows = concatenate_datasets([first, rows])
    unique: dict[tuple[str, ...], int] = {}
    for place, texts in enumerate(zip(*(rows[role] for role in roles), strict=True)):
        unique.setdefault(tuple(map(text_key, texts)), place)
    repeated = len(rows) - len(unique)
    if repeated:
        rows = rows.select(list(unique.values()))
    return PositivePairs(rows, found.names if found.is_header else roles, repeated)


def pair_columns(
    source: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    data_dir: str | os.PathLike[str] | None = None,
) -> PairColumns:
    """Find the columns of pairs in a source, or check those that are named; see `load_positive_pairs`."""
    refuse_bare_string(columns)
    if columns is not None:
        if len(columns) < 2:
            raise InputError(
                f"--columns {','.join(columns)} names {len(columns)} column, but pairs need two", _NAME_THEM
            )
        return PairColumns(tuple(columns), is_header=True)
    name = without_secrets(str(source))
    present = _present(source, name, data_dir)
    if _has_no_header(source, present):
        return PairColumns(tuple(present), is_header=False)
    return PairColumns(find_pair_columns(present, name), is_header=True)


def roles_of(columns: int) -> tuple[str, ...]:
    """Return the names of the columns of pairs, in their order."""
    return ("anchor", "positive", "negative", *(f"negative_{place}" for place in range(2, columns - 1)))[
        :columns
    ]


def negative_column(names: Sequence[str]) -> str:
    """Return what the column of hard negatives is called next to columns of pairs."""
    usual = "hard_neg" if "sent0" in names else "negative"
    return f"hard_{usual}" if usual in names else usual


def find_pair_columns(present: Sequence[str], where: str) -> tuple[str, ...]:
    """Find the columns of the question, the passage and hard negatives by usual names, in any letter case.

    Raises:
        InputError: A role has no column or several, or there is a column of labels.
    """
    by_name = {column.strip().lower(): column for column in present}
    anchor = _only(ANCHORS, "question", by_name, where)
    positive = _only(POSITIVES, "passage", by_name, where)
    label = next((by_name[name] for name in _LABELS if name in by_name), None)
    if label is not None:
        raise InputError(
            f"{where} has a column {label!r}, so some of its rows may not be positive pairs",
            f"keep only the positive pairs, and {_NAME_THEM}",
        )
    return (anchor, positive, *(column for name, column in by_name.items() if _NEGATIVE.fullmatch(name)))


def _only(usual: Sequence[str], role: str, by_name: dict[str, str], where: str) -> str:
    found = [by_name[name] for name in usual if name in by_name]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"{where}: the {role} could be {' or '.join(map(repr, found))}", _NAME_THEM)
    raise InputError(
        f"{where} does not have a column for the {role}, such as {' or '.join(map(repr, usual[:3]))}; "
        f"its columns are {list_columns(by_name.values())}",
        _NAME_THEM,
    )


def _present(source: str | os.PathLike[str], name: str, data_dir: str | os.PathLike[str] | None) -> list[str]:
    """Return the columns that a source has, by its first row."""
    if kind_of(source) == "entry":
        return list(get(str(source)).text_columns)
    first = next(read_rows(source, data_dir=data_dir), None)
    if first is None:
        raise InputError(f"{name} does not contain rows")
    return list(first.values)


def _has_no_header(source: str | os.PathLike[str], present: Sequence[str]) -> bool:
    """Tell whether a table begins with a pair: two columns, and the name of one reads like text."""
    named = any(column.strip().lower() in (*ANCHORS, *POSITIVES) for column in present)
    table = kind_of(source) == "file" and format_of(source_at(source)) in _WITHOUT_HEADER
    return table and len(present) == 2 and not named and any(map(reads_like_text, present))


def draw_pairs(
    source: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    count: int,
    seed: int = 0,
    data_dir: str | os.PathLike[str] | None = None,
) -> tuple[list[str], list[str]]:
    """Draw unique pairs of sentences from a larger source, as training text of another domain."""
    rows = load_columns(source, columns, data_dir=data_dir)
    names = rows.column_names[:2]
    if len(names) < 2:
        raise InputError(f"{source} has only one text column, {names[0]}", "use data with two text columns")
    unique = list(dict.fromkeys(zip(*(rows[name] for name in names), strict=True)))
    if not 0 < count <= len(unique):
        raise InputError(
            f"cannot draw {count:,} pairs from the {len(unique):,} unique pairs of {source}", "draw fewer"
        )
    drawn = np.sort(np.random.default_rng(seed).choice(len(unique), size=count, replace=False))
    return [unique[row][0] for row in drawn], [unique[row][1] for row in drawn]
