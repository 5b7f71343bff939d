"""Cross-entropy combined with supervised contrastive learning."""

from __future__ import annotations

from typing import Any, ClassVar, get_args

from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.losses.functional import positives_per_anchor, supervised_contrastive
from sentemb.losses.labelled import (
    ClassificationLoss,
    PositivesCheck,
    Reduction,
    Representation,
    check_representation,
    represent,
)


class CrossEntropySupConLoss(ClassificationLoss):
    """Fine-tuning with a supervised contrastive term, SCL (Gunel et al., 2021, Eq. 1 to 3).

    With Phi(x_i) the normalised vector of row i, N_i the rows of its class, itself included, and phi(i, j) =
    exp(Phi(x_i) . Phi(x_j) / temperature)::

        loss = (1 - weight) * CE + weight * SCL
        SCL  = sum_i - 1 / (N_i - 1) * sum_{j != i, y_j = y_i} log( phi(i, j) / sum_{k != i} phi(i, k) )

    CE is the mean cross-entropy of the head over the batch. A row whose class occurs once has SCL 0 and still
    counts in the mean, so a batch without repeated classes trains by cross-entropy alone.

    Inputs:
        sentence; labels: class.

    Args:
        model: The encoder to train.
        head: Maps the encoder's output to logits, such as `LinearHead`. The loss owns its weights.
        temperature: tau; 0.3, usually the best of the grid 0.1 to 0.7 in the published version.
        weight: lambda; 0.9, usually the best of the grid 0.1 to 1 in the published version.
        representation: `cls`, the last hidden state of the first token (section 2), or `sentence`, the
            encoder's vector: what the head of a RoBERTa classifier sees before its projection, if the encoder
            pools by `cls-mlp`.
        reduction: `mean` over the rows, on the scale of CE; or `sum` as Eq. 3 is printed, where SCL grows
            with the batch. Tune the weight again if you change the reduction.
        gather_across_devices: Compare with the rows of all processes.

    Raises:
        InputError: An option is out of range.

    Example:
        >>> encoder = load("roberta-large", pooling="cls-mlp")
        >>> head = LinearHead(encoder.get_embedding_dimension(), classes=2)
        >>> loss = CrossEntropySupConLoss(encoder, head)
        >>> trainer = SentembTrainer(encoder, train_dataset=labelled_sentences, loss=loss)

    Reference:
        Gunel et al.: Supervised Contrastive Learning for Pre-trained Language Model Fine-tuning. ICLR 2021.
        https://arxiv.org/abs/2011.01403
    """

    references: ClassVar[tuple[str, ...]] = ("gunel-etal-2021-supervised",)

    def __init__(
        self,
        model: nn.Module,
        head: nn.Module,
        *,
        temperature: float = 0.3,
        weight: float = 0.9,
        representation: Representation = "cls",
        reduction: Reduction = "mean",
        gather_across_devices: bool = True,
    ) -> None:
        super().__init__(model, head)
        self.temperature = self.check_number("temperature", temperature, low=0)
        self.weight = self.check_number("weight", weight, low=0, inclusive=True)
        if weight > 1:
            raise InputError(
                f"weight of {type(self).__name__} is {weight!r}",
                "set the weight of the contrastive term to a number from 0 to 1",
            )
        self.representation: Representation = check_representation(self, representation)
        self.reduction: Reduction = self.check_choice("reduction", reduction, get_args(Reduction))
        self.gather_across_devices = gather_across_devices
        self._check_positives = PositivesCheck()

    def embeddings_of(self, output: dict[str, Any], view: int) -> list[Tensor]:
        """Return the head's logits, `(b, classes)`, and the vectors to compare, `(b, d)`."""
        return [self.head(output), represent(self, output, self.representation)]

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Compute `ce` and `supcon` from logits `(b, classes)` and the vectors `(b, d)` to compare."""
        logits, vectors = embeddings
        entropies = self.cross_entropy(logits, labels)  # (b,)
        classes = self.gather(self.row_labels(labels, rows=len(vectors))).rows  # (n,)
        rows, anchors, share = self.gather(vectors.unsqueeze(1))  # (n, 1, d)
        losses = supervised_contrastive(
            rows, classes, temperature=self.temperature, anchors=anchors
        )  # (b, 1)
        self._check_positives(losses, positives_per_anchor(classes, views=1) > 0)
        supcon = share * losses.mean()
        if self.reduction == "sum":
            supcon = len(rows) * supcon
        return {"ce": (1 - self.weight) * share * entropies.mean(), "supcon": self.weight * supcon}
