"""Batches for contrast: of classes, in which every row has a positive; of pairs, without false negatives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sentemb.data.labelled import text_key
from sentemb.errors import InputError

if TYPE_CHECKING:
    from datasets import Dataset


class ClassBalancedBatches:
    """Batches of pairs of one class, the classes taking turns: a batch sampler for `torch`'s data loader.

    For data whose rare classes would mostly stand alone in random batches. In an epoch every row is drawn at
    least once; rows of the smaller classes come several times, in a new order each, until the largest class
    is through. sentence-transformers' own sampler by label stops when one class is left (an epoch of CoLA has
    5,056 of 8,551 rows), and drops classes of one row.

    No row is in a batch twice; where a class has fewer rows than its turns in a batch, the batch is smaller.

    Args:
        labels: (n,) labels; rows with equal ones are of one class, so scores must be rounded before
            (`score_classes`).
        batch_size: Rows of a batch, an even number from 4.
        seed: Together with the epoch it decides the order.

    Raises:
        InputError: All labels are equal, or the size does not fit.

    Example:
        >>> batches = ClassBalancedBatches([0, 0, 0, 0, 1, 1], 4)
        >>> len(batches)
        2
    """

    drop_last = False
    """All batches are full but for small classes; the data loader's wrappers ask."""

    def __init__(self, labels: npt.ArrayLike, batch_size: int, *, seed: int = 0) -> None:
        numbers = np.unique(np.asarray(labels), return_inverse=True)[1]
        self._classes = [np.flatnonzero(numbers == one) for one in range(numbers.max(initial=-1) + 1)]
        if batch_size < 4 or batch_size % 2:
            raise InputError(
                f"a balanced batch cannot have {batch_size} rows", "choose an even number of at least 4"
            )
        if len(self._classes) < 2:
            raise InputError(
                f"balanced batches need at least two classes; got {len(self._classes)}",
                "use data with two or more labels",
            )
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch, from 0, as trainers do at its start."""
        self.epoch = epoch

    def __len__(self) -> int:
        turns = (max(len(rows) for rows in self._classes) + 1) // 2
        return -(-len(self._classes) * turns // (self.batch_size // 2))

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng((self.seed, self.epoch))
        queues = [_Queue(rows, rng) for rows in self._classes]
        turns = _turns(len(queues), self.batch_size // 2, rng)
        for _ in range(len(self)):
            chosen = [next(turns) for _ in range(self.batch_size // 2)]
            wanted = np.bincount(chosen, minlength=len(queues)) * 2
            yield [row for queue, count in zip(queues, wanted, strict=True) for row in queue.take(int(count))]


def class_balanced_batches(
    dataset: Dataset,
    batch_size: int,
    drop_last: bool,
    valid_label_columns: list[str] | None = None,
    generator: Any = None,
    seed: int = 0,
) -> ClassBalancedBatches:
    """Make the sampler from a data set, as sentence-transformers' trainer asks for it (`batch_sampler=`).

    Args:
        dataset: Training data with a label column.
        batch_size: Rows of a batch.
        drop_last: Not used: there is no short last batch.
        valid_label_columns: Names that the label column may have; `label` by default.
        generator: Not used: the seed and the epoch decide the order.
        seed: Seed of the run.

    Returns:
        The sampler.

    Raises:
        InputError: There is no label column, or anything of what `ClassBalancedBatches` refuses.

    Example:
        >>> arguments = {"batch_sampler": class_balanced_batches}  # for SentenceTransformerTrainingArguments
    """
    names: Iterable[str] = valid_label_columns or ["label"]
    for name in names:
        if name in dataset.column_names:
            return ClassBalancedBatches(dataset[name][:], batch_size, seed=seed)
    raise InputError(
        f"the training data does not have a label column; its columns are {', '.join(dataset.column_names)}",
        f"rename the label column to {' or '.join(names)}",
    )


class PairBatches:
    """Batches of pairs without known positives among the negatives: a sampler for `torch`'s data loader.

    Two rows are kept apart where one has a text that the other has too, or that is another positive of the
    other's anchor. Hard negatives may repeat each other. Texts are equal that differ in letter case and white
    space alone.

    The order of an epoch is random. A row goes into the first batch that has room and takes it; one that no
    batch takes, as when its positive is in more rows than there are batches, waits for another epoch.

    Args:
        anchors: The anchor of each row.
        positives: The positive of each row.
        negatives: The hard negatives of each row.
        batch_size: Rows of a batch.
        seed: Together with the epoch it decides the order.

    Example:
        >>> batches = PairBatches(["a", "b", "a", "c"], ["p", "q", "r", "q"], [(), (), (), ()], 2)
        >>> [sorted(batch) for batch in batches]  # "a" is the anchor of two rows, "q" the positive of two
        [[1, 2], [0, 3]]
    """

    drop_last = False
    """No batch is dropped; the data loader's wrappers ask."""

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
            (numbers[text_key(anchor)], numbers[text_key(positive)])
            for anchor, positive in zip(anchors, positives, strict=True)
        ]
        positives_of: defaultdict[int, set[int]] = defaultdict(set)
        for anchor, positive in pairs:
            positives_of[anchor].add(positive)
        self._positives = [positive for _, positive in pairs]
        self._own = [{*pair, *positives_of[pair[0]]} for pair in pairs]
        self._negatives = [{numbers[text_key(text)] for text in row} for row in negatives]
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch, from 0, as trainers do at its start."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self._own) // max(1, min(self.batch_size, len(set(self._positives)))))

    def __iter__(self) -> Iterator[list[int]]:
        batches = [_PairBatch([], set(), set()) for _ in range(len(self))]
        first_open = 0
        untried: dict[int, int] = {}  # by positive: all batches before this one are full or have it
        for row in np.random.default_rng((self.seed, self.epoch)).permutation(len(self._own)).tolist():
            own, negatives, positive = self._own[row], self._negatives[row], self._positives[row]
            for place in range(max(first_open, untried.get(positive, 0)), len(batches)):
                batch = batches[place]
                if len(batch.rows) < self.batch_size and batch.takes(own, negatives):
                    batch.rows.append(row)
                    batch.own.update(own)
                    batch.negatives.update(negatives)
                    untried[positive] = place + 1
                    break
            while first_open < len(batches) and len(batches[first_open].rows) == self.batch_size:
                first_open += 1
        # The last ones are the smallest, and should not always be.
        for place in np.random.default_rng((self.seed, self.epoch, 1)).permutation(len(batches)).tolist():
            yield batches[place].rows


def pair_batches(
    dataset: Dataset,
    batch_size: int,
    drop_last: bool,
    valid_label_columns: list[str] | None = None,
    generator: Any = None,
    seed: int = 0,
) -> PairBatches:
    """Make the sampler from a data set, as sentence-transformers' trainer asks for it (`batch_sampler=`).

    Args:
        dataset: Columns of the anchor, the positive and any hard negatives, in this order.
        batch_size: Rows of a batch.
        drop_last: Not used: small batches are kept.
        valid_label_columns: Not used: pairs have no labels.
        generator: Not used: the seed and the epoch decide the order.
        seed: Seed of the run.

    Returns:
        The sampler.
    """
    anchors, positives, *rest = (list(dataset[name]) for name in dataset.column_names)
    negatives = list(zip(*rest, strict=True)) if rest else [()] * len(anchors)
    return PairBatches(anchors, positives, negatives, batch_size, seed=seed)


class _PairBatch(NamedTuple):
    """Rows, their anchors with all of the positives of these, and their hard negatives."""

    rows: list[int]
    own: set[int]
    negatives: set[int]

    def takes(self, own: set[int], negatives: set[int]) -> bool:
        return own.isdisjoint(self.own) and own.isdisjoint(self.negatives) and negatives.isdisjoint(self.own)


class _Queue:
    """The rows of one class in random order, again and again in a new one."""

    def __init__(self, rows: npt.NDArray[np.int64], rng: np.random.Generator) -> None:
        self._rows = rows
        self._rng = rng
        self._ahead: list[int] = []

    def take(self, count: int) -> list[int]:
        """So many rows, none twice, or all where the class has fewer."""
        count = min(count, len(self._rows))
        if len(self._ahead) < count:
            # What is left over goes first and, in the new order, last: so no row comes twice in a batch.
            left = set(self._ahead)
            again = self._rng.permutation(self._rows).tolist()
            self._ahead += sorted(again, key=left.__contains__)
        taken, self._ahead = self._ahead[:count], self._ahead[count:]
        return taken


def _turns(classes: int, places: int, rng: np.random.Generator) -> Iterator[int]:
    """Every class once, again and again, and none twice in a row.

    The order stays where a batch has a place for each class, else it changes, so that every two classes meet.
    """
    order = rng.permutation(classes).tolist()
    while True:
        yield from order
        if classes > places:
            last = order[-1]
            order = rng.permutation(classes).tolist()
            if order[0] == last:
                order.append(order.pop(0))
