"""What one training row is, and in which order rows are visited."""

from __future__ import annotations

from collections.abc import Sized
from typing import Protocol, TypedDict

import numpy as np
from torch.utils.data import Dataset

from sentemb.errors import InputError
from sentemb.pretraining.store import TokenStore

_POOL = 64  # batches that are sorted by length together: padding of a few percent, order still random
SHORTEST_ROW = 8


class Row(TypedDict):
    """One row before masking."""

    tokens: np.ndarray  # ids, int32 (length,)
    word_starts: np.ndarray  # whether a token begins a word, bool (length,)
    visit: int  # position in the whole run; it seeds the row's mask


class Rows(Sized, Protocol):
    """Rows of at most a given length, by number."""

    lengths: np.ndarray | None  # tokens per row, (rows,); None when all rows but the last are equally long

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]: ...


class PackedRows:
    """The stream of documents cut into full blocks of `length` tokens; only the last one may be shorter."""

    lengths: np.ndarray | None = None

    def __init__(self, store: TokenStore, length: int) -> None:
        self._store = store
        self._length = _checked(length)

    def __len__(self) -> int:
        # The last token is [SEP]: alone in a block it leaves nothing to hide.
        return -(-(len(self._store.tokens) - 1) // self._length)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        block = slice(index * self._length, (index + 1) * self._length)
        return self._store.tokens[block], self._store.word_starts[block]


class DocumentRows:
    """One row a document; a longer one becomes several rows, each with its own [CLS] and [SEP]."""

    lengths: np.ndarray | None

    def __init__(self, store: TokenStore, length: int) -> None:
        self._store = store
        inner = _checked(length) - 2
        starts, ends = store.documents[:-1] + 1, store.documents[1:] - 1  # without the special tokens
        pieces = -(-(ends - starts) // inner)
        first = np.repeat(np.cumsum(pieces) - pieces, pieces)
        number = np.arange(pieces.sum()) - first  # of a piece in its document
        self._starts = np.repeat(starts, pieces) + number * inner
        self._ends = np.minimum(self._starts + inner, np.repeat(ends, pieces))
        self.lengths = self._ends - self._starts + 2

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        piece = slice(self._starts[index], self._ends[index])
        opening, closing = self._store.tokens[0], self._store.tokens[-1]
        tokens = np.concatenate([[opening], self._store.tokens[piece], [closing]])
        word_starts = np.concatenate([[True], self._store.word_starts[piece], [True]])
        return tokens.astype(np.int32), word_starts


class Visits(Dataset[Row]):
    """Rows in the order of a whole run: epoch after epoch, each in a new order, bucketed by length.

    A visit's row depends on the seed and the visit's number alone. A resumed run that starts at visit n
    therefore sees what the uninterrupted run would have seen, and needs no state of a random generator.

    Args:
        rows: The rows.
        count: Visits in the run; the length of this data set.
        batch_size: Rows that are used together; rows of similar length meet where lengths differ.
        seed: Of the order; None keeps the rows' own order, for validation.
    """

    def __init__(self, rows: Rows, count: int, *, batch_size: int, seed: int | None) -> None:
        self._rows = rows
        self._count = count
        self._batch_size = batch_size
        self._seed = seed
        self._epoch = -1
        self._order = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, visit: int) -> Row:
        if not 0 <= visit < self._count:
            raise IndexError(visit)
        epoch, place = divmod(visit, len(self._rows))
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._ordered(epoch)
        tokens, word_starts = self._rows[int(self._order[place])]
        return Row(tokens=tokens, word_starts=word_starts, visit=visit)

    def _ordered(self, epoch: int) -> np.ndarray:
        if self._seed is None:
            return np.arange(len(self._rows))
        generator = np.random.default_rng((self._seed, epoch))
        order = generator.permutation(len(self._rows))
        if self._rows.lengths is None:
            return order
        # Batches are cut at multiples of the batch size over the whole run, so the first rows of an epoch may
        # fill up the last batch of the one before.
        first = -epoch * len(order) % self._batch_size
        head, body = order[:first], order[first:]
        whole = len(body) - len(body) % self._batch_size
        pools = np.split(body[:whole], np.arange(0, whole, _POOL * self._batch_size)[1:])
        ordered = [pool[np.argsort(self._rows.lengths[pool], kind="stable")] for pool in pools]
        batches = np.concatenate(ordered).reshape(-1, self._batch_size)
        return np.concatenate([head, generator.permutation(batches).ravel(), body[whole:]])


def _checked(length: int) -> int:
    if length < SHORTEST_ROW:
        raise InputError(f"length {length} is too short for a row", f"use {SHORTEST_ROW} or more")
    return length
