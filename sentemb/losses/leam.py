"""LEAM's objective: the classifier is also trained to classify the label vectors."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.losses.gather import mean_weight
from sentemb.losses.labelled import ClassificationLoss


class LeamLoss(ClassificationLoss):
    """Cross-entropy on texts and, with the same classifier, on label vectors (Wang et al., 2018).

    With f the classifier, z_i the label-aware mean of text i of class y_i and L_p the label vectors::

        loss = CE(f(z_i), y_i) + label_weight * CE(f(L_p), p)

    The first term is a mean over the texts of the batch, the second over all labels.

    Inputs:
        sentence; labels: class.

    Args:
        model: The encoder to train.
        head: `LeamHead`; the loss owns its weights.
        label_weight: Factor of the second term; 1 in the authors' code. Zhang et al. (2022), who run LEAM on
            BERT, do not report theirs.

    Raises:
        InputError: The weight is out of range, or the head does not have a classifier for label vectors.

    Example:
        >>> encoder = load("bert-base-uncased", pooling="cls")
        >>> loss = LeamLoss(encoder, LeamHead(encoder.get_embedding_dimension(), classes=14))
        >>> trainer = SentembTrainer(encoder, train_dataset=labelled_sentences, loss=loss)

    Reference:
        Wang et al.: Joint Embedding of Words and Labels for Text Classification. ACL 2018.
        https://aclanthology.org/P18-1216
    """

    references: ClassVar[tuple[str, ...]] = ("wang-etal-2018-joint-embedding",)

    def __init__(self, model: nn.Module, head: nn.Module, *, label_weight: float = 1.0) -> None:
        super().__init__(model, head)
        self.label_weight = self.check_number("label_weight", label_weight, low=0, inclusive=True)
        if not hasattr(head, "label_logits"):
            raise InputError(
                f"LeamLoss also classifies label vectors, which {type(head).__name__} does not support",
                "use a LeamHead",
            )

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Compute `ce` and `label_ce` from the head's logits of the texts, `(b, classes)`."""
        (logits,) = embeddings
        label_logits = self.head.label_logits()  # (classes, classes)
        own = torch.arange(len(label_logits), device=label_logits.device)  # (classes,)
        return {
            "ce": mean_weight(logits) * self.cross_entropy(logits, labels).mean(),
            "label_ce": self.label_weight * self.cross_entropy(label_logits, own).mean(),
        }
