"""Pairs of sentences with a gold similarity: the STS sets, and users' own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sentemb.data.catalogue import Entry, check_row_count, get_split
from sentemb.data.files import Row, name_and_split, names_a_file, read_file, usual_columns
from sentemb.data.labelled import PAIR_COLUMNS
from sentemb.data.locate import MissingDataError, Place, locate, resolve_data_dir
from sentemb.data.published import published_at, read_parts, read_subset
from sentemb.data.remote import source_at
from sentemb.errors import InputError

STS_SETS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
"""The seven sets that the papers report, in their order."""
SCORE_COLUMNS = tuple(
    (name,) for name in ("score", "similarity_score", "relatedness_score", "similarity", "gold", "label")
)


@dataclass(frozen=True)
class Subset:
    """A part of a set, such as `headlines`: the indices of its first pair and after its last.

    Example:
        >>> Subset("headlines", 0, 750).stop
        750
    """

    name: str
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Sentence pairs with their gold scores.

    Attributes:
        name: The set.
        split: `train`, `dev` or `test`; any name for a user's own pairs.
        first: First sentences; empty ones count.
        second: Second sentences, as many.
        gold: Gold scores, float64 (n,), finite.
        subsets: Parts that cover all pairs in order; a single one if the set has no parts.
        undivided: True for a copy of a set with parts that does not say which pair belongs to which part,
            such as MTEB's: the protocols `mean` and `wmean` are not defined on it.
        source: Where the pairs were read, for records.

    Example:
        >>> ScoredPairs("own", "test", ["a cat sat"], ["a cat was sitting"], np.array([4.5])).gold
        array([4.5])
    """

    name: str
    split: str
    first: list[str]
    second: list[str]
    gold: npt.NDArray[np.float64]
    subsets: tuple[Subset, ...] = ()
    undivided: bool = False
    source: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "gold", np.asarray(self.gold, dtype=np.float64))
        if not self.subsets:
            object.__setattr__(self, "subsets", (Subset(self.name, 0, len(self.first)),))
        size = len(self.first)
        if len(self.second) != size or self.gold.shape != (size,):
            raise InputError(
                f"{self.name}: got {size} first sentences, {len(self.second)} second sentences and "
                f"gold scores of shape {self.gold.shape}"
            )
        if size == 0:
            raise InputError(f"{self.name} {self.split} does not contain scored pairs")
        if not np.isfinite(self.gold).all():
            index = int(np.flatnonzero(~np.isfinite(self.gold))[0])
            raise InputError(f"{self.name} {self.split}: the score of pair {index} is {self.gold[index]}")
        edges = [edge for subset in self.subsets for edge in (subset.start, subset.stop)]
        if edges[0] != 0 or edges[-1] != size or edges[1:-1:2] != edges[2::2]:
            raise InputError(f"{self.name} {self.split}: the parts do not cover its {size} pairs in order")

    def __len__(self) -> int:
        return len(self.first)


def load_scored_pairs(
    name: str | os.PathLike[str],
    *,
    split: str | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    check_rows: bool = True,
) -> ScoredPairs:
    """Load one of the STS sets, or a file of scored pairs.

    Args:
        name: One of `STS_SETS`; `sickr-mteb`, MTEB's 9,927 pairs of all splits; a set of other languages,
            such as `sts17-es-es`, `stsb-de`; or a file as for `read_scored_pairs`, whose columns have usual
            names.
        split: `train`, `dev` or `test`, as far as the set has it; `test` by default. What results call a
            file's rows; by default what its name mentions, as `my-dev.csv`, else `all`.
        data_dir: Folder that holds the set in SentEval's layout or as fetched from the hub; `SENTEMB_DATA`
            by default, or else the hub.
        check_rows: Raise InputError if a row count differs from the catalogue's.

    Returns:
        The pairs that have a gold score.

    Raises:
        InputError: The set, the split or a file does not exist, is broken, or has another row count.

    Example:
        >>> pairs = load_scored_pairs("pairs.csv")
        >>> pairs.first[0]
        'Let the dough rest for an hour before you roll it out.'
    """
    if names_a_file(name):
        return read_scored_pairs(name, split=split)
    split = split or "test"
    entry = get_split(str(name), "scored-pairs", split)
    if entry.config is not None and resolve_data_dir(data_dir) is None:
        source = f"{entry.hub_id}@{entry.revision} {entry.config}"
        pairs = _pairs_of(read_subset(entry, split), entry.columns, entry.name, split, source)
    else:
        pairs = read_place(entry, split, locate(entry, split, data_dir))
    check_counts(entry, pairs, strict=check_rows)
    return pairs


def stsb_dev(data_dir: str | os.PathLike[str] | None = None) -> ScoredPairs | None:
    """Load STS-B's dev pairs; return None if neither the data folder nor the hub has them.

    Raises:
        InputError: The data folder does not exist, or its copy is broken.
    """
    absent = InputError if resolve_data_dir(data_dir) is None else MissingDataError
    try:
        return load_scored_pairs("stsb", split="dev", data_dir=data_dir)
    except absent:
        return None


def read_place(entry: Entry, split: str, place: Place) -> ScoredPairs:
    """Read one of the STS sets from where it was found, whatever its row count."""
    parts = [(name, list(rows)) for name, rows in read_parts(entry, split, place)]
    subsets, start = [], 0
    for name, rows in parts:
        subsets.append(Subset(name, start, start + len(rows)))
        start += len(rows)
    is_hub = published_at(entry, split, place) is None
    source = str((is_hub and place.first_of([entry.files[split]])) or place)
    every = (row for _, rows in parts for row in rows)
    pairs = _pairs_of(every, entry.columns, entry.name, split, source)
    return replace(pairs, subsets=tuple(subsets), undivided=is_hub and bool(entry.parts))


def check_counts(entry: Entry, pairs: ScoredPairs, *, strict: bool = True) -> None:
    """Raise InputError, or warn, if the catalogue has another count of pairs, in total or in a part."""
    where = f"{entry.name} {pairs.split} ({pairs.source})"
    for subset in pairs.subsets:
        expected = entry.parts.get(subset.name)
        check_row_count(f"{where}, part {subset.name}", subset.stop - subset.start, expected, strict=strict)
    check_row_count(where, len(pairs), entry.rows[pairs.split], strict=strict)


def read_scored_pairs(
    path: str | os.PathLike[str],
    *,
    first: str | None = None,
    second: str | None = None,
    score: str | None = None,
    name: str | None = None,
    split: str | None = None,
) -> ScoredPairs:
    """Read a table of scored pairs.

    Args:
        path: A `.csv`, `.tsv`, `.jsonl` or `.parquet` file, also compressed.
        first: Column of the first sentences; `sentence1` or another of `PAIR_COLUMNS` by default.
        second: Column of the second sentences, likewise.
        score: Column of the scores: finite numbers on any scale, higher for more similar; `score` or another
            of `SCORE_COLUMNS` by default.
        name: What results call the set; the file's name without extensions by default.
        split: What results call the split; by default what the file's name mentions, else `all`.

    Returns:
        The pairs, in one part.

    Raises:
        InputError: The file, a column, a text or a score is missing, blank or broken; with the line.

    Example:
        >>> pairs = read_scored_pairs("pairs.csv", first="sentence1", second="sentence2", score="score")
        >>> len(pairs.gold)
        30
    """
    source = source_at(path)
    if first is None or second is None:
        usual = usual_columns(source, PAIR_COLUMNS)
        first, second = first or usual[0], second or usual[1]
    columns = (first, second, score or usual_columns(source, SCORE_COLUMNS)[0])
    rows = list(read_file(source, columns=columns))
    for row in rows:  # published sets have a few blank sentences, which count; in a user's file one is a slip
        row.filled(first), row.filled(second)
    name, split = name_and_split(source, name=name, split=split)
    return _pairs_of(rows, columns, name, split, str(source))


def _pairs_of(rows: Iterable[Row], columns: Sequence[str], name: str, split: str, source: str) -> ScoredPairs:
    first, second, score = columns
    pairs = [(row.text(first), row.text(second), row.number(score)) for row in rows]
    gold = np.array([pair[2] for pair in pairs], dtype=np.float64)
    return ScoredPairs(
        name, split, [pair[0] for pair in pairs], [pair[1] for pair in pairs], gold, source=source
    )
