"""Subsets of labelled rows as the papers draw them.

Every function takes class numbers and a seed and returns row numbers in ascending order, int64: the same
seed gives the same rows. Nothing is drawn twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sentemb.data.labelled import Labels
from sentemb.errors import InputError

Rows = npt.NDArray[np.int64]
Seed = int | Sequence[int]

LACON_WHOLE = ("cola", "mrpc", "mrpc-msr", "rte")
"""The sets whose training split LaCon takes whole (section 3.1); `cap_per_class` is for its others.

By its table 1 its MRPC is `mrpc-msr`: 4,076 rows to train on, and the published test split as dev.
"""
_LACON_BINARY, _LACON_MORE = 5000, 1000


class TrainSplit(NamedTuple):
    """Two parts of a training split without a common row.

    Attributes:
        train: Rows to train on.
        validation: Rows to choose by.
    """

    train: Rows
    validation: Rows


def stratified_sample(labels: Labels, size: int, *, seed: Seed) -> Rows:
    """Draw rows so that the classes keep their shares: the stated subset of a set too large to use whole.

    No class is more than one row away from its share; scikit-learn's splitters do the same but refuse classes
    of one row and samples smaller than the number of classes.

    Args:
        labels: (n,) class numbers.
        size: How many rows, up to n.
        seed: Seed.

    Returns:
        (size,) rows.

    Raises:
        InputError: The labels are scores, or the size is none that the rows allow.

    Example:
        >>> labels = np.array([0] * 80 + [1] * 20)
        >>> np.bincount(labels[stratified_sample(labels, 10, seed=1)])
        array([8, 2])
    """
    numbers = class_numbers(labels)
    if not 0 < size <= len(numbers):
        raise InputError(
            f"cannot draw {size:,} of {len(numbers):,} rows",
            "choose a size between the number of classes and the number of rows",
        )
    quotas, remainders = np.divmod(np.bincount(numbers) * size, len(numbers))
    most = np.argsort(-remainders, kind="stable")[: size - quotas.sum()]  # of equals the lower class
    quotas[most] += 1
    return _draw(numbers, quotas, np.random.default_rng(seed))


def cap_per_class(labels: Labels, *, seed: Seed, limit: int | None = None) -> Rows:
    """Draw at most so many rows of each class, anew for each run (LaCon, section 3.1).

    Args:
        labels: (n,) class numbers.
        seed: Seed of the run.
        limit: Rows of a class; by default the paper's 5,000 for two classes and 1,000 for more.

    Returns:
        The rows.

    Raises:
        InputError: The labels are scores, or the limit is less than one.

    Example:
        >>> labels = np.array([0] * 80 + [1] * 20)
        >>> np.bincount(labels[cap_per_class(labels, seed=1, limit=30)])
        array([30, 20])
    """
    numbers = class_numbers(labels)
    counts = np.bincount(numbers)
    if limit is None:
        limit = _LACON_BINARY if np.count_nonzero(counts) <= 2 else _LACON_MORE
    if limit < 1:
        raise InputError(f"a limit of {limit} rows per class leaves no rows", "choose 1 or more")
    return _draw(numbers, np.minimum(counts, limit), np.random.default_rng(seed))


def few_shot_per_class(labels: Labels, *, seed: Seed, shots: int = 20) -> TrainSplit:
    """Draw as many rows of each class to train on and as many others to validate on (LaCon, section 4.1).

    Args:
        labels: (n,) class numbers.
        seed: Seed of the run.
        shots: Rows of each class, 20 by default; the paper's figure 2 has 10, 20, 50 and 100.

    Returns:
        Training and validation rows.

    Raises:
        InputError: The labels are scores, or a class has fewer rows than both parts need.

    Example:
        >>> labels = np.array([0] * 80 + [1] * 40)
        >>> split = few_shot_per_class(labels, seed=1, shots=5)
        >>> np.bincount(labels[split.train])
        array([5, 5])
    """
    numbers = class_numbers(labels)
    counts = np.bincount(numbers)
    _require(counts, np.where(counts > 0, 2 * shots, 0))
    rng = np.random.default_rng(seed)
    both = [rng.permutation(np.flatnonzero(numbers == one))[: 2 * shots] for one in np.flatnonzero(counts)]
    return TrainSplit(
        train=np.sort(np.concatenate([rows[:shots] for rows in both])),
        validation=np.sort(np.concatenate([rows[shots:] for rows in both])),
    )


def few_shot_sets(labels: Labels, size: int, *, sets: int = 10, seed: int = 0) -> list[Rows]:
    """Draw several training sets of one size, in which the classes keep their shares (SCL, section 4.1).

    The sets are drawn one by one, so two of them may have rows in common.

    Args:
        labels: (n,) class numbers of the training split.
        size: Rows of each set in all; the paper has 20, 100 and 1,000.
        sets: How many sets, 10 by default.
        seed: Seed of all of them.

    Returns:
        The rows of each set.

    Raises:
        InputError: As for `stratified_sample`.

    Example:
        >>> labels = np.array([0] * 80 + [1] * 20)
        >>> [len(rows) for rows in few_shot_sets(labels, 10, sets=3)]
        [10, 10, 10]
    """
    return [stratified_sample(labels, size, seed=(seed, number)) for number in range(sets)]


def imbalanced(
    labels: Labels, *, ratio: int, seed: Seed, smallest: int = 32, minority: int | None = None
) -> Rows:
    """Draw a training set in which one class is rarer than the others (LaCon, section 4.2).

    Args:
        labels: (n,) class numbers.
        ratio: The paper's rho: how many times the minority's rows each other class has; 1, 3, 5, 10 and 20
            there.
        seed: Seed of the run.
        smallest: Rows of the minority, 32 by default.
        minority: Its class number. The paper does not say which; by default the rarer class, or of equals the
            lower number.

    Returns:
        The rows.

    Raises:
        InputError: The labels are scores, the minority is no class, or a class has too few rows.

    Example:
        >>> labels = np.array([0] * 400 + [1] * 400)
        >>> np.bincount(labels[imbalanced(labels, ratio=4, seed=1)])
        array([ 32, 128])
    """
    numbers = class_numbers(labels)
    counts = np.bincount(numbers)
    present = np.flatnonzero(counts)
    chosen = int(present[np.argmin(counts[present])]) if minority is None else minority
    if chosen not in present:
        raise InputError(f"no row has the minority class {chosen}", "choose an existing class")
    if ratio < 1:
        raise InputError(f"a ratio of {ratio} would turn the minority into the majority", "choose 1 or more")
    quotas = np.where(counts > 0, smallest * ratio, 0)
    quotas[chosen] = smallest
    _require(counts, quotas)
    return _draw(numbers, quotas, np.random.default_rng(seed))


def class_numbers(labels: Labels) -> Rows:
    """Check that labels are class numbers."""
    numbers = np.asarray(labels)
    if not np.issubdtype(numbers.dtype, np.integer):
        raise InputError("the labels are scores, not classes", "convert them with score_classes")
    return numbers.astype(np.int64)


def _require(counts: Rows, wanted: Rows) -> None:
    short = np.flatnonzero(counts < wanted)
    if short.size:
        one = int(short[0])
        raise InputError(
            f"class {one} has {counts[one]:,} rows, but {wanted[one]:,} are needed",
            "draw fewer rows, or use more data",
        )


def _draw(numbers: Rows, quotas: Rows, rng: np.random.Generator) -> Rows:
    drawn = [rng.permutation(np.flatnonzero(numbers == one))[: quotas[one]] for one in np.flatnonzero(quotas)]
    return np.sort(np.concatenate(drawn))
