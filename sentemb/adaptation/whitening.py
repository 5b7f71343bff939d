"""Soft whitening for the documents: what all of them share tells none of them from another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from sentemb._compat import Dense, Normalize, StaticEmbedding
from sentemb.adaptation.held_out import RememberingSearcher, WhitenedSearcher, mean_of
from sentemb.data.own_documents import OwnDocument
from sentemb.data.retrieval import RetrievalSet
from sentemb.encoding.view import with_modules
from sentemb.evaluation.retrieval.evaluate import evaluate_retrieval
from sentemb.transforms import append_transform, fit_soft_whitening

RIDGES = (0.3, 1.0, 3.0, 10.0)
"""Tried on the dev queries; the greater, the less is whitened."""
_FITTED_ON = 1000  # documents


class Whitening(NamedTuple):
    """A candidate.

    Attributes:
        ridge: How much of it is left out; see `fit_soft_whitening`.
        layer: The map.
        score: NDCG@10, x 100, on the dev queries, the mean over their kinds.
    """

    ridge: float
    layer: Dense
    score: float

    def searcher(self, base: RememberingSearcher, *, name: str) -> WhitenedSearcher:
        """Search by whitened vectors of the base."""
        return WhitenedSearcher(base, self.layer.linear.weight.detach().cpu().numpy().T, name=name)


def whitenings(
    base: RememberingSearcher, documents: Sequence[OwnDocument], dev: Sequence[RetrievalSet], *, seed: int
) -> list[Whitening]:
    """Those that beat the base on the dev queries, the best first; ties go to the greater ridge.

    Args:
        base: The base as shipped.
        documents: The documents to fit on, of which a thousand are drawn.
        dev: The dev queries.
        seed: Of the draw.
    """
    drawn = np.random.default_rng(seed).permutation(len(documents))[:_FITTED_ON].tolist()
    vectors = base.vectors([documents[row].whole for row in drawn], "document")
    least = mean_of(evaluate_retrieval(base, dev))
    found = []
    for ridge in reversed(RIDGES):
        one = Whitening(ridge, fit_soft_whitening(vectors, ridge), 0.0)
        record = evaluate_retrieval(one.searcher(base, name=f"ridge {ridge:g}"), dev)
        found.append(one._replace(score=mean_of(record)))
    return sorted((one for one in found if one.score > least), key=lambda one: -one.score)


def whiten(model: SentenceTransformer, layer: Dense) -> SentenceTransformer:
    """Put a map without bias behind an encoder, or into the token vectors of a static one.

    A static encoder stays static. Behind another the map is frozen: training changes what is before it.

    Args:
        model: The encoder; what is returned shares its modules, but for token vectors.
        layer: The map.
    """
    first, *others = model
    if isinstance(first, StaticEmbedding) and all(isinstance(module, Normalize) for module in others):
        with torch.no_grad():
            table = layer.linear(first.embedding.weight.cpu()).numpy()
        return with_modules(model, [StaticEmbedding(first.tokenizer, embedding_weights=table), *others])
    return append_transform(model, layer.requires_grad_(False))
