"""Positive pairs, such as questions and passages, also with hard negatives: columns and batches."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sentemb._uris import without_secrets
from sentemb.data.catalogue import get
from sentemb.data.columns import load_columns
from sentemb.data.files import list_columns, refuse_bare_string
from sentemb.data.labelled import text_key
from sentemb.data.lines import AnyPath
from sentemb.data.locate import DataDir
from sentemb.data.sources import kind_of, read_rows
from sentemb.errors import InputError

if TYPE_CHECKING:
    from datasets import Dataset

ANCHORS = ("anchor", "query", "question", "sentence1", "sent0")
POSITIVES = ("positive", "passage", "answer", "context", "document", "sentence2", "sent1")
"""Usual names of the columns of questions, and of passages, in any letter case."""
_NEGATIVE = re.compile(r"(hard_)?neg(ative)?(_?\d+)?")  # negative, negative_1, hard_neg, ...
_LABELS = ("label", "labels", "score", "scores", "similarity")
_NAME_THEM = "name the columns with --columns QUESTION,PASSAGE[,NEGATIVE]"


class PositivePairs(NamedTuple):
    """Unique pairs with any hard negatives, what the source calls their columns, and dropped duplicates.

    The columns of `rows` are `anchor`, `positive`, and `negative`, `negative_2`, ... for hard negatives.
    """

    rows: Dataset
    names: tuple[str, ...]
    repeated: int


def load_positive_pairs(
    source: AnyPath, columns: Sequence[str] | None = None, *, data_dir: DataDir = None
) -> PositivePairs:
    """Load pairs of a question and a passage, and any hard negatives, from what `read_rows` takes.

    By default their columns are found by usual names. Errors name the columns of the source.
    """
    names = pair_columns(source, columns, data_dir=data_dir)
    negatives = ("negative", *(f"negative_{place}" for place in range(2, len(names) - 1)))
    roles = ("anchor", "positive", *negatives)[: len(names)]
    rows = load_columns(source, names, data_dir=data_dir)
    rows = rows.rename_columns(dict(zip(names, roles, strict=True)))
    unique: dict[tuple[str, ...], int] = {}
    for place, texts in enumerate(zip(*(rows[role] for role in roles), strict=True)):
        unique.setdefault(tuple(map(text_key, texts)), place)
    repeated = len(rows) - len(unique)
    return PositivePairs(rows.select(list(unique.values())) if repeated else rows, names, repeated)


def pair_columns(
    source: AnyPath, columns: Sequence[str] | None = None, *, data_dir: DataDir = None
) -> tuple[str, ...]:
    """Find the columns of the question, the passage and any hard negatives, or check those that are named."""
    refuse_bare_string(columns)
    if columns is not None:
        if len(columns) < 2:
            named = f"--columns {','.join(columns)} names {len(columns)} column"
            raise InputError(f"{named}, but pairs need two", _NAME_THEM)
        return tuple(columns)
    name = without_secrets(str(source))
    if kind_of(source) == "entry":
        return find_pair_columns(get(str(source)).text_columns, name)
    first = next(read_rows(source, data_dir=data_dir), None)
    if first is None:
        raise InputError(f"{name} does not contain rows")
    return find_pair_columns(list(first.values), name)


def negative_column(names: Sequence[str]) -> str:
    """Return what the column of hard negatives is called next to columns of pairs."""
    usual = "hard_neg" if "sent0" in names else "negative"
    return f"hard_{usual}" if usual in names else usual


def find_pair_columns(present: Sequence[str], where: str) -> tuple[str, ...]:
    """Find the columns of the question, the passage and hard negatives by usual names, in any letter case."""
    by_name = {column.strip().lower(): column for column in present}
    pair = []
    for usual, role in ((ANCHORS, "question"), (POSITIVES, "passage")):
        found = [by_name[name] for name in usual if name in by_name]
        if len(found) > 1:
            raise InputError(f"{where}: the {role} could be {' or '.join(map(repr, found))}", _NAME_THEM)
        if not found:
            wanted = f"a column for the {role}, such as {' or '.join(map(repr, usual[:3]))}"
            columns = list_columns(by_name.values())
            raise InputError(f"{where} does not have {wanted}; its columns are {columns}", _NAME_THEM)
        pair += found
    label = next((by_name[name] for name in _LABELS if name in by_name), None)
    if label is not None:
        message = f"{where} has a column {label!r}, so some of its rows may not be positive pairs"
        raise InputError(message, f"keep only the positive pairs, and {_NAME_THEM}")
    return (*pair, *(column for name, column in by_name.items() if _NEGATIVE.fullmatch(name)))


def draw_pairs(
    source: AnyPath,
    columns: Sequence[str] | None = None,
    *,
    count: int,
    seed: int = 0,
    data_dir: DataDir = None,
) -> tuple[list[str], list[str]]:
    """Draw unique pairs of sentences from a larger source, as training text of another domain."""
    rows = load_columns(source, columns, data_dir=data_dir)
    names = rows.column_names[:2]
    if len(names) < 2:
        raise InputError(f"{source} has only one text column, {names[0]}", "use data with two text columns")
    unique = list(dict.fromkeys(zip(*(rows[name] for name in names), strict=True)))
    if not 0 < count <= len(unique):
        known = f"the {len(unique):,} unique pairs of {source}"
        raise InputError(f"cannot draw {count:,} pairs from {known}", "draw fewer")
    drawn = np.sort(np.random.default_rng(seed).choice(len(unique), size=count, replace=False))
    return [unique[row][0] for row in drawn], [unique[row][1] for row in drawn]


class PairBatches:
    """Batches of pairs without known positives among the negatives: a sampler for `torch`'s data loader.

    Two rows are kept apart if one has a text that the other has too, or that is another positive of the
    other's anchor. Hard negatives may repeat each other. Texts that differ in letter case and white space
    only are equal. The order depends on the seed and the epoch. A row goes into the first batch that has room
    and takes it; one that no batch takes, as when its positive is in too many rows, waits for another epoch.

    Example:
        >>> batches = PairBatches(["a", "b", "a", "c"], ["p", "q", "r", "q"], [(), (), (), ()], 2)
        >>> [sorted(batch) for batch in batches]  # "a" is the anchor of two rows, "q" the positive of two
        [[1, 2], [0, 3]]
    """

    drop_last = False
    """Batches are never dropped. Wrappers of data loaders read this."""

    def __init__(
        self,
        anchors: Sequence[str],
        positives: Sequence[str],
        negatives: Sequence[Sequence[str]],
        batch_size: int,
        *,
        seed: int = 0,
    ) -> None:
        numbers: defaultdict[str, int] = defaultdict(lambda: len(numbers))
        pairs = [
            (numbers[text_key(a)], numbers[text_key(p)]) for a, p in zip(anchors, positives, strict=True)
        ]
        positives_of: defaultdict[int, set[int]] = defaultdict(set)
        for anchor, positive in pairs:
            positives_of[anchor].add(positive)
        self._positives = [positive for _, positive in pairs]
        self._own = [{*pair, *positives_of[pair[0]]} for pair in pairs]
        self._negatives = [{numbers[text_key(text)] for text in row} for row in negatives]
        self.batch_size, self.seed, self.epoch = batch_size, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch, from 0, as trainers do at its start."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self._own) // max(1, min(self.batch_size, len(set(self._positives)))))

    def __iter__(self) -> Iterator[list[int]]:
        rows_of: list[list[int]] = [[] for _ in range(len(self))]
        # Of each batch the anchors with all of their positives, and the hard negatives.
        texts: list[tuple[set[int], set[int]]] = [(set(), set()) for _ in rows_of]
        first_open = 0
        untried: dict[int, int] = {}  # by positive: all batches before this one are full or have it
        for row in np.random.default_rng((self.seed, self.epoch)).permutation(len(self._own)).tolist():
            own, negatives, positive = self._own[row], self._negatives[row], self._positives[row]
            for place in range(max(first_open, untried.get(positive, 0)), len(rows_of)):
                others, hard = texts[place]
                is_apart = own.isdisjoint(others) and own.isdisjoint(hard) and negatives.isdisjoint(others)
                if len(rows_of[place]) < self.batch_size and is_apart:
                    rows_of[place].append(row)
                    others.update(own)
                    hard.update(negatives)
                    untried[positive] = place + 1
                    break
            while first_open < len(rows_of) and len(rows_of[first_open]) == self.batch_size:
                first_open += 1
        # The last ones are the smallest, and should not always be.
        for place in np.random.default_rng((self.seed, self.epoch, 1)).permutation(len(rows_of)).tolist():
            yield rows_of[place]


def pair_batches(
    dataset: Dataset,
    batch_size: int,
    drop_last: bool,
    valid_label_columns: list[str] | None = None,
    generator: Any = None,
    seed: int = 0,
) -> PairBatches:
    """Make the sampler of anchors, positives and hard negatives as sentence-transformers' trainer does."""
    anchors, positives, *rest = (list(dataset[name]) for name in dataset.column_names)
    negatives = list(zip(*rest, strict=True)) if rest else [()] * len(anchors)
    return PairBatches(anchors, positives, negatives, batch_size, seed=seed)
