"""Subsets and splits of labelled rows as the papers draw them.

Every function takes class numbers, shape (n,), or how many rows there are, and returns row numbers in
ascending order, int64. The same seed gives the same rows, no row is drawn twice, and parts do not share rows.
InputError is raised for scores in place of class numbers, and if there are not enough rows.
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
_LACON_HELD_OUT = 0.05


class TrainSplit(NamedTuple):
    """Two parts of a training split: rows to train on, and rows for selection."""

    train: Rows
    validation: Rows


class DevSplit(NamedTuple):
    """Two parts of a dev split: rows for selection, and rows to report."""

    validation: Rows
    test: Rows


class Extremes(NamedTuple):
    """Rows of the most similar and of the least similar pairs, (count,) each."""

    positive: Rows
    negative: Rows


def stratified_sample(labels: Labels, size: int, *, seed: Seed) -> Rows:
    """Draw rows so that each class keeps its share, to within one row.

    scikit-learn's splitters do the same but refuse classes of one row and samples smaller than the number of
    classes.

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
    """Draw at most `limit` rows of each class; by default 5,000 of two, 1,000 of more (LaCon, section 3.1).

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
    """Draw as many rows of each class to train on as for validation (LaCon, section 4.1).

    The paper has 20 `shots`, and 10, 20, 50 and 100 in its figure 2.

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


def imbalanced(
    labels: Labels, *, ratio: int, seed: Seed, smallest: int = 32, minority: int | None = None
) -> Rows:
    """Draw a training set in which one class is rarer than the others (LaCon, section 4.2).

    Args:
        labels: (n,) class numbers.
        ratio: The paper's rho: how many times the minority's rows each other class has; 1, 3, 5, 10 and 20
            there.
        seed: Seed of the run.
        smallest: Rows of the minority.
        minority: Its class number, which the paper does not state; by default the rarer class, or of equals
            the lower number.

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


def scl_dev_split(labels: Labels, *, seed: int = 0, validation: int = 500) -> DevSplit:
    """Split a dev split into a test half and about 500 rows for selection (SCL, section 4.1).

    In both parts the classes keep their shares. If the other half is smaller, as of RTE, MRPC and SST-2, all
    of it is for validation. All models share one test set, so the seed is not that of a run.

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
    """Take the first tenth of a dev split for selection, the rest as test set (SG-BERT, A.4, table 10).

    The paper splits by order and does not say how it rounds; the tenth is rounded down.

    Example:
        >>> split = sg_bert_dev_split(1000)
        >>> len(split.validation), len(split.test)
        (100, 900)
    """
    _require_rows(size, 10)
    rows = np.arange(size, dtype=np.int64)
    return DevSplit(validation=rows[: size // 10], test=rows[size // 10 :])


def lacon_train_split(labels: Labels, *, seed: int) -> TrainSplit:
    """Hold out 5 % of the training rows for early stopping (LaCon, section 3.1, footnote 1).

    The dev split is the test set there. The paper does not say how the rows are drawn; here the classes keep
    their shares.

    Example:
        >>> split = lacon_train_split(np.array([0] * 80 + [1] * 20), seed=1)
        >>> len(split.train), len(split.validation)
        (95, 5)
    """
    numbers = class_numbers(labels)
    size = round(_LACON_HELD_OUT * len(numbers))
    if not 0 < size < len(numbers):
        raise InputError(
            f"a share of {_LACON_HELD_OUT:g} of {len(numbers):,} rows leaves a split empty", "use more data"
        )
    validation = stratified_sample(numbers, size, seed=seed)
    return TrainSplit(np.setdiff1d(np.arange(len(numbers)), validation), validation)


def draw_extremes(gold: npt.NDArray[np.floating], *, count: int = 20, seed: int = 0) -> Extremes:
    """Draw `count` pairs each of the highest and of the lowest scores (SG-BERT, section 5.4).

    The paper draws 20 pairs scored 5 and 20 scored 0 from STS-B dev. If a set has fewer pairs of its highest
    or lowest score, those of the next score follow; both ends must not have a score in common.

    Example:
        >>> ends = draw_extremes(np.arange(100) / 20, count=3, seed=1)
        >>> sorted(ends.positive.tolist())[0] > sorted(ends.negative.tolist())[-1]
        True
    """
    if not 0 < count <= len(gold) // 2:
        raise InputError(
            f"cannot draw {count} positive and {count} negative pairs from {len(gold)}",
            f"choose 1 to {len(gold) // 2}" if len(gold) > 1 else "use more pairs",
        )
    shuffled = np.random.default_rng(seed).permutation(len(gold))
    ordered = shuffled[np.argsort(gold[shuffled], kind="stable")]
    negative, positive = ordered[:count], ordered[-count:]
    if gold[positive].min() <= gold[negative].max():
        raise InputError(
            f"the {count} highest and the {count} lowest scores overlap at {gold[negative].max():g}",
            "draw fewer pairs, or use pairs with more different scores",
        )
    return Extremes(positive, negative)


def class_numbers(labels: Labels) -> Rows:
    """Return labels that must be class numbers."""
    numbers = np.asarray(labels)
    if not np.issubdtype(numbers.dtype, np.integer):
        raise InputError("the labels are scores, not classes", "convert them with score_classes")
    return numbers.astype(np.int64)


def _require(counts: Rows, quotas: Rows) -> None:
    short = np.flatnonzero(counts < quotas)
    if short.size:
        one = int(short[0])
        raise InputError(
            f"class {one} has {counts[one]:,} rows, but {quotas[one]:,} are needed",
            "draw fewer rows, or use more data",
        )


def _require_rows(found: int, needed: int) -> None:
    if found < needed:
        raise InputError(f"cannot split {found} rows; {needed} are needed", "use a complete dev split")


def _draw(numbers: Rows, quotas: Rows, rng: np.random.Generator) -> Rows:
    drawn = [rng.permutation(np.flatnonzero(numbers == one))[: quotas[one]] for one in np.flatnonzero(quotas)]
    return np.sort(np.concatenate(drawn))
