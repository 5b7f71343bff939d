"""Texts as the tokens they hold, and sums of token vectors over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch.nn.functional import embedding_bag

from sentemb.encoding.encoder import Vectors
from sentemb.encoding.static_tokens import StaticTokens

_TEXTS_PER_CALL = 10_000


class Bags(NamedTuple):
    """Texts as token numbers.

    Attributes:
        tokens: (tokens,), of all texts in a row.
        starts: (texts + 1,), where each text begins, and where the last one ends.
    """

    tokens: NDArray[np.int64]
    starts: NDArray[np.int64]

    def rows(self, rows: NDArray[np.intp]) -> Bags:
        """Some of the texts, in the order given."""
        lengths = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(self.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
        return Bags(self.tokens[places], starts)

    def sums(self, table: Vectors) -> Vectors:
        """The sum of each text's token vectors, (texts, dimension)."""
        with torch.inference_mode():
            sums = embedding_bag(
                torch.from_numpy(self.tokens), torch.from_numpy(table), self.offsets, mode="sum"
            )
        summed: Vectors = sums.numpy()
        return summed

    def counts(self, size: int) -> NDArray[np.int64]:
        """How often each of so many tokens occurs, (size,)."""
        return np.bincount(self.tokens, minlength=size)

    @property
    def offsets(self) -> torch.Tensor:
        """Where each text begins, as torch's embedding bags want it."""
        return torch.from_numpy(self.starts[:-1])

    def __len__(self) -> int:
        return len(self.starts) - 1


def bags_of(tokenizer: Tokenizer, texts: Sequence[str]) -> Bags:
    """Tokenise texts."""
    parts: list[NDArray[np.int64]] = []
    lengths: list[int] = []
    tokenise = StaticTokens(tokenizer)
    for first in range(0, len(texts), _TEXTS_PER_CALL):
        for tokens in tokenise(texts[first : first + _TEXTS_PER_CALL]):
            parts.append(np.array(tokens, dtype=np.int64))
            lengths.append(len(tokens))
    return Bags(np.concatenate([np.empty(0, np.int64), *parts]), np.concatenate([[0], np.cumsum(lengths)]))
