"""Rank vectors: a sentence as the ranks of its similarities with a corpus (RankEncoder)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from sentemb._vectors import centered_ranks, first_equal, full_precision, unit_vectors
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

    Example:
        >>> module = RankVectors(256, 3).fit(torch.randn(3, 256))
        >>> module.get_embedding_dimension()
        259

    Reference:
        Seonwoo et al.: Ranking-Enhanced Unsupervised Sentence Representation Learning. ACL 2023.
        https://arxiv.org/abs/2209.04333
    """

    config_keys = ["dimension", "size", "weight", "preset"]  # noqa: RUF012
    corpus: Tensor
    _first: Tensor

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
        self.register_buffer("_first", torch.zeros(size, dtype=torch.int64), persistent=False)
        self.register_load_state_dict_post_hook(_find_equal)

    def fit(self, vectors: Tensor) -> RankVectors:
        """Take the encoder's vectors of the corpus, `(n, d)`."""
        self.corpus = full_precision(vectors) if self.preset == "released" else unit_vectors(vectors)
        _find_equal(self)
        return self

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Turn `sentence_embedding`, `(b, d)`, into `(b, d + n)`."""
        vectors = unit_vectors(features["sentence_embedding"])
        scores = vectors @ self.corpus.T.to(vectors.dtype)
        ranks = centered_ranks(scores[:, self._first], ordinal=self.preset == "released")
        parts = [self.weight**0.5 * vectors, (1 - self.weight) ** 0.5 * ranks]
        features["sentence_embedding"] = torch.cat(parts, dim=1)
        return features

    def get_embedding_dimension(self) -> int:
        """Return d + n."""
        return self.dimension + self.size


def _find_equal(module: RankVectors, *_: Any) -> None:
    module._first = first_equal(module.corpus)
