"""What each protocol of the papers draws from the rows of a labelled set."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from sentemb.data.labelled import LabelledTexts, Labels
from sentemb.data.sampling import (
    LACON_WHOLE,
    Copy,
    Rows,
    add_copies,
    cap_per_class,
    few_shot_per_class,
    imbalanced,
    lacon_train_split,
    stratified_sample,
)
from sentemb.errors import InputError
from sentemb.experiments.experiment import Setting

Rule = Literal["scl", "lacon", "sg-bert", "published"]
"""Where validation and test rows come from, see `LabelledSets`."""
NOISE_ROWS = 100
"""Labelled rows below the noisy copies (SCL, section 5.3)."""
_RESERVED, _LARGEST = 0.05, 500  # LaCon's share, SCL's number
# Which rows are drawn must not depend on what else was: each use of a seed is another stream.
_SUBSET, _HELD_OUT = 0, 1


class ImpossibleDraw(InputError):
    """A set lacks the rows that a setting needs; an experiment skips the trial and says so."""


@dataclass(frozen=True, eq=False)
class Splits:
    """What a trial trains on, chooses by and is evaluated on."""

    train: LabelledTexts
    validation: LabelledTexts
    test: LabelledTexts
    left_out: Mapping[str, int] = field(default_factory=dict)
    minority: int | None = None

    def __post_init__(self) -> None:
        if not self.train.label_names == self.validation.label_names == self.test.label_names:
            raise InputError(f"{self.train.name}: training, validation and test have different classes")

    @property
    def sizes(self) -> dict[str, int]:
        """Rows of each part."""
        return {"train": len(self.train), "validation": len(self.validation), "test": len(self.test)}

    @cached_property
    def checksums(self) -> dict[str, str]:
        """SHA-256 of each part's texts and labels, whatever files they came from."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        return {name: _checksum(part) for name, part in parts.items()}


@dataclass(frozen=True, eq=False)
class Pool:
    """A set before a trial's rows are drawn from it."""

    name: str
    rule: Rule
    train: LabelledTexts
    usable: Rows
    validation: LabelledTexts | None
    test: LabelledTexts
    left_out: Mapping[str, int]
    copies: Sequence[Copy] = ()

    @property
    def labels(self) -> Rows:
        """Class numbers of the usable rows."""
        return self.train.labels[self.usable].astype(np.int64)

    def reserved(self) -> Pool:
        """The pool with validation rows of its own."""
        if self.validation is not None:
            return self
        size = min(_LARGEST, max(1, round(_RESERVED * len(self.usable))))
        chosen = self.usable[stratified_sample(self.labels, size, seed=_HELD_OUT)]
        validation = self.train.select(chosen, split="validation")
        return replace(self, usable=np.setdiff1d(self.usable, chosen), validation=validation)

    def splits(self, train: Rows | LabelledTexts, validation: Rows | None = None) -> Splits:
        """The data of a trial."""
        chosen = self.validation if validation is None else self.train.select(validation, split="validation")
        if chosen is None:
            raise ValueError(f"{self.name}: no validation rows were drawn")
        drawn = train if isinstance(train, LabelledTexts) else self.train.select(train)
        return Splits(drawn, chosen, self.test, self.left_out)


def draw(pool: Pool, setting: Setting, seed: int) -> Splits:
    """Draw the data of a trial."""
    if setting.name not in _DRAWS:
        raise InputError(f"unknown setting {setting.name!r}", f"choose among {', '.join(_DRAWS)}")
    if setting.name not in ("full", "noise"):
        _check_count(setting)
    try:
        splits = _DRAWS[setting.name](pool, setting, seed)
    except InputError as error:
        raise ImpossibleDraw(f"{pool.name} at {setting}: {error.message}", error.hint) from error
    if np.count_nonzero(list(splits.train.class_counts.values())) < 2:
        raise ImpossibleDraw(f"{pool.name} at {setting}: all rows have the same class", "request more rows")
    return splits


def noise_rows(pool: Pool, seeds: Iterable[int]) -> Rows:
    """The rows that the points of `noise` are drawn from, which alone need noisy copies."""
    pool = pool.reserved()
    return np.unique(np.concatenate([_training_set(pool, NOISE_ROWS, seed) for seed in seeds]))


def _full(pool: Pool, setting: Setting, seed: int) -> Splits:
    if pool.rule != "lacon":
        return pool.splits(pool.usable)
    rows = pool.usable
    if pool.name not in LACON_WHOLE:
        rows = rows[cap_per_class(pool.labels, seed=seed)]
    parts = lacon_train_split(pool.train.labels[rows], seed=seed)
    return pool.splits(rows[parts.train], rows[parts.validation])


def _train(pool: Pool, setting: Setting, seed: int) -> Splits:
    pool = pool.reserved()
    size = min(_count(setting), len(pool.usable))
    whole = pool.splits(pool.usable[stratified_sample(pool.labels, size, seed=_SUBSET)])
    if size >= len(whole.validation):
        return whole
    # More rows to choose by than to train on would take most of the time.
    fewer = whole.validation.select(stratified_sample(whole.validation.labels, size, seed=_SUBSET))
    return replace(whole, validation=fewer)


def _shots(pool: Pool, setting: Setting, seed: int) -> Splits:
    pool = pool.reserved()
    return pool.splits(_training_set(pool, _count(setting), seed))


def _per_class(pool: Pool, setting: Setting, seed: int) -> Splits:
    parts = few_shot_per_class(pool.labels, seed=seed, shots=_count(setting))
    others = pool.usable[parts.validation] if pool.validation is None else None
    return pool.splits(pool.usable[parts.train], others)


def _rho(pool: Pool, setting: Setting, seed: int) -> Splits:
    counts = np.bincount(pool.labels, minlength=len(pool.train.label_names))
    rarest = int(np.argmin(np.where(counts > 0, counts, len(pool.train))))
    drawn = imbalanced(pool.labels, ratio=_count(setting), seed=seed, minority=rarest)
    rows, rest = pool.usable[drawn], np.delete(pool.usable, drawn)
    others = imbalanced(
        pool.train.labels[rest], ratio=_count(setting), seed=(seed, _HELD_OUT), minority=rarest
    )
    return replace(pool.splits(rows, rest[others]), minority=rarest)


def _noise(pool: Pool, setting: Setting, seed: int) -> Splits:
    pool = pool.reserved()
    rows = _training_set(pool, NOISE_ROWS, seed)
    if not setting.value:
        return pool.splits(rows)
    return pool.splits(add_copies(pool.train, rows, pool.copies, seed=seed, temperature=setting.value))


def _classes(pool: Pool, setting: Setting, seed: int) -> Splits:
    count = _count(setting)
    pool = pool.reserved()
    pool = replace(pool, usable=pool.usable[pool.labels < count])
    whole = pool.splits(pool.usable[cap_per_class(pool.labels, seed=seed, limit=1000)])
    train, validation, test = (
        part.first_classes(count) for part in (whole.train, whole.validation, whole.test)
    )
    return Splits(train, validation, test, pool.left_out)


_DRAWS: Mapping[str, Callable[[Pool, Setting, int], Splits]] = {
    "full": _full,
    "train": _train,
    "shots": _shots,
    "per-class": _per_class,
    "transfer": _per_class,
    "rho": _rho,
    "noise": _noise,
    "classes": _classes,
}


def _training_set(pool: Pool, size: int, seed: int) -> Rows:
    """Draw the training set of a seed, in which the classes keep their shares (SCL, section 4.1)."""
    return pool.usable[stratified_sample(pool.labels, size, seed=(0, seed))]


def _count(setting: Setting) -> int:
    return int(setting.value or 0)


def _check_count(setting: Setting) -> None:
    if setting.value is None or setting.value < 1 or setting.value != int(setting.value):
        raise InputError(f"{setting.name} must be an integer, not {setting.value}")


def _checksum(data: LabelledTexts) -> str:
    digest = hashlib.sha256(repr(data.label_names).encode())
    for column in (data.texts, data.pairs or []):
        for text in column:
            encoded = text.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
    digest.update(_little_endian(data.labels))
    return digest.hexdigest()


def _little_endian(labels: Labels) -> bytes:
    return labels.astype(labels.dtype.newbyteorder("<")).tobytes()
