"""Supervised contrastive learning on labels, views, or both."""

from __future__ import annotations

import logging
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.losses.base import EncoderLoss, check_choice, check_number
from sentemb.losses.functional import supervised_contrastive

logger = logging.getLogger(__name__)

_BASE_TEMPERATURE = 0.07  # of the released code, which scales the loss by temperature / 0.07


class SupConLoss(EncoderLoss):
    """Supervised contrastive loss (Khosla et al., 2020, Eq. 2).

    For an anchor x, a vector of the batch, P(x) are the other vectors of its class and phi(x, y) =
    exp(cos(x, y) / temperature)::

        loss(x) = - 1 / |P(x)| * sum_{y in P(x)} log( phi(x, y) / sum_{z != x} phi(x, z) )

    averaged over the anchors. Every text column is a view of its row, and views of a row share its class;
    without labels each row is its own class. An anchor without a positive, which occurs only with a single
    view, is excluded from the mean; a batch without positives has loss 0. Rows with the same text and
    different labels are negatives of each other.

    Inputs:
        sentence; labels: class. Or view 1, view 2, ..., l; labels: class or none.

    Args:
        model: The encoder to train.
        temperature: Divides the cosine; 0.07 in the released code.
        gather_across_devices: Compare with the rows of all processes. The mean is then over the anchors of
            all processes.
        preset: `released` follows the authors' code where it differs from the paper: anchors
            without a positive count as 0 in the mean, and the loss is multiplied by temperature / 0.07.

    Raises:
        InputError: An option is out of range.

    Example:
        >>> arguments = SentenceTransformerTrainingArguments("out", batch_sampler="group_by_label")
        >>> loss = SupConLoss(encoder, temperature=0.1)
        >>> trainer = SentembTrainer(encoder, arguments, train_dataset=labelled_sentences, loss=loss)

    Reference:
        Khosla et al.: Supervised Contrastive Learning. NeurIPS 2020. https://arxiv.org/abs/2004.11362
    """

    references: ClassVar[tuple[str, ...]] = ("khosla-etal-2020-supervised",)

    def __init__(
        self,
        model: nn.Module,
        *,
        temperature: float = 0.07,
        gather_across_devices: bool = True,
        preset: Literal["released"] | None = None,
    ) -> None:
        super().__init__(model)
        self.temperature = check_number(self, "temperature", temperature, low=0)
        self.gather_across_devices = gather_across_devices
        self.preset = check_choice(self, "preset", preset, ("released", None))

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor | None = None) -> Tensor:
        """Compute the loss of a tensor `(b, d)` per view; a single view needs labels."""
        vectors, anchors, weight = self.gather(torch.stack(embeddings, dim=1))  # (n, l, d)
        if labels is not None:
            own = self.row_labels(labels, rows=len(embeddings[0])).to(vectors.device)
            classes = self.gather(own).rows  # (n,)
        elif len(embeddings) > 1:
            classes = torch.arange(len(vectors), device=vectors.device)  # (n,)
        else:
            raise InputError(
                f"{type(self).__name__} needs labels or a second view of each text",
                "add a column called label, or a second text column",
            )
        losses, has_positive = supervised_contrastive(
            vectors, classes, temperature=self.temperature, anchors=anchors
        )  # (a, l), (n,)
        warn_of_few_positives(self, losses, has_positive)
        mean = weight * losses.mean()  # over the anchors of all processes, once DDP has averaged
        if self.preset == "released":
            return mean * self.temperature / _BASE_TEMPERATURE
        return mean * len(vectors) / has_positive.sum().clamp_min(1)


def warn_of_few_positives(loss: EncoderLoss, losses: Tensor, has_positive: Tensor) -> None:
    """Log a warning in the first training step if most rows do not have a positive."""
    if loss.is_first_step(losses) and (share := has_positive.float().mean().item()) < 0.5:
        logger.warning(
            "only %.0f %% of the anchors of the first batch have a positive, and the contrastive "
            "loss ignores the others. Increase the batch size, or set batch_sampler to "
            "'group_by_label'.",
            100 * share,
        )
