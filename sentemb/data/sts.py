"""Pairs of sentences with a gold similarity: the STS sets, and users' own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sentemb.data.catalogue import Entry, check_row_count, get_split
from sentemb.data.files import AnyPath, Row, name_and_split, names_a_file, read_file, source_at, usual_columns
from sentemb.data.labelled import PAIR_COLUMNS
from sentemb.data.locate import DataDir, MissingDataError, Split, open_split, resolve_data_dir
from sentemb.errors import InputError

STS_SETS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
"""The seven sets that the papers report, in their order."""
SCORE_COLUMNS = ("score", "similarity_score", "relatedness_score", "similarity", "gold", "label")
"""Usual names of the column of scores, in the order in which they are tried."""


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
        undivided: Whether it is a copy, such as MTEB's, that does not say which pair belongs to which part:
            the protocols `mean` and `wmean` are not defined on it.
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
        gold, size = np.asarray(self.gold, dtype=np.float64), len(self.first)
        object.__setattr__(self, "gold", gold)
        object.__setattr__(self, "subsets", self.subsets or (Subset(self.name, 0, size),))
        if len(self.second) != size or gold.shape != (size,):
            found = f"{size} first sentences, {len(self.second)} second sentences"
            raise InputError(f"{self.name}: got {found} and gold scores of shape {gold.shape}")
        if size == 0:
            raise InputError(f"{self.name} {self.split} does not contain scored pairs")
        if not np.isfinite(gold).all():
            index = int(np.argmin(np.isfinite(gold)))
            raise InputError(f"{self.name} {self.split}: the score of pair {index} is {gold[index]}")
        edges = [edge for subset in self.subsets for edge in (subset.start, subset.stop)]
        if edges[0] != 0 or edges[-1] != size or edges[1:-1:2] != edges[2::2]:
            raise InputError(f"{self.name} {self.split}: the parts do not cover its {size} pairs in order")

    def __len__(self) -> int:
        return len(self.first)


def load_scored_pairs(
    name: AnyPath, *, split: str | None = None, data_dir: DataDir = None, check_rows: bool = True
) -> ScoredPairs:
    """Load one of the STS sets, or a file of scored pairs; pairs without a gold score are skipped.

    Args:
        name: One of `STS_SETS`; `sickr-mteb`, MTEB's 9,927 pairs of all splits; a set of other languages,
            such as `sts17-es-es`, `stsb-de`; or a file as for `read_scored_pairs`.
        split: `train`, `dev` or `test`, as far as the set has it; `test` by default. What results call a
            file's rows; by default what its name mentions, as `my-dev.csv`, else `all`.
        data_dir: Folder with the set in SentEval's layout or as on the hub; `SENTEMB_DATA` by default.
        check_rows: Raise InputError if a row count differs from the catalogue's.

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
    pairs = pairs_of(entry, split, open_split(entry, split, data_dir))
    check_counts(entry, pairs, strict=check_rows)
    return pairs


def stsb_dev(data_dir: DataDir = None) -> ScoredPairs | None:
    """Load STS-B's dev pairs; return None if neither the data folder nor the hub has them."""
    absent = InputError if resolve_data_dir(data_dir) is None else MissingDataError
    try:
        return load_scored_pairs("stsb", split="dev", data_dir=data_dir)
    except absent:
        return None


def pairs_of(entry: Entry, split: str, opened: Split) -> ScoredPairs:
    """Read one of the STS sets, whatever its row count."""
    every: list[Row] = []
    subsets = []
    for name, rows in opened.parts:
        start = len(every)
        every.extend(rows)
        subsets.append(Subset(name, start, len(every)))
    pairs = _pairs_of(every, entry.columns, entry.name, split, opened.source)
    undivided = opened.published is None and bool(entry.parts)
    return replace(pairs, subsets=tuple(subsets), undivided=undivided)


def check_counts(entry: Entry, pairs: ScoredPairs, *, strict: bool = True) -> None:
    """Raise InputError, or warn, if the catalogue has another count of pairs, in total or in a part."""
    where = f"{entry.name} {pairs.split} ({pairs.source})"
    for one in pairs.subsets:
        expected = entry.parts.get(one.name)
        check_row_count(f"{where}, part {one.name}", one.stop - one.start, expected, strict=strict)
    check_row_count(where, len(pairs), entry.rows[pairs.split], strict=strict)


def read_scored_pairs(
    path: AnyPath,
    *,
    first: str | None = None,
    second: str | None = None,
    score: str | None = None,
    name: str | None = None,
    split: str | None = None,
) -> ScoredPairs:
    """Read a table of scored pairs, in one part.

    Args:
        path: A `.csv`, `.tsv`, `.jsonl` or `.parquet` file, also compressed.
        first: Column of the first sentences; `sentence1` or another of `PAIR_COLUMNS` by default.
        second: Column of the second sentences, likewise.
        score: Column of finite scores, higher for more similar; one of `SCORE_COLUMNS` by default.
        name: What results call the set; the file's name without extensions by default.
        split: What results call the split; by default what the file's name mentions, else `all`.

    Raises:
        InputError: The file, a column, a text or a score is missing, blank or broken; with the line.

    Example:
        >>> pairs = read_scored_pairs("pairs.csv", first="sentence1", second="sentence2", score="score")
        >>> len(pairs.gold)
        30
    """
    source = source_at(path)
    usual = (first, second) if first and second else usual_columns(source, PAIR_COLUMNS)
    first, second = first or usual[0], second or usual[1]
    score = score or usual_columns(source, [(column,) for column in SCORE_COLUMNS])[0]
    rows = list(read_file(source, columns=(first, second, score)))
    for row in rows:  # published sets have a few blank sentences, which count; in a user's file one is a slip
        row.filled(first), row.filled(second)
    name, split = name_and_split(source, name=name, split=split)
    return _pairs_of(rows, (first, second, score), name, split, str(source))


def _pairs_of(rows: Iterable[Row], columns: Sequence[str], name: str, split: str, source: str) -> ScoredPairs:
    one, other, score = columns
    cells = [(row.text(one), row.text(other), row.number(score)) for row in rows]
    first, second, gold = map(list, zip(*cells, strict=True)) if cells else ([], [], [])
    return ScoredPairs(name, split, first, second, np.array(gold, dtype=np.float64), source=source)
