"""Labelled pairs of texts: cleaning, the graph of paraphrases, splits without leaks.

Texts that differ in letter case or white space only are the same.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sentemb._uris import without_secrets
from sentemb.data.columns import LABEL, load_columns
from sentemb.data.labelled import LabelledTexts, load_labelled
from sentemb.data.sampling import Rows
from sentemb.data.sources import kind_of
from sentemb.errors import InputError

PAIR_COLUMNS = ("sentence1", "sentence2")
"""Text columns of pairs by default."""
NAMES = ("not_duplicate", "duplicate")

Components = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PairCounts:
    """How many pairs cleaning kept, and why it dropped the others.

    `contradictory` pairs have both labels and `repeated` ones came before, in either order of their texts.
    `implied` pairs are kept: they are labelled 0 although chains of paraphrases join them.
    """

    rows: int
    kept: int
    blank: int
    identical: int
    contradictory: int
    repeated: int
    implied: int

    def __str__(self) -> str:
        return (
            f"kept {self.kept:,} of {self.rows:,} pairs; skipped {self.blank:,} with a blank text, "
            f"{self.identical:,} with the same text twice, {self.contradictory:,} with both labels and "
            f"{self.repeated:,} duplicates. {self.implied:,} of the kept pairs are labelled 0 although other "
            "pairs imply that they are paraphrases"
        )


class PairSplit(NamedTuple):
    """Rows to train on, for selection and to report, in ascending order; no two parts share a text."""

    train: Rows
    dev: Rows
    test: Rows


def load_pairs(
    source: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    label: str = LABEL,
    split: str = "train",
    data_dir: str | os.PathLike[str] | None = None,
) -> LabelledTexts:
    """Load labelled pairs without changing them.

    Args:
        source: A set of the catalogue, such as `cs224n-quora`, `quora` or `qqp`; or what `read_rows` takes.
        columns: The two text columns of such a source; `sentence1` and `sentence2` by default.
        label: Its column of 1 (paraphrase) and 0.
        split: Split of a catalogue's set.
        data_dir: The data folder; `SENTEMB_DATA` by default.

    Returns:
        The pairs; the second class is that of the paraphrases.

    Example:
        >>> data = load_pairs("labelled-pairs.csv")
        >>> len(data.texts)
        371
    """
    if kind_of(source) == "entry":
        data = load_labelled(str(source), split=split, data_dir=data_dir)
        _require_two_classes(data)
        return data
    columns = columns or PAIR_COLUMNS
    if isinstance(columns, str) or len(columns) != 2:
        raise InputError(
            f"text columns {columns!r} are not two columns", "name the two text columns of the pairs"
        )
    rows = load_columns(source, columns, label=label)
    name = without_secrets(str(source))
    labels = np.array(rows[LABEL])
    wrong = np.flatnonzero((labels != 0) & (labels != 1))
    if len(wrong):
        raise InputError(
            f"{name}: row {wrong[0] + 1} has the {label} {labels[wrong[0]]:g}",
            "label paraphrases 1 and all other pairs 0",
        )
    texts, pairs = (list(rows[column]) for column in columns)
    return LabelledTexts(name, split, texts, pairs, labels.astype(np.int64), NAMES, source=name)


def clean_pairs(data: LabelledTexts) -> tuple[LabelledTexts, PairCounts]:
    """Drop the pairs that a contrastive loss cannot learn from; return the others and the counts.

    A pair with both labels is dropped; of a pair that occurs twice with one label, the first row is kept.

    Raises:
        InputError: These are not pairs of two classes, or none is left.

    Example:
        >>> data, counts = clean_pairs(load_pairs("labelled-pairs.csv"))
        >>> counts.kept
        371
    """
    _require_two_classes(data)
    keys = [tuple(sorted(key)) for key in data.text_keys()]
    labels: defaultdict[tuple[str, ...], set[int]] = defaultdict(set)
    for key, label in zip(keys, data.labels.tolist(), strict=True):
        labels[key].add(label)
    counts = Counter(blank=0, identical=0, contradictory=0, repeated=0)
    kept: dict[tuple[str, ...], int] = {}
    for row, key in enumerate(keys):
        if not all(key):
            counts["blank"] += 1
        elif key[0] == key[1]:
            counts["identical"] += 1
        elif len(labels[key]) > 1:
            counts["contradictory"] += 1
        elif key in kept:
            counts["repeated"] += 1
        else:
            kept[key] = row
    if not kept:
        raise InputError(
            f"{data.name} {data.split}: all {len(data):,} pairs were skipped",
            "check the columns and the labels",
        )
    cleaned = data.select(list(kept.values()))
    components = paraphrase_components(cleaned)
    implied = int(((cleaned.labels == 0) & (components[:, 0] == components[:, 1])).sum())
    return cleaned, PairCounts(rows=len(data), kept=len(kept), implied=implied, **counts)


def paraphrase_components(data: LabelledTexts) -> Components:
    """Return the components of the graph whose edges are the paraphrases, (n, 2) for both texts of each row.

    Raises:
        InputError: These are not pairs of two classes.

    Example:
        >>> components = paraphrase_components(load_pairs("labelled-pairs.csv"))
    """
    _require_two_classes(data)
    return _components(data, edges=data.labels == 1)


def split_pairs(data: LabelledTexts, *, seed: int, dev: float = 0.1, test: float = 0.1) -> PairSplit:
    """Split pairs by shares so that no text is in two parts, nor a paraphrase of it.

    Rows that share a text, directly or through others, stay together, whatever their labels. Such groups are
    drawn at random into the test part until it is full, then into the dev part; a group that would make a
    part too large is skipped.

    Raises:
        InputError: The shares leave a part empty, or these are not pairs of two classes.

    Example:
        >>> split = split_pairs(load_pairs("labelled-pairs.csv"), seed=1)
        >>> len(split.train) > len(split.test)
        True
    """
    if not (dev > 0 and test > 0 and dev + test < 1):
        raise InputError(
            f"dev={dev:g} and test={test:g} leave a split empty",
            "choose shares above 0 that sum to less than 1",
        )
    _require_two_classes(data)
    groups = _components(data, edges=np.ones(len(data), dtype=bool))[:, 0]  # (n,)
    sizes = np.bincount(groups)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(sizes))
    part_of = np.zeros(len(sizes), dtype=np.int64)
    for part, share in ((2, test), (1, dev)):
        room = round(share * len(data))
        for group in order.tolist():
            if part_of[group] == 0 and sizes[group] <= room:
                part_of[group] = part
                room -= sizes[group]
    parts = PairSplit(*(np.flatnonzero(part_of[groups] == part) for part in range(3)))
    for name, rows in parts._asdict().items():
        if not len(rows):
            raise InputError(
                f"dev={dev:g} and test={test:g} of {len(data):,} pairs leave the {name} split empty",
                "choose larger shares, or use more pairs",
            )
    return parts


def _components(data: LabelledTexts, *, edges: npt.NDArray[np.bool_]) -> Components:
    numbers: dict[str, int] = {}
    texts = np.array(
        [[numbers.setdefault(text, len(numbers)) for text in key] for key in data.text_keys()]
    )  # (n, 2)
    first, second = texts[edges].T
    graph = coo_array((np.ones(len(first), dtype=np.int32), (first, second)), shape=(len(numbers),) * 2)
    _, component = connected_components(graph, directed=False)
    found: Components = component.astype(np.int64)[texts]
    return found


def _require_two_classes(data: LabelledTexts) -> None:
    if data.pairs is None or len(data.label_names) != 2:
        raise InputError(f"{data.name} does not have pairs of both classes", "use pairs labelled 1 and 0")
