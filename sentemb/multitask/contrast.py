"""Contrastive training on the tasks' own texts and on NLI triples, through one train-only head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from sentemb.losses import ParaphraseContrastLoss, SimCSELoss
from sentemb.losses.heads import project
from sentemb.training.length_bucketing import bucketed_by_length


class Contrast(nn.Module):
    """The contrastive losses of a run; one head of two linear layers serves them all (Chen, section 4.1).

    Labelled pairs go through `ParaphraseContrastLoss`, whose head it is. Triples and dropout views go through
    `SimCSELoss` with the same head and temperature. The texts on the two sides of unlabelled pairs are views
    in batches of their own, since the partner of a text is no negative of it; the paper does not say.

    Args:
        pairs: The loss of labelled pairs on the encoder to train.
    """

    def __init__(self, pairs: ParaphraseContrastLoss) -> None:
        super().__init__()
        self.pairs = pairs
        self.views = SimCSELoss(pairs.model, temperature=pairs.temperature, head=None)

    def forward(self, columns: Sequence[Sequence[str]], labels: Tensor | None = None) -> Tensor:
        """Loss of a batch."""
        if labels is not None:
            return self.pairs.compute_loss_from_embeddings(self._embed(columns), labels)
        if len(columns) == 3:
            return self.views.compute_loss_from_embeddings(self._projected(columns))
        sides = [self.views.compute_loss_from_embeddings(self._projected([one, one])) for one in columns]
        return torch.stack(sides).mean()

    def gather(self, *, across_devices: bool) -> None:
        """Let the losses compare with the rows of all processes, or not."""
        self.pairs.gather_across_devices = self.views.gather_across_devices = across_devices

    def _embed(self, columns: Sequence[Sequence[str]]) -> list[Tensor]:
        encoder: Any = self.pairs.model
        return list(embed(encoder, [text for column in columns for text in column]).chunk(len(columns)))

    def _projected(self, columns: Sequence[Sequence[str]]) -> list[Tensor]:
        return [project(self.pairs.head, one) for one in self._embed(columns)]  # each (n, d)


def embed(encoder: SentenceTransformer, texts: Sequence[str]) -> Tensor:
    """Sentence vectors in training; of equal texts each has a dropout mask of its own."""
    features = {
        name: value.to(encoder.device) if isinstance(value, Tensor) else value
        for name, value in encoder.preprocess(list(texts)).items()
    }
    vectors: Tensor = bucketed_by_length(encoder)(features)["sentence_embedding"]  # (n, d)
    return vectors
