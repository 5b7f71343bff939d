"""SNCSE: a negated sentence is similar to the sentence, but less than its own second view."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from torch import Tensor, nn

from sentemb._vectors import pair_cosines
from sentemb.errors import InputError
from sentemb.losses.base import check_number
from sentemb.losses.functional import info_nce
from sentemb.losses.simcse import Head, SimCSELoss
from sentemb.losses.views import View


class SNCSELoss(SimCSELoss):
    """SimCSE with negated sentences as soft negatives (Wang et al., 2022).

    With z and z' two dropout views of a sentence after the head, z3 its negation, s the cosine, and
    D_i = s(z_i, z3_i) - s(z_i, z'_i)::

        margin_i = relu(D_i + smallest) + relu(-D_i - largest)
        loss     = mean_i [ InfoNCE(z, z')_i + weight * margin_i ]

    so the negation stays between `smallest` and `largest` less similar than the second view. It is not in the
    denominator. `sentemb.augmentation.negate` writes the negation of an English sentence. The paper reads
    [MASK] in a template; the loss takes any pooling.

    Inputs:
        sentence, negated sentence; labels: none.

    Args:
        model: The encoder to train.
        temperature: Divides the cosine of InfoNCE; 0.05.
        weight: 0.001 for BERT, 0.0005 for RoBERTa in the paper.
        smallest: The least difference without a penalty, 0.1.
        largest: The greatest difference without a penalty, 0.3.
        head: The head of `SimCSELoss`.
        gather_across_devices: Take in-batch negatives from all processes.

    Returns of a step:
        `contrast` and the weighted `margin`.

    Raises:
        InputError: An option is out of range, or the batch does not have two text columns.

    Example:
        >>> rows = Dataset.from_dict({"sentence": texts, "negation": [negate(text) for text in texts]})
        >>> trainer = SentembTrainer(model=encoder, train_dataset=rows, loss=SNCSELoss(encoder))

    Reference:
        Wang et al.: SNCSE: Contrastive Learning for Unsupervised Sentence Embedding with Soft Negative
        Samples. 2022. https://arxiv.org/abs/2201.05979
    """

    references: ClassVar[tuple[str, ...]] = ("wang-etal-2022-sncse", "gao-etal-2021-simcse")

    def __init__(
        self,
        model: nn.Module,
        *,
        temperature: float = 0.05,
        weight: float = 1e-3,
        smallest: float = 0.1,
        largest: float = 0.3,
        head: Head | None = "auto",
        gather_across_devices: bool = True,
    ) -> None:
        super().__init__(
            model, temperature=temperature, head=head, gather_across_devices=gather_across_devices
        )
        self.weight = check_number(self, "weight", weight, low=0, inclusive=True)
        self.smallest = check_number(self, "smallest", smallest, low=0, inclusive=True)
        self.largest = check_number(self, "largest", largest, low=smallest, inclusive=True)

    def views_of(self, sentence_features: Iterable[dict[str, Any]]) -> list[View]:
        """Return two views of the sentence and one of its negation."""
        columns = list(sentence_features)
        if len(columns) != 2:
            raise InputError(
                f"{type(self).__name__} compares a sentence with its negation, but this batch has "
                f"{len(columns)} text columns",
                "write the negations with sentemb.augmentation.negate",
            )
        sentence, negation = columns
        return [View(sentence), View(sentence), View(negation)]

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Compute the weighted terms of sentences, their second views and negations, each `(b, d)`."""
        rows, anchors, weight = self.compared(embeddings)
        first, second, _ = rows.unbind(1)  # each (n, d)
        contrast = info_nce(first, second, temperature=self.temperature, anchors=anchors)
        sentence, view, negation = rows[anchors].unbind(1)  # each (a, d)
        difference = pair_cosines(sentence, negation) - pair_cosines(sentence, view)
        margin = (difference + self.smallest).relu() + (-difference - self.largest).relu()
        return {"contrast": weight * contrast.mean(), "margin": weight * self.weight * margin.mean()}
