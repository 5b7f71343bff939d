"""How the papers make validation and test sets where a benchmark publishes no test labels.

Every function returns row numbers in ascending order, int64, in parts without a common row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sentemb.data.labelled import Labels
from sentemb.data.sampling import Rows, TrainSplit, class_numbers, stratified_sample
from sentemb.errors import InputError


class DevSplit(NamedTuple):
    """Two parts of a dev split without a common row.

    Attributes:
        validation: Rows to choose by.
        test: Rows to report.
    """

    validation: Rows
    test: Rows


def scl_dev_split(labels: Labels, *, seed: int = 0, validation: int = 500) -> DevSplit:
    """Half of the dev split as test set, about 500 rows of the rest to choose by (SCL, section 4.1).

    In both parts the classes keep their shares. Where the other half has fewer rows than asked for, as of
    RTE, MRPC and SST-2, all of it is validation. All models share one test set: the seed is not that of a
    run.

    Args:
        labels: (n,) class numbers of the dev split.
        seed: Seed of the split.
        validation: Rows to choose by, 500 by default.

    Returns:
        The two parts.

    Raises:
        InputError: The labels are scores, or there are fewer than two rows.

    Example:
        >>> split = scl_dev_split(np.array([0] * 800 + [1] * 800), seed=1)
        >>> len(split.validation), len(split.test)
        (500, 800)
    """
    numbers = class_numbers(labels)
    _require_rows(len(numbers), 2)
    test = stratified_sample(numbers, len(numbers) // 2, seed=(seed, 0))
    rest = np.setdiff1d(np.arange(len(numbers)), test)
    chosen = stratified_sample(numbers[rest], min(validation, len(rest)), seed=(seed, 1))
    return DevSplit(validation=rest[chosen], test=test)


def sg_bert_dev_split(size: int) -> DevSplit:
    """The first tenth of the dev split to choose by, the rest as test set (SG-BERT, appendix A.4, table 10).

    The paper splits by order and does not say how it rounds; the tenth is rounded down.

    Args:
        size: Rows of the dev split.

    Returns:
        The two parts.

    Raises:
        InputError: There are fewer than ten rows, a tenth of which is none.

    Example:
        >>> split = sg_bert_dev_split(1000)
        >>> len(split.validation), len(split.test)
        (100, 900)
    """
    _require_rows(size, 10)
    rows = np.arange(size, dtype=np.int64)
    return DevSplit(validation=rows[: size // 10], test=rows[size // 10 :])


def lacon_train_split(labels: Labels, *, seed: int, fraction: float = 0.05) -> TrainSplit:
    """Part of the training rows to stop by (LaCon, section 3.1, footnote 1); the dev split is its test set.

    The paper does not say how the part is drawn; here the classes keep their shares.

    Args:
        labels: (n,) class numbers of the rows to train on, after `cap_per_class`.
        seed: Seed of the run.
        fraction: Their part to validate on, 0.05 by default.

    Returns:
        Training and validation rows.

    Raises:
        InputError: The labels are scores, or a part would have no row.

    Example:
        >>> split = lacon_train_split(np.array([0] * 80 + [1] * 20), seed=1)
        >>> len(split.train), len(split.validation)
        (95, 5)
    """
    numbers = class_numbers(labels)
    size = round(fraction * len(numbers))
    if not 0 < size < len(numbers):
        raise InputError(
            f"a share of {fraction:g} of {len(numbers):,} rows leaves a split empty", "use more data"
        )
    validation = stratified_sample(numbers, size, seed=seed)
    return TrainSplit(np.setdiff1d(np.arange(len(numbers)), validation), validation)


def _require_rows(found: int, wanted: int) -> None:
    if found < wanted:
        raise InputError(f"cannot split {found} rows; {wanted} are needed", "use a complete dev split")
