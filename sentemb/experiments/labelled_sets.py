"""Training, validation and test rows of trials, drawn by the protocols of the papers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from sentemb.data.catalogue import get
from sentemb.data.labelled import LabelledTexts, load_labelled
from sentemb.data.sampling import (
    LACON_WHOLE,
    Copy,
    Rows,
    add_copies,
    cap_per_class,
    few_shot_per_class,
    imbalanced,
    lacon_train_split,
    scl_dev_split,
    sg_bert_dev_split,
    stratified_sample,
)
from sentemb.errors import InputError
from sentemb.evaluation.schema import checksum_of_parts
from sentemb.experiments.experiment import Setting

Rule = Literal["scl", "lacon", "sg-bert", "published"]
"""Source of validation and test rows, see `LabelledSets`."""
NOISE_ROWS = 100
"""Number of labelled rows that have noisy copies (SCL, section 5.3)."""
_TEST_SHARE, _TEST_SEED = 0.2, 2
_RESERVED, _LARGEST = 0.05, 500  # LaCon's share, SCL's number
# Each use of a seed is another stream, so that a draw does not depend on other draws.
_SUBSET, _HELD_OUT = 0, 1


class ImpossibleDraw(InputError):
    """A set does not have the rows that a setting needs. An experiment announces it and skips the trial."""


@dataclass(frozen=True, eq=False)
class Splits:
    """Training, validation and test rows of a trial."""

    train: LabelledTexts
    validation: LabelledTexts
    test: LabelledTexts
    left_out: Mapping[str, int] = field(default_factory=dict)
    minority: int | None = None

    @property
    def parts(self) -> dict[str, LabelledTexts]:
        """The parts by name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}

    @property
    def sizes(self) -> dict[str, int]:
        """Number of rows of each part."""
        return {name: len(part) for name, part in self.parts.items()}

    @cached_property
    def checksums(self) -> dict[str, str]:
        """SHA-256 of each part's texts and labels, independent of their files."""
        found = {}
        for name, part in self.parts.items():
            labels = part.labels.astype(part.labels.dtype.newbyteorder("<")).tobytes()
            found[name] = checksum_of_parts(
                [repr(part.label_names).encode(), *part.texts, *(part.pairs or []), labels]
            )
        return found


@dataclass(frozen=True, eq=False)
class Pool:
    """A set from which the rows of trials are drawn."""

    name: str
    rule: Rule
    train: LabelledTexts
    usable: Rows
    validation: LabelledTexts | None
    test: LabelledTexts
    left_out: Mapping[str, int]

    @property
    def labels(self) -> Rows:
        """Class numbers of the usable rows."""
        return self.train.labels[self.usable].astype(np.int64)

    def reserved(self) -> Pool:
        """Return the pool with validation rows, taken from the training rows if there are none."""
        if self.validation is not None:
            return self
        size = min(_LARGEST, max(1, round(_RESERVED * len(self.usable))))
        chosen = self.usable[stratified_sample(self.labels, size, seed=_HELD_OUT)]
        validation = self.train.select(chosen, split="validation")
        return replace(self, usable=np.setdiff1d(self.usable, chosen), validation=validation)

    def training_set(self, size: int, seed: int) -> Rows:
        """Draw the training set of a seed as a stratified sample (SCL, section 4.1)."""
        return self.usable[stratified_sample(self.labels, size, seed=(0, seed))]

    def splits(self, train: Rows | LabelledTexts, validation: Rows | None = None) -> Splits:
        """Return the data of a trial."""
        chosen = self.validation if validation is None else self.train.select(validation, split="validation")
        assert chosen is not None, f"{self.name}: no validation rows were drawn"
        drawn = train if isinstance(train, LabelledTexts) else self.train.select(train)
        return Splits(drawn, chosen, self.test, self.left_out)


class LabelledSets:
    """Draws the rows of trials, the same at each call and for every method.

    `docs/guides/experiments.md` lists the rules and the settings. Of repeated texts the first counts, and a
    text in both parts of dev belongs to the test rows. `own` are the user's own sets by name and split,
    `copies` the noisy copies by set. With `test_rows`, a stratified subset of this size is tested on.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        rule: Rule | None = None,
        own: Mapping[str, Mapping[str, LabelledTexts]] | None = None,
        copies: Mapping[str, Sequence[Copy]] | None = None,
        test_rows: int | None = None,
        check_rows: bool = True,
    ) -> None:
        self._data_dir, self._rule, self._check_rows = data_dir, rule, check_rows
        self._own, self._copies, self._test_rows = own or {}, copies or {}, test_rows
        self._pools: dict[str, Pool] = {}

    def splits(self, data: str, setting: Setting, seed: int) -> Splits:
        """Return the rows of one trial."""
        pool, copies, value = self.pool(data), self._copies.get(data, ()), setting.value or 0
        if setting.name == "noise" and value and not copies:
            hint = f"provide a file of back-translations: --data copies.{data}=FILE"
            raise InputError(f"noisy copies of {data} are missing", hint)
        if setting.name not in _DRAWS:
            raise InputError(f"unknown setting {setting.name!r}", f"choose among {', '.join(_DRAWS)}")
        if isinstance(value, str) or (
            setting.name not in ("full", "noise") and (value < 1 or value != int(value))
        ):
            raise InputError(f"{setting.name} must be an integer, not {setting.value}")
        where = f"{pool.name} at {setting}"
        try:
            if setting.name not in _OWN_VALIDATION:
                pool = pool.reserved()
            splits = (
                _noise(pool, value, seed, copies)
                if setting.name == "noise"
                else _DRAWS[setting.name](pool, int(value), seed)
            )
        except InputError as error:
            raise ImpossibleDraw(f"{where}: {error.message}", error.hint) from error
        if np.count_nonzero(list(splits.train.class_counts.values())) < 2:
            raise ImpossibleDraw(f"{where}: all rows have the same class", "request more rows")
        return splits

    def pool(self, data: str) -> Pool:
        """Read SET, or SET/SPLIT with the split to train on, and hold out its validation and test rows."""
        if data not in self._pools:
            self._pools[data] = self._read_pool(data)
        return self._pools[data]

    def _read_pool(self, data: str) -> Pool:
        name, _, split = data.partition("/")
        if name in self._own:
            splits = list(self._own[name])
        else:
            entry = get(name)
            splits = [one for one in entry.splits if one not in entry.unlabelled]
        split = split or _training_split(name, splits)
        train = self._load(name, split)
        others = [other for other in splits if other != split]
        rule = self._rule or ("scl" if "dev" in others and "test" not in others else "published")
        first: dict[tuple[str, ...], int] = {}
        for row, key in enumerate(train.text_keys()):
            first.setdefault(key, row)
        rows = np.array(list(first.values()), dtype=np.int64)
        left_out = {"repeated": len(train) - len(rows)}
        validation: LabelledTexts | None = None
        if {"dev", "test"} & {*others}:
            validation, test = self._held_out(name, rule, split, others)
            apart = _without(train, rows, [part for part in (validation, test) if part is not None])
            left_out["in validation or test"], rows = len(rows) - len(apart), apart
        else:
            size = round(_TEST_SHARE * len(rows))
            held_out = rows[stratified_sample(train.labels[rows], size, seed=_TEST_SEED)]
            rows, test = np.setdiff1d(rows, held_out), train.select(held_out, split=f"{split}: test")
        if self._test_rows is not None and self._test_rows < len(test):
            test = test.select(stratified_sample(test.labels, self._test_rows, seed=_TEST_SEED))
        pool = Pool(name, rule, train, rows, validation, test, left_out)
        return pool if rule == "lacon" else pool.reserved()

    def _held_out(
        self, name: str, rule: Rule, split: str, others: Sequence[str]
    ) -> tuple[LabelledTexts | None, LabelledTexts]:
        """Return validation rows, None if they come from the training rows, and test rows."""
        if rule == "lacon":
            return None, self._load(name, "test" if "test" in others else "dev")
        fold = split.replace("train-", "dev-")  # a fold of FewCLUE has its own dev split
        dev = fold if fold in others else "dev"
        if rule == "published" or "test" in others:
            return self._load(name, dev) if dev in others else None, self._load(name, "test")
        whole = self._load(name, dev)
        parts = scl_dev_split(whole.labels) if rule == "scl" else sg_bert_dev_split(len(whole))
        test = whole.select(parts.test, split=f"{dev}: test")
        return whole.select(_without(whole, parts.validation, [test]), split=f"{dev}: validation"), test

    def _load(self, name: str, split: str) -> LabelledTexts:
        if name not in self._own:
            return load_labelled(name, split=split, data_dir=self._data_dir, check_rows=self._check_rows)
        if split not in self._own[name]:
            known = ", ".join(self._own[name])
            raise InputError(f"{name} does not have a {split} split", f"choose among {known}")
        return self._own[name][split]


def noise_rows(pool: Pool, seeds: Iterable[int]) -> Rows:
    """Return the rows of `noise`, which are the only ones that need noisy copies."""
    pool = pool.reserved()
    return np.unique(np.concatenate([pool.training_set(NOISE_ROWS, seed) for seed in seeds]))


def _noise(pool: Pool, temperature: float, seed: int, copies: Sequence[Copy] = ()) -> Splits:
    rows = pool.training_set(NOISE_ROWS, seed)
    if not temperature:
        return pool.splits(rows)
    return pool.splits(add_copies(pool.train, rows, copies, seed=seed, temperature=temperature))


def _full(pool: Pool, value: int, seed: int) -> Splits:
    if pool.rule != "lacon":
        return pool.splits(pool.usable)
    whole = pool.name in LACON_WHOLE
    rows = pool.usable if whole else pool.usable[cap_per_class(pool.labels, seed=seed)]
    parts = lacon_train_split(pool.train.labels[rows], seed=seed)
    return pool.splits(rows[parts.train], rows[parts.validation])


def _train(pool: Pool, size: int, seed: int) -> Splits:
    size = min(size, len(pool.usable))
    whole = pool.splits(pool.usable[stratified_sample(pool.labels, size, seed=_SUBSET)])
    if size >= len(whole.validation):
        return whole
    # Validation would take most of the time if it had more rows than training.
    fewer = whole.validation.select(stratified_sample(whole.validation.labels, size, seed=_SUBSET))
    return replace(whole, validation=fewer)


def _per_class(pool: Pool, shots: int, seed: int) -> Splits:
    parts = few_shot_per_class(pool.labels, seed=seed, shots=shots)
    others = pool.usable[parts.validation] if pool.validation is None else None
    return pool.splits(pool.usable[parts.train], others)


def _rho(pool: Pool, ratio: int, seed: int) -> Splits:
    counts = np.bincount(pool.labels, minlength=len(pool.train.label_names))
    rarest = int(np.argmin(np.where(counts > 0, counts, len(pool.train))))
    drawn = imbalanced(pool.labels, ratio=ratio, seed=seed, minority=rarest)
    rest = np.delete(pool.usable, drawn)
    others = imbalanced(pool.train.labels[rest], ratio=ratio, seed=(seed, _HELD_OUT), minority=rarest)
    return replace(pool.splits(pool.usable[drawn], rest[others]), minority=rarest)


def _classes(pool: Pool, count: int, seed: int) -> Splits:
    pool = replace(pool, usable=pool.usable[pool.labels < count])
    whole = pool.splits(pool.usable[cap_per_class(pool.labels, seed=seed, limit=1000)])
    train, validation, test = (part.first_classes(count) for part in whole.parts.values())
    return Splits(train, validation, test, pool.left_out)


_DRAWS: Mapping[str, Callable[[Pool, int, int], Splits]] = {
    "noise": _noise,
    "full": _full,
    "train": _train,
    "shots": lambda pool, size, seed: pool.splits(pool.training_set(size, seed)),
    "per-class": _per_class,
    "transfer": _per_class,
    "rho": _rho,
    "classes": _classes,
}
# These draw validation rows of each seed from the training rows, if the rule has none.
_OWN_VALIDATION = ("full", "per-class", "transfer", "rho")


def _training_split(name: str, splits: Sequence[str]) -> str:
    if "train" in splits:
        return "train"
    if parts := [split for split in splits if split.startswith("train-")]:
        return parts[-1]
    if len(splits) == 1:
        return splits[0]
    raise InputError(f"{name} does not have a training split", f"choose one of its splits as {name}/SPLIT")


def _without(data: LabelledTexts, rows: Rows, parts: Sequence[LabelledTexts]) -> Rows:
    """Return the rows whose text is in none of the parts."""
    taken = {key for part in parts for key in part.text_keys()}
    keys = data.text_keys()
    return np.array([row for row in rows.tolist() if keys[row] not in taken], dtype=np.int64)
