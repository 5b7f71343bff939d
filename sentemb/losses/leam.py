"""LEAM's objective: label vectors that the classifier must tell apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.losses._options import check_number
from sentemb.losses.classification import cross_entropy, head_on_device, text_column
from sentemb.losses.owned import OwnedWeights

_NAME = "LeamLoss"


class LeamLoss(OwnedWeights):
    """Cross-entropy on texts and, with the same classifier, on label vectors (Wang et al., 2018).

    With f the classifier, z_i the label-aware mean of text i of class y_i and L_p the label vectors::

        loss = CE(f(z_i), y_i) + label_weight * CE(f(L_p), p)

    each a mean, over the texts of the batch and over all labels.

    Inputs:
        +----------+--------+
        | Texts    | Labels |
        +==========+========+
        | sentence | class  |
        +----------+--------+

    Args:
        model: The encoder to train.
        head: `LeamHead`; the loss owns its weights.
        label_weight: Factor of the second term; 1 in the authors' code. Zhang et al. (2022), who run LEAM on
            BERT, do not say whether they keep it.

    Raises:
        InputError: The weight is out of range, or the head has no classifier for label vectors.

    Example:
        >>> encoder = build_encoder("bert-base-uncased", pooling="cls")
        >>> loss = LeamLoss(encoder, LeamHead(encoder.get_embedding_dimension(), classes=14))
        >>> trainer = SentembTrainer(encoder, train_dataset=labelled_sentences, loss=loss)

    Reference:
        Wang et al.: Joint Embedding of Words and Labels for Text Classification. ACL 2018.
        https://aclanthology.org/P18-1216
    """

    owned_modules: ClassVar[tuple[str, ...]] = ("head",)

    def __init__(self, model: nn.Module, head: nn.Module, *, label_weight: float = 1.0) -> None:
        super().__init__()
        check_number(_NAME, "label_weight", label_weight, low=0, inclusive=True)
        self.model = model
        self.head: Any = head_on_device(head, model, loss=_NAME)
        if not hasattr(head, "label_logits"):
            raise InputError(
                f"{_NAME} classifies label vectors too, {type(head).__name__} cannot", "give a LeamHead"
            )
        self.label_weight = label_weight

    def forward(
        self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Loss of a batch.

        Args:
            sentence_features: One dict of tokenized texts.
            labels: Class numbers from 0, `(b,)`.

        Returns:
            The weighted components `ce` and `label_ce`.

        Raises:
            InputError: More than one text column, or labels that are no classes of the head.
        """
        output = self.model(text_column(sentence_features, loss=_NAME))
        return self.compute_loss_from_embeddings([self.head(output), self.head.label_logits()], labels)

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Loss of logits.

        Args:
            embeddings: Those of the texts, `(b, classes)`, and of the label vectors, `(classes, classes)`.
            labels: Class numbers from 0, `(b,)`.

        Returns:
            The weighted components.
        """
        logits, label_logits = embeddings
        own = torch.arange(len(label_logits), device=label_logits.device)  # (classes,)
        return {
            "ce": cross_entropy(logits, labels, loss=_NAME).mean(),
            "label_ce": self.label_weight * cross_entropy(label_logits, own, loss=_NAME).mean(),
        }

    def get_config_dict(self) -> dict[str, Any]:
        """Options for the model card."""
        return {"head": type(self.head).__name__, "label_weight": self.label_weight}

    @property
    def citation(self) -> str:
        """BibTeX of the paper."""
        return """
@inproceedings{wang-etal-2018-joint-embedding,
    title = "Joint Embedding of Words and Labels for Text Classification",
    author = "Wang, Guoyin and Li, Chunyuan and Wang, Wenlin and Zhang, Yizhe and Shen, Dinghan and Zhang,
      Xinyuan and Henao, Ricardo and Carin, Lawrence",
    booktitle = "Proceedings of the 56th Annual Meeting of the Association for Computational Linguistics
      (Volume 1: Long Papers)",
    year = "2018",
    publisher = "Association for Computational Linguistics",
    url = "https://aclanthology.org/P18-1216",
    pages = "2321--2331",
}
"""
