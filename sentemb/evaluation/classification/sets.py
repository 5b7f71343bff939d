"""The data of a cell: sets that are read once, and what each protocol makes of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from sentemb.data.augmented import Copy, add_copies
from sentemb.data.catalogue import get
from sentemb.data.labelled import LabelledTexts, load_labelled
from sentemb.data.sampling import (
    LACON_WHOLE,
    Rows,
    cap_per_class,
    few_shot_per_class,
    imbalanced,
    stratified_sample,
)
from sentemb.data.splits import lacon_train_split, scl_dev_split, sg_bert_dev_split
from sentemb.errors import InputError
from sentemb.evaluation.classification.cell import Cell, Splits

Rule = Literal["scl", "lacon", "sg-bert", "published"]
"""Where validation and test rows come from, see `ProtocolData`."""
NOISE_ROWS = 100
"""Labelled rows below the noisy copies (SCL, section 5.3)."""
# Which rows are drawn must not depend on what else was: each use of a seed is another stream.
_SUBSET, _HELD_OUT = 0, 1


class ProtocolData:
    """Makes the data of cells; the rows of a cell are the same at each call and for every method.

    A test split with published labels is tested on. For validation rows, and where there is none, the rules:

    - `scl`: half of the dev split is tested on, about 500 rows of the rest are validation (SCL, section 4.1).
    - `sg-bert`: the first tenth of dev is validation, the rest is tested on (SG-BERT, table 10).
    - `lacon`: dev is tested on; validation is part of the training rows (LaCon, section 3.1). Training rows
      are at most 5,000 of a class, 1,000 with more than two, drawn anew for each seed.
    - `published`: validation is dev or, where there is none, part of train; so it is with the first two where
      test labels are published.

    Without a rule it is `published` where test labels are, else `scl`.

    Points of protocols, by name:

    - `full`: all training rows. `train`: so many in all, the same ones for every seed.
    - `shots`: so many in all, drawn anew for each seed (SCL, table 4).
    - `per-class`: so many of each class, and others for validation where the rule has none (LaCon, section
      4.1).
    - `rho`: 32 rows of the rarest class, rho times as many of the others; drawn in the same way from the
      rest, validation rows (LaCon, section 4.2, which does not name them).
    - `noise`: 100 rows with three noisy copies each at that temperature, 0 for the rows alone (SCL, table 5).
    - `classes`: the first so many classes, 1,000 rows each (LaCon, section 4.5).

    Args:
        data_dir: Folder with data sets; `SENTEMB_DATA` or the hub by default.
        rule: Where validation and test rows come from.
        own: The user's own sets, by name and split.
        copies: Noisy copies by set, for `noise`.
        check_rows: Refuse copies of sets with missing or extra rows.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        rule: Rule | None = None,
        own: Mapping[str, Mapping[str, LabelledTexts]] | None = None,
        copies: Mapping[str, Sequence[Copy]] | None = None,
        check_rows: bool = True,
    ) -> None:
        self._data_dir = data_dir
        self._rule = rule
        self._own = own or {}
        self._copies = copies or {}
        self._check_rows = check_rows
        self._read: dict[tuple[str, str], LabelledTexts] = {}

    def __call__(self, cell: Cell) -> Splits:
        """The data of one cell.

        Args:
            cell: The cell.

        Returns:
            Training, validation and test rows.

        Raises:
            InputError: A set or split is not there, or has too few rows for the point.
        """
        if cell.point.protocol not in _PROTOCOLS:
            raise InputError(f"no protocol is called {cell.point.protocol!r}")
        return _PROTOCOLS[cell.point.protocol](self, cell)

    def rule_of(self, name: str) -> Rule:
        """The rule for a set.

        Args:
            name: The set.

        Returns:
            The given one, or what the set's splits allow.
        """
        return self._rule or ("published" if "test" in self._splits(name) else "scl")

    def load(self, name: str, split: str) -> LabelledTexts:
        """Read a split once.

        Args:
            name: The set.
            split: The split.

        Returns:
            Its rows.

        Raises:
            InputError: The set has no such split with labels, or it is not there.
        """
        if name in self._own:
            if split not in self._own[name]:
                raise InputError(f"{name} has no {split} split", f"it has {', '.join(self._own[name])}")
            return self._own[name][split]
        if (name, split) not in self._read:
            self._read[name, split] = load_labelled(
                name, split=split, data_dir=self._data_dir, check_rows=self._check_rows
            )
        return self._read[name, split]

    def copies_of(self, name: str) -> Sequence[Copy]:
        """The noisy copies of a set.

        Args:
            name: The set.

        Returns:
            The copies.

        Raises:
            InputError: None were given.
        """
        if name not in self._copies:
            raise InputError(
                f"no noisy copies of {name}", f"give a file of back-translations: --copies {name}=FILE"
            )
        return self._copies[name]

    def held_out(self, name: str) -> tuple[LabelledTexts | None, LabelledTexts]:
        """Validation and test rows, as far as they come from other splits than train.

        Args:
            name: The set.

        Returns:
            Validation rows, None where the rule takes them from the training rows; and test rows.

        Raises:
            InputError: A split is not there.
        """
        rule, splits = self.rule_of(name), self._splits(name)
        if rule == "lacon":
            return None, self.load(name, "test" if "test" in splits else "dev")
        if rule == "published" or "test" in splits:
            return self.load(name, "dev") if "dev" in splits else None, self.load(name, "test")
        dev = self.load(name, "dev")
        parts = scl_dev_split(dev.labels) if rule == "scl" else sg_bert_dev_split(len(dev))
        return dev.select(parts.validation, split="dev: validation"), dev.select(
            parts.test, split="dev: test"
        )

    def complete(self, name: str, train: LabelledTexts, seed: int) -> Splits:
        """Training rows with the validation and test rows of the rule.

        Args:
            name: The set.
            train: The rows that are left to train on.
            seed: Draws the validation rows where they come from these.

        Returns:
            The data of a cell.

        Raises:
            InputError: A split is not there, or too small.
        """
        validation, test = self.held_out(name)
        if validation is not None:
            return Splits(train, validation, test)
        parts = lacon_train_split(train.labels, seed=seed)
        return Splits(train.select(parts.train), train.select(parts.validation, split="validation"), test)

    def _splits(self, name: str) -> Sequence[str]:
        if name in self._own:
            return list(self._own[name])
        entry = get(name)
        return [split for split in entry.splits if split not in entry.unlabelled]


def _full(data: ProtocolData, cell: Cell) -> Splits:
    train = data.load(cell.data, "train")
    if data.rule_of(cell.data) == "lacon" and cell.data not in LACON_WHOLE:
        train = train.select(cap_per_class(train.labels, seed=cell.seed))
    return data.complete(cell.data, train, cell.seed)


def _train(data: ProtocolData, cell: Cell) -> Splits:
    train = data.load(cell.data, "train")
    rows = stratified_sample(train.labels, min(_count(cell), len(train)), seed=_SUBSET)
    return data.complete(cell.data, train.select(rows), cell.seed)


def _shots(data: ProtocolData, cell: Cell) -> Splits:
    train = data.load(cell.data, "train")
    return data.complete(cell.data, train.select(_sampled(train, _count(cell), cell.seed)), cell.seed)


def _per_class(data: ProtocolData, cell: Cell) -> Splits:
    train = data.load(cell.data, "train")
    parts = few_shot_per_class(train.labels, seed=cell.seed, shots=_count(cell))
    drawn = train.select(parts.train)
    validation, test = data.held_out(cell.data)
    if validation is None:
        validation = train.select(parts.validation, split="validation")
    return Splits(drawn, validation, test)


def _rho(data: ProtocolData, cell: Cell) -> Splits:
    train = data.load(cell.data, "train")
    ratio = _count(cell)
    counts = np.bincount(train.labels.astype(np.int64), minlength=len(train.label_names))
    rarest = int(np.argmin(np.where(counts > 0, counts, len(train))))
    rows = imbalanced(train.labels, ratio=ratio, seed=cell.seed, minority=rarest)
    rest = np.setdiff1d(np.arange(len(train)), rows)
    held_out = imbalanced(train.labels[rest], ratio=ratio, seed=(cell.seed, _HELD_OUT), minority=rarest)
    _, test = data.held_out(cell.data)
    return Splits(train.select(rows), train.select(rest[held_out], split="validation"), test)


def _noise(data: ProtocolData, cell: Cell) -> Splits:
    train = data.load(cell.data, "train")
    rows = _sampled(train, NOISE_ROWS, cell.seed)
    noisy = train.select(rows)
    if cell.point.value:
        copies = data.copies_of(cell.data)
        noisy = add_copies(train, rows, copies, seed=cell.seed, temperature=cell.point.value)
    return data.complete(cell.data, noisy, cell.seed)


def _classes(data: ProtocolData, cell: Cell) -> Splits:
    count = _count(cell)
    train = data.load(cell.data, "train").first_classes(count)
    drawn = train.select(cap_per_class(train.labels, seed=cell.seed, limit=1000))
    validation, test = data.held_out(cell.data)
    test = test.first_classes(count)
    if validation is not None:
        return Splits(drawn, validation.first_classes(count), test)
    parts = lacon_train_split(drawn.labels, seed=cell.seed)
    return Splits(drawn.select(parts.train), drawn.select(parts.validation, split="validation"), test)


_PROTOCOLS: Mapping[str, Callable[[ProtocolData, Cell], Splits]] = {
    "full": _full,
    "train": _train,
    "shots": _shots,
    "per-class": _per_class,
    "rho": _rho,
    "noise": _noise,
    "classes": _classes,
}


def _sampled(train: LabelledTexts, size: int, seed: int) -> Rows:
    """The training set of a seed: the `seed`-th of `few_shot_sets`."""
    return stratified_sample(train.labels, size, seed=(0, seed))


def _count(cell: Cell) -> int:
    value = cell.point.value
    if value is None or value < 1 or value != int(value):
        raise InputError(f"{cell.point.protocol} takes a whole number, not {value}")
    return int(value)
