"""SupCL-Seq: supervised contrastive learning on views with several dropout probabilities."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from sentemb.losses.supcon import SupConLoss
from sentemb.losses.views import View, check_dropouts, unwrap

_RELEASED_DEFAULT = 0.1  # def_drop_out of the authors' trainer


class SupCLSeqLoss(SupConLoss):
    """Contrastive loss of SupCL-Seq on dropout views (Sedghamiz et al., 2021, Eq. 2).

    Each of b sentences is encoded under every probability of `dropouts`, set in all of the encoder's
    dropouts. The b * N vectors are the anchors of a supervised contrastive loss: with phi(x, y) = exp(cos(x,
    y) / temperature) and P(x) the other vectors of x's class, the mean over all x of::

        loss(x) = - 1 / |P(x)| * sum_{y in P(x)} log( phi(x, y) / sum_{z != x} phi(x, z) )

    The paper's vector is a pooled CLS (footnote 2), dense and tanh on the first token: build the encoder with
    `pooling="cls-mlp"`. Without labels each sentence is its own class, the paper's self-supervised row (Table
    3). Graded labels are rounded to one decimal and used as classes (footnote 3). Views with the same
    probability share a forward pass; views with probability 0 are identical. The encoder's own probabilities
    are restored after every forward pass, even if it fails.

    Inputs:
        sentence; labels: class, grade or none.

    Args:
        model: The encoder to train; it needs dropout.
        dropouts: One probability per view; (0, 0.1, 0.2) for most tasks of the paper (Table 4), which tries
            two to five views (Table 1).
        temperature: Divides the cosine; 0.05 (Table 4).
        gather_across_devices: Compare with the rows of all processes.
        preset: `released` follows the authors' code where it differs from the paper: see `ReleasedDropouts`;
            grades are not rounded; the loss is multiplied by temperature / 0.07.

    Raises:
        InputError: An option is out of range, or the encoder does not have dropout.

    Example:
        >>> encoder = load("bert-base-uncased", pooling="cls-mlp", max_length=128)
        >>> loss = SupCLSeqLoss(encoder, dropouts=(0.0, 0.1, 0.2))
        >>> trainer = SentembTrainer(encoder, train_dataset=labelled_sentences, loss=loss)

    Reference:
        Sedghamiz et al.: SupCL-Seq: Supervised Contrastive Learning for Downstream Optimized Sequence
        Representations. Findings of EMNLP 2021. https://aclanthology.org/2021.findings-emnlp.289
    """

    references: ClassVar[tuple[str, ...]] = ("sedghamiz-etal-2021-supcl-seq",)
    owned_modules: ClassVar[tuple[str, ...]] = ("released",)

    def __init__(
        self,
        model: nn.Module,
        *,
        dropouts: tuple[float, ...] = (0.0, 0.1, 0.2),
        temperature: float = 0.05,
        gather_across_devices: bool = True,
        preset: Literal["released"] | None = None,
    ) -> None:
        super().__init__(
            model, temperature=temperature, gather_across_devices=gather_across_devices, preset=preset
        )
        self.dropouts = check_dropouts(self, dropouts)
        self.released = None if preset is None else ReleasedDropouts(self.dropouts)

    def views_of(self, sentence_features: Iterable[dict[str, Any]]) -> list[View]:
        """Return a view of the only text column for each probability of this step."""
        column = self.one_column(sentence_features)
        dropouts: tuple[float | None, ...] = self.dropouts
        if self.released is not None:
            dropouts = self.released(training=unwrap(self.model).training)
        return [View(column, probability) for probability in dropouts]

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor | None = None) -> Tensor:
        """Compute the loss of a tensor `(b, d)` per view and the class or grade of each row."""
        if labels is not None and labels.is_floating_point() and self.preset is None:
            labels = labels.round(decimals=1)
        return super().compute_loss_from_embeddings(embeddings, labels)


class ReleasedDropouts(nn.Module):
    """The dropout probabilities that the authors' trainer uses for a list of them.

    A view under the current dropout, in the first step the encoder's own, comes first. An entry 0.1 keeps the
    probability of the view before it. A list that ends with 0.1 leaves that probability to the next step's
    first view, so that after (0, 0.1) all views of later steps are equal; other lists leave 0.1.
    """

    def __init__(self, dropouts: tuple[float, ...]) -> None:
        super().__init__()
        self.dropouts = dropouts
        # A parameter, since checkpoints hold those of a loss: a resumed run has to know.
        self.has_trained = nn.Parameter(torch.tensor(False), requires_grad=False)

    def forward(self, *, training: bool) -> tuple[float | None, ...]:
        """Return the probabilities of a step, None being the encoder's own; `training` makes it count."""
        current: float | None = None
        if self.has_trained:
            current = _RELEASED_DEFAULT
            if self.dropouts[-1] == _RELEASED_DEFAULT:
                others = [listed for listed in self.dropouts if listed != _RELEASED_DEFAULT]
                current = others[-1] if others else None
        used = [current]
        for listed in self.dropouts:
            if listed != _RELEASED_DEFAULT:
                current = listed
            used.append(current)
        if training:
            self.has_trained.fill_(True)
        return tuple(used)
