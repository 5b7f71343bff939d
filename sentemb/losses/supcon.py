"""Supervised contrastive learning on labels, views, or both."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.losses.base import EncoderLoss
from sentemb.losses.functional import positives_per_anchor, supervised_contrastive
from sentemb.losses.labelled import PositivesCheck, Reduction

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
        anchors: `all` vectors of the batch, or `one`: the first view of each row, an option of the released
            code.
        reduction: `mean` over the anchors that have a positive, or their `sum` as Eq. 2 is printed.
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
        anchors: Literal["all", "one"] = "all",
        reduction: Reduction = "mean",
        gather_across_devices: bool = True,
        preset: Literal["released"] | None = None,
    ) -> None:
        super().__init__(model)
        self.temperature = self.check_number("temperature", temperature, low=0)
        self.anchors = self.check_choice("anchors", anchors, ("all", "one"))
        self.reduction = self.check_choice("reduction", reduction, get_args(Reduction))
        self.gather_across_devices = gather_across_devices
        self.preset = self.check_choice("preset", preset, ("released", None))
        self._check_positives = PositivesCheck()

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor | None = None) -> Tensor:
        """Compute the loss of a tensor `(b, d)` per view; a single view needs labels."""
        vectors, anchors, weight = self.gather(torch.stack(embeddings, dim=1))  # (n, l, d)
        classes = self._classes(labels, embeddings, vectors)  # (n,)
        losses = supervised_contrastive(
            vectors,
            classes,
            temperature=self.temperature,
            first_view_only=self.anchors == "one",
            anchors=anchors,
        )  # (a, l)
        has_positive = positives_per_anchor(classes, views=len(embeddings)) > 0  # (n,)
        self._check_positives(losses, has_positive)
        mean = weight * losses.mean()  # over the anchors of all processes, once DDP has averaged
        if self.preset == "released":
            mean = mean * self.temperature / _BASE_TEMPERATURE
        elif self.reduction == "mean":
            mean = mean * len(vectors) / has_positive.sum().clamp_min(1)
        return mean * len(vectors) * losses.shape[1] if self.reduction == "sum" else mean

    def _classes(self, labels: Tensor | None, embeddings: list[Tensor], vectors: Tensor) -> Tensor:
        """Return the classes of the rows of all processes, `(n,)`."""
        if labels is None:
            if len(embeddings) < 2:
                raise InputError(
                    f"{type(self).__name__} needs labels or a second view of each text",
                    "add a column called label, or a second text column",
                )
            return torch.arange(len(vectors), device=vectors.device)
        own = self.row_labels(labels, rows=len(embeddings[0])).to(vectors.device)
        return self.gather(own).rows
