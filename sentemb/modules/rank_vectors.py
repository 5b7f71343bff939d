"""Rank vectors: a sentence as the ranks of its similarities with a corpus (RankEncoder)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from sentemb._vectors import full_precision, unit_vectors
from sentemb.errors import InputError
from sentemb.modules.files import SentembModule


class RankVectors(SentembModule):
    """Mix the cosine of two sentences with that of their rank vectors (Seonwoo et al., 2023, Eq. 7).

    The rank vector of a sentence holds the ranks of its cosines with n sentences of a corpus. The module
    returns vectors of d + n dimensions whose cosine is `weight * cos(x, y) + (1 - weight) * Spearman(x, y)`,
    with x and y the encoder's vectors and Spearman's correlation that of the rank vectors. It needs the
    corpus for every text, so it is a transform of an encoder rather than an encoder.

    Args:
        dimension: Width d of the encoder's vectors.
        size: Sentences n of the corpus.
        weight: Share of the encoder's own cosine; 0.9 in the paper.
        preset: `released` follows the authors' code: it ranks inner products with corpus vectors of any
            length, and breaks ties by their order instead of averaging their ranks.

    Reference:
        Seonwoo et al.: Ranking-Enhanced Unsupervised Sentence Representation Learning. ACL 2023.
        https://arxiv.org/abs/2209.04333
    """

    config_keys = ["dimension", "size", "weight", "preset"]  # noqa: RUF012
    corpus: Tensor

    def __init__(
        self, dimension: int, size: int, weight: float = 0.9, preset: Literal["released"] | None = None
    ) -> None:
        super().__init__()
        if size < 2 or not 0 <= weight <= 1:
            raise InputError(
                f"rank vectors over {size} sentences with the weight {weight}",
                "use at least two sentences, and a weight between 0 and 1",
            )
        self.dimension, self.size, self.weight, self.preset = dimension, size, weight, preset
        self.register_buffer("corpus", torch.zeros(size, dimension))

    def fit(self, vectors: Tensor) -> RankVectors:
        """Take the encoder's vectors of the corpus, `(n, d)`."""
        self.corpus = full_precision(vectors) if self.preset == "released" else unit_vectors(vectors)
        return self

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Turn `sentence_embedding`, `(b, d)`, into `(b, d + n)`."""
        vectors = unit_vectors(features["sentence_embedding"])
        ranks = centered_ranks(vectors @ self.corpus.T.to(vectors.dtype), ordinal=self.preset == "released")
        parts = [self.weight**0.5 * vectors, (1 - self.weight) ** 0.5 * ranks]
        features["sentence_embedding"] = torch.cat(parts, dim=1)
        return features

    def get_embedding_dimension(self) -> int:
        """Return d + n."""
        return self.dimension + self.size


def centered_ranks(values: Tensor, *, ordinal: bool = False) -> Tensor:
    """Return the centered ranks of every row, scaled to length 1, so that inner products are Spearman's.

    Equal values share the mean of their ranks, or with `ordinal` have ranks in the order of the columns.
    """
    ranks = _ordinal_ranks(values) if ordinal else average_ranks(values)
    return unit_vectors(ranks - ranks.mean(1, keepdim=True))


def average_ranks(values: Tensor) -> Tensor:
    """Return the rank of every value in its row, `(n, m)`; equal values share the mean of their ranks."""
    ordered, order = full_precision(values).sort(dim=1)
    place = torch.arange(values.shape[1], device=values.device, dtype=ordered.dtype).expand_as(ordered)
    starts = torch.ones_like(ordered, dtype=torch.bool)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    if not bool(starts.all()):
        ends = torch.ones_like(starts)
        ends[:, :-1] = starts[:, 1:]
        first = place.masked_fill(~starts, 0).cummax(1).values
        last = place.masked_fill(~ends, values.shape[1]).flip(1).cummin(1).values.flip(1)
        place = (first + last) / 2
    return torch.empty_like(ordered).scatter_(1, order, place)


def _ordinal_ranks(values: Tensor) -> Tensor:
    order = full_precision(values).argsort(dim=1, stable=True)
    place = torch.arange(values.shape[1], device=values.device, dtype=full_precision(values).dtype)
    return torch.empty_like(full_precision(values)).scatter_(1, order, place.expand_as(order))
