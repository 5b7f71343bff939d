"""Subsets and splits of labelled rows as the papers draw them, and noisy copies of rows.

Every sampler takes class numbers, shape (n,), and returns row numbers in ascending order, int64. The same
seed gives the same rows, no row is drawn twice, and parts do not share rows. InputError is raised for scores
in place of class numbers, and if there are not enough rows.

The copies are made offline by back-translation (SCL, section 4.2). The paper does not say whether both texts
of a pair are translated; the file decides, by repeating the one that is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sentemb.data.catalogue import get
from sentemb.data.files import AnyPath, read_file, source_at
from sentemb.data.labelled import LabelledTexts, Labels
from sentemb.data.locate import DataDir
from sentemb.data.sources import kind_of, read_rows
from sentemb.errors import InputError

Rows = npt.NDArray[np.int64]
Seed = int | Sequence[int]

LACON_WHOLE = ("cola", "mrpc", "mrpc-msr", "rte")
"""The sets whose training split LaCon takes whole (section 3.1); `cap_per_class` is for its others.

By its table 1 its MRPC is `mrpc-msr`: 4,076 rows to train on, and the published test split as dev.
"""
RATIO = 3
"""Copies for each labelled row (SCL, section 4.2: "1:3")."""


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
    """Draw rows so that each class keeps its share, to within one row."""
    # scikit-learn's splitters refuse classes of one row and samples smaller than the number of classes.
    numbers = class_numbers(labels)
    if not 0 < size <= len(numbers):
        hint = "choose a size between the number of classes and the number of rows"
        raise InputError(f"cannot draw {size:,} of {len(numbers):,} rows", hint)
    quotas, remainders = np.divmod(np.bincount(numbers) * size, len(numbers))
    most = np.argsort(-remainders, kind="stable")[: size - quotas.sum()]  # of equals the lower class
    quotas[most] += 1
    return _draw(numbers, quotas, seed)


def cap_per_class(labels: Labels, *, seed: Seed, limit: int | None = None) -> Rows:
    """Draw at most `limit` rows per class; by default 5,000 of two, 1,000 of more (LaCon, section 3.1)."""
    numbers = class_numbers(labels)
    counts = np.bincount(numbers)
    if limit is None:
        limit = 5000 if np.count_nonzero(counts) <= 2 else 1000
    if limit < 1:
        raise InputError(f"a limit of {limit} rows per class leaves no rows", "choose 1 or more")
    return _draw(numbers, np.minimum(counts, limit), seed)


def few_shot_per_class(labels: Labels, *, seed: Seed, shots: int = 20) -> TrainSplit:
    """Draw `shots` rows per class to train on, and as many for validation (LaCon, section 4.1)."""
    numbers = class_numbers(labels)
    drawn = _draw_each(numbers, np.where(np.bincount(numbers) > 0, 2 * shots, 0), seed)
    parts = ([rows[:shots] for rows in drawn], [rows[shots:] for rows in drawn])
    return TrainSplit(*(np.sort(np.concatenate(part)) for part in parts))


def imbalanced(
    labels: Labels, *, ratio: int, seed: Seed, smallest: int = 32, minority: int | None = None
) -> Rows:
    """Draw a training set in which one class is rarer than the others (LaCon, section 4.2).

    The minority has `smallest` rows, each other class `ratio` (the paper's rho, 1 to 20) times as many.
    By default it is the rarer class, or of equals the lower number: the paper does not say.
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
    return _draw(numbers, quotas, seed)


def scl_dev_split(labels: Labels, *, seed: int = 0, validation: int = 500) -> DevSplit:
    """Split a dev split into a test half and about 500 rows for selection (SCL, section 4.1).

    In both parts the classes keep their shares. If the other half is smaller, as of RTE, MRPC and SST-2,
    all of it is for validation. All models share one test set, so the seed is not that of a run.
    """
    numbers = class_numbers(labels)
    _require_rows(len(numbers), 2)
    test = stratified_sample(numbers, len(numbers) // 2, seed=(seed, 0))
    rest = np.setdiff1d(np.arange(len(numbers)), test)
    chosen = stratified_sample(numbers[rest], min(validation, len(rest)), seed=(seed, 1))
    return DevSplit(validation=rest[chosen], test=test)


def sg_bert_dev_split(size: int) -> DevSplit:
    """Take the first tenth of a dev split, rounded down, for selection, the rest as test (SG-BERT, A.4)."""
    _require_rows(size, 10)
    rows = np.arange(size, dtype=np.int64)
    return DevSplit(validation=rows[: size // 10], test=rows[size // 10 :])


def lacon_train_split(labels: Labels, *, seed: int) -> TrainSplit:
    """Hold out 5 % of the training rows for early stopping; classes keep their shares (LaCon section 3.1)."""
    numbers = class_numbers(labels)
    _require_rows(len(numbers), 20)
    validation = stratified_sample(numbers, round(0.05 * len(numbers)), seed=seed)
    return TrainSplit(np.setdiff1d(np.arange(len(numbers)), validation), validation)


def draw_extremes(gold: npt.NDArray[np.floating], *, count: int = 20, seed: int = 0) -> Extremes:
    """Draw `count` pairs each of the highest and of the lowest scores (SG-BERT, section 5.4).

    If a set has fewer pairs of its highest or lowest score, those of the next score follow.
    """
    if not 0 < count <= len(gold) // 2:
        message = f"cannot draw {count} positive and {count} negative pairs from {len(gold)}"
        raise InputError(message, f"choose 1 to {len(gold) // 2}" if len(gold) > 1 else "use more pairs")
    shuffled = np.random.default_rng(seed).permutation(len(gold))
    ordered = shuffled[np.argsort(gold[shuffled], kind="stable")]
    negative, positive = ordered[:count], ordered[-count:]
    highest = gold[negative].max()
    if gold[positive].min() <= highest:
        message = f"the {count} highest and the {count} lowest scores overlap at {highest:g}"
        raise InputError(message, "draw fewer pairs, or use pairs with more different scores")
    return Extremes(positive, negative)


def class_numbers(labels: Labels) -> Rows:
    """Return labels that must be class numbers."""
    numbers = np.asarray(labels)
    if not np.issubdtype(numbers.dtype, np.integer):
        raise InputError("the labels are scores, not classes", "convert them with score_classes")
    return numbers.astype(np.int64)


def _require_rows(found: int, needed: int) -> None:
    if found < needed:
        raise InputError(f"cannot split {found} rows; {needed} are needed", "use a complete split")


def _draw(numbers: Rows, quotas: Rows, seed: Seed) -> Rows:
    return np.sort(np.concatenate(_draw_each(numbers, quotas, seed)))


def _draw_each(numbers: Rows, quotas: Rows, seed: Seed) -> list[Rows]:
    """Draw the rows of each class that has a quota."""
    counts, rng = np.bincount(numbers), np.random.default_rng(seed)
    for one in np.flatnonzero(counts < quotas):
        message = f"class {one} has {counts[one]:,} rows, but {quotas[one]:,} are needed"
        raise InputError(message, "draw fewer rows, or use more data")
    return [rng.permutation(np.flatnonzero(numbers == one))[: quotas[one]] for one in np.flatnonzero(quotas)]


class Copy(NamedTuple):
    """A noisy copy of the row with a number, from 0, in the training split."""

    original: int
    text: str
    pair: str | None
    temperature: float | None
    location: str


def read_copies(path: AnyPath, *, pair: str | None = None, temperature: str | None = None) -> list[Copy]:
    """Read noisy copies from a table, as `sentemb data noisy-copies` writes it."""
    columns = ["index", "augmented", *(name for name in (pair, temperature) if name)]
    copies = []
    for row in read_file(source_at(path), columns=columns):
        number = row.number("index")
        if not number.is_integer():
            raise InputError(f"{row.location}: the index {number:g} is not a whole number")
        second = row.text(pair) if pair else None
        degree = row.number(temperature) if temperature else None
        copies.append(Copy(int(number), row.text("augmented"), second, degree, row.location))
    return copies


def read_originals(
    source: str,
    columns: Sequence[str] | None = None,
    *,
    only: Collection[int] | None = None,
    data_dir: DataDir = None,
) -> dict[int, tuple[str, ...]]:
    """Read the text, or the two texts, of each row to copy, by its number in the training split."""
    if not columns and kind_of(source) != "entry":
        raise InputError(f"the text columns of {source} are not clear", "name them with --columns")
    names = columns or get(source).text_columns
    if len(names) > 2:
        raise InputError(f"got {len(names)} text columns", "name one column, or two for pairs")
    return {
        number: tuple(row.filled(name) for name in names)
        for number, row in enumerate(read_rows(source, columns=names, data_dir=data_dir))
        if only is None or number in only
    }


def add_copies(
    data: LabelledTexts,
    rows: Rows,
    copies: Iterable[Copy],
    *,
    seed: int,
    temperature: float | None = None,
    ratio: int = RATIO,
) -> LabelledTexts:
    """Make a noisy training set: the chosen rows of `data`, then `ratio` copies of each, with their labels.

    Copies of another temperature are skipped if one is named. The seed chooses if a row has more copies.
    """
    by_row: defaultdict[int, list[Copy]] = defaultdict(list)
    for copy in copies:
        if temperature not in (None, copy.temperature):
            continue
        if (copy.pair is None) != (data.pairs is None):
            kind = "single texts" if data.pairs is None else "pairs"
            hint = "name one column of copies per text (augmented, augmented_pair)"
            raise InputError(f"{copy.location}: {data.name} has {kind}", hint)
        if not 0 <= copy.original < len(data):
            missing = f"{data.name} {data.split} does not have row {copy.original} (counted from 0)"
            hint = "use the training split from which the copies were made"
            raise InputError(f"{copy.location}: {missing}", hint)
        by_row[copy.original].append(copy)
    rng = np.random.default_rng(seed)
    chosen: list[Copy] = []
    for row in rows.tolist():
        found = by_row[row]
        if len(found) < ratio:
            at = "" if temperature is None else f" at temperature {temperature:g}"
            has = f"row {row} of {data.name} {data.split} has {len(found)} copies{at}"
            raise InputError(f"{has}, but {ratio} are needed", "make more copies, or choose a smaller ratio")
        chosen += [found[number] for number in np.sort(rng.permutation(len(found))[:ratio])]
    kept = data.select(rows)
    return replace(
        kept,
        split=f"{kept.split} with copies",
        texts=kept.texts + [copy.text for copy in chosen],
        pairs=None if kept.pairs is None else kept.pairs + [copy.pair or "" for copy in chosen],
        labels=np.concatenate([kept.labels, np.repeat(kept.labels, ratio)]),
    )
