"""Labelled sets that are read once, and the training, validation and test rows of each trial."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sentemb.data.catalogue import get
from sentemb.data.labelled import LabelledTexts, load_labelled
from sentemb.data.sampling import Copy, Rows, scl_dev_split, sg_bert_dev_split, stratified_sample
from sentemb.errors import InputError
from sentemb.experiments.experiment import Setting
from sentemb.experiments.samplers import Pool, Rule, Splits, draw

_TEST_SHARE, _TEST_SEED = 0.2, 2


class LabelledSets:
    """Makes the rows of trials, the same at each call and for every method.

    A test split with published labels is tested on. For validation rows, and where there is none, the rules:

    - `scl`: half of the dev split is tested on, about 500 rows of the rest are validation (SCL, section 4.1).
    - `sg-bert`: the first tenth of dev is validation, the rest is tested on (SG-BERT, table 10).
    - `lacon`: dev is tested on; validation is part of the training rows (LaCon, section 3.1). Training rows
      are at most 5,000 of a class, 1,000 with more than two, drawn again for each seed.
    - `published`: validation is dev or, where there is none, 5 % of train and at most 500 rows, the same for
      every seed; so it is with the first two where test labels are published.

    Without a rule it is `scl` for a set that has dev but no test labels, else `published`. A set of one
    split, such as MR, is tested on a fifth of it.

    Training rows are drawn from the training split without repeated texts, of which the first counts, and
    without the texts that are validation or test rows too. Of two parts of dev with a common text, it belongs
    to the test rows.

    Settings, by name:

    - `full`: all training rows. `train`: so many in all and no more to choose by, the same ones for every
      seed.
    - `shots`: so many in all, drawn again for each seed (SCL, table 4).
    - `per-class`: so many of each class, and others for validation where the rule has none (LaCon, section
      4.1); `transfer`: the same (SCL, section 5.4).
    - `rho`: 32 rows of the rarest class, rho times as many of the others; drawn in the same way from the
      rest, validation rows (LaCon, section 4.2, which does not name them).
    - `noise`: 100 rows with three noisy copies each at that temperature, 0 for the rows alone (SCL, table 5).
    - `classes`: the first so many classes, 1,000 rows each (LaCon, section 4.5).

    Args:
        data_dir: Folder with data sets; `SENTEMB_DATA` or the hub by default.
        rule: Where validation and test rows come from.
        own: The user's own sets, by name and split.
        copies: Noisy copies by set, for `noise`.
        test_rows: Test on a stratified subset of so many rows, the same for every seed; on all by default.
        check_rows: Refuse copies of sets with missing or extra rows.

    Example:
        >>> sets = LabelledSets("data")  # doctest: +SKIP
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
        self._data_dir = data_dir
        self._rule = rule
        self._own = own or {}
        self._copies = copies or {}
        self._test_rows = test_rows
        self._check_rows = check_rows
        self._pools: dict[str, Pool] = {}

    def splits(self, data: str, setting: Setting, seed: int) -> Splits:
        """The rows of one trial."""
        pool = self.pool(data)
        if setting.name == "noise" and setting.value:
            pool = replace(pool, copies=self._copies_of(data))
        return draw(pool, setting, seed)

    def pool(self, data: str) -> Pool:
        """Read a set and hold its validation and test rows out.

        Args:
            data: The set, or the set and the split to train on.

        Returns:
            What trials' rows are drawn from.

        Raises:
            InputError: The set or a split is not there, or has too few rows to be divided.
        """
        if data not in self._pools:
            self._pools[data] = self._pool(data)
        return self._pools[data]

    def _pool(self, data: str) -> Pool:
        name, _, chosen = data.partition("/")
        splits = self._splits(name)
        split = chosen or _training_split(name, splits)
        train = self._load(name, split)
        others = [other for other in splits if other != split]
        rule = self._rule or ("scl" if "dev" in others and "test" not in others else "published")
        rows = _first_of_each_text(train)
        left_out = {"repeated": len(train) - len(rows)}
        if "dev" not in others and "test" not in others:
            test_rows = rows[
                stratified_sample(train.labels[rows], round(_TEST_SHARE * len(rows)), seed=_TEST_SEED)
            ]
            rows, validation = np.setdiff1d(rows, test_rows), None
            test = train.select(test_rows, split=f"{split}: test")
        else:
            validation, test = self._held_out(name, rule, split, others)
            apart = _without(train, rows, [part for part in (validation, test) if part is not None])
            left_out["in validation or test"], rows = len(rows) - len(apart), apart
        if self._test_rows is not None and self._test_rows < len(test):
            test = test.select(stratified_sample(test.labels, self._test_rows, seed=_TEST_SEED))
        pool = Pool(name, rule, train, rows, validation, test, left_out)
        return pool if rule == "lacon" else pool.reserved()

    def _held_out(
        self, name: str, rule: Rule, split: str, others: Sequence[str]
    ) -> tuple[LabelledTexts | None, LabelledTexts]:
        """Validation rows, None where they come from the training rows, and test rows."""
        if rule == "lacon":
            return None, self._load(name, "test" if "test" in others else "dev")
        # A fold of FewCLUE has its own dev split.
        dev = split.replace("train-", "dev-") if split.replace("train-", "dev-") in others else "dev"
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
            raise InputError(
                f"{name} does not have a {split} split", f"choose among {', '.join(self._own[name])}"
            )
        return self._own[name][split]

    def _copies_of(self, data: str) -> Sequence[Copy]:
        if data not in self._copies:
            raise InputError(
                f"noisy copies of {data} are missing",
                f"provide a file of back-translations: --data copies.{data}=FILE",
            )
        return self._copies[data]

    def _splits(self, name: str) -> Sequence[str]:
        if name in self._own:
            return list(self._own[name])
        entry = get(name)
        return [split for split in entry.splits if split not in entry.unlabelled]


def _training_split(name: str, splits: Sequence[str]) -> str:
    if "train" in splits:
        return "train"
    if parts := [split for split in splits if split.startswith("train-")]:
        return parts[-1]
    if len(splits) == 1:
        return splits[0]
    raise InputError(f"{name} does not have a training split", f"choose one of its splits as {name}/SPLIT")


def _first_of_each_text(data: LabelledTexts) -> Rows:
    first: dict[tuple[str, ...], int] = {}
    for row, key in enumerate(data.text_keys()):
        first.setdefault(key, row)
    return np.array(list(first.values()), dtype=np.int64)


def _without(data: LabelledTexts, rows: Rows, parts: Sequence[LabelledTexts]) -> Rows:
    """The rows whose text is in none of the parts."""
    taken = {key for part in parts for key in part.text_keys()}
    keys = data.text_keys()
    return np.array([row for row in rows.tolist() if keys[row] not in taken], dtype=np.int64)
