"""Batches of pairs without known positives among the negatives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sentemb.data.labelled import text_key

if TYPE_CHECKING:
    from datasets import Dataset


class PairBatches:
    """Batches of pairs without known positives among the negatives: a sampler for `torch`'s data loader.

    Two rows are kept apart if one has a text that the other has too, or that is another positive of the
    other's anchor. Hard negatives may repeat each other. Texts that differ in letter case and white space
    only are equal.

    The order of an epoch is random and depends on the seed and the epoch. A row goes into the first batch
    that has room and takes it; one that no batch takes, as when its positive is in more rows than there are
    batches, waits for another epoch.

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
    """Make the sampler from a data set, as sentence-transformers' trainer calls it (`batch_sampler=`).

    The columns are the anchor, the positive and any hard negatives. The other arguments are not used.
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
