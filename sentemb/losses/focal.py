"""Focal-InfoNCE: hard negatives weigh more and easy positives less, by the cosine itself."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from sentemb._vectors import cosine_similarity
from sentemb.losses.base import check_number
from sentemb.losses.functional import first_of
from sentemb.losses.simcse import Head, SimCSELoss


class FocalInfoNCELoss(SimCSELoss):
    """SimCSE with a similarity that weighs hard negatives more (Hou and Li, 2023).

    With z_i and z'_i two dropout views of a sentence after the head, s their cosine and m the margin::

        a_ii = s(z_i, z'_i)^2 / temperature
        a_ij = s(z_i, z'_j) * (s(z_i, z'_j) + margin) / temperature      for j != i
        loss_i = -log( exp(a_ii) / sum_j exp(a_ij) )

    averaged over the batch. The square makes a negative cosine of a positive pair a good one, which pushes it
    lower: the loss is for encoders that agree with themselves under dropout, as pretrained ones do. Hard
    negatives, if there are any, are modulated like in-batch negatives.

    Inputs:
        sentence; or anchor, positive; or anchor, positive, hard negative 1, ..., n; labels: none.

    Args:
        model: The encoder to train.
        temperature: Divides the modulated cosine; 0.05 as in SimCSE.
        margin: m, by which a negative's weight exceeds its cosine; 0.3 in the paper.
        head: The head of `SimCSELoss`.
        gather_across_devices: Take in-batch negatives from all processes.

    Raises:
        InputError: An option is out of range, or a head is set for an encoder with its own Dense layer.

    Example:
        >>> encoder = load("bert-base-uncased", pooling="cls", max_length=32)
        >>> trainer = SentembTrainer(model=encoder, train_dataset=sentences, loss=FocalInfoNCELoss(encoder))

    Reference:
        Hou and Li: Improving Contrastive Learning of Sentence Embeddings with Focal-InfoNCE. Findings of
        EMNLP 2023. https://aclanthology.org/2023.findings-emnlp.315
    """

    references: ClassVar[tuple[str, ...]] = ("hou-li-2023-improving",)

    def __init__(
        self,
        model: nn.Module,
        *,
        temperature: float = 0.05,
        margin: float = 0.3,
        head: Head | None = "auto",
        gather_across_devices: bool = True,
    ) -> None:
        super().__init__(
            model, temperature=temperature, head=head, gather_across_devices=gather_across_devices
        )
        self.margin = check_number(self, "margin", margin, low=0, inclusive=True)

    def contrast(self, first: Tensor, second: Tensor, hard_negatives: list[Tensor], anchors: slice) -> Tensor:
        """Compute the loss of every anchor, `(a,)`."""
        cosine = cosine_similarity(first[anchors], torch.cat([second, *hard_negatives]))  # (a, n + hard)
        start = first_of(anchors)
        positive = cosine.diagonal(start).square() / self.temperature  # (a,)
        logits = cosine * (cosine + self.margin) / self.temperature
        logits = logits.diagonal_scatter(positive, start)
        return torch.logsumexp(logits, dim=1) - positive
