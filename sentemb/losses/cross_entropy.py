"""Cross-entropy fine-tuning, and its variant on dropout views."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sentemb.losses.classification import cross_entropy, head_on_device, text_column
from sentemb.losses.dropout_views import check_dropouts, encode_views
from sentemb.losses.owned import OwnedWeights

_NAME = "CrossEntropyLoss"


class CrossEntropyLoss(OwnedWeights):
    """Mean cross-entropy of a classification head, as in BERT's fine-tuning (Devlin et al., 2019).

    With p_i the softmax of the head's logits for row i and y_i its class::

        loss = - 1 / b * sum_i log p_i[y_i]

    With `dropouts` every row is encoded once per probability, as `SupCLSeqLoss` does, and the mean is over
    all views: the dropout-augmented baseline of SupCL-Seq (Table 2). A row is one text to the encoder, be it
    a sentence or a pair joined by the separator.

    Inputs:
        +----------+--------+
        | Texts    | Labels |
        +==========+========+
        | sentence | class  |
        +----------+--------+

    Args:
        model: The encoder to train.
        head: From what the encoder returns to logits, such as `LinearHead`; the loss owns its weights.
        dropouts: One probability per view; None encodes each row once, under the encoder's own dropout.

    Raises:
        InputError: An option is out of range.

    Example:
        >>> encoder = build_encoder("bert-base-uncased", pooling="cls-mlp")
        >>> loss = CrossEntropyLoss(encoder, LinearHead(encoder.get_embedding_dimension(), classes=2))
        >>> trainer = SentembTrainer(encoder, train_dataset=labelled_sentences, loss=loss)

    Reference:
        Devlin et al.: BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding. NAACL
        2019. https://aclanthology.org/N19-1423
    """

    owned_modules: ClassVar[tuple[str, ...]] = ("head",)

    def __init__(
        self, model: nn.Module, head: nn.Module, *, dropouts: tuple[float, ...] | None = None
    ) -> None:
        super().__init__()
        self.model = model
        self.head = head_on_device(head, model, loss=_NAME)
        self.dropouts = None if dropouts is None else check_dropouts(model, dropouts, loss=_NAME)

    def forward(self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None) -> Tensor:
        """Loss of a batch.

        Args:
            sentence_features: One dict of tokenized texts.
            labels: Class numbers from 0, `(b,)`.

        Returns:
            A scalar.

        Raises:
            InputError: More than one text column, or labels that are no classes of the head.
        """
        features = text_column(sentence_features, loss=_NAME)
        outputs = encode_views(self.model, features, self.dropouts or (None,))
        return self.compute_loss_from_embeddings([self.head(output) for output in outputs], labels)

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor | None = None) -> Tensor:
        """Loss of logits, which a head may make of more than sentence vectors.

        Args:
            embeddings: Logits of each view, `(b, classes)`.
            labels: Class numbers from 0, `(b,)`.

        Returns:
            A scalar.
        """
        return torch.cat([cross_entropy(logits, labels, loss=_NAME) for logits in embeddings]).mean()

    def get_config_dict(self) -> dict[str, Any]:
        """Options for the model card."""
        return {"head": type(self.head).__name__, "dropouts": self.dropouts}

    @property
    def citation(self) -> str:
        """BibTeX of the paper."""
        return """
@inproceedings{devlin-etal-2019-bert,
    title = "{BERT}: Pre-training of Deep Bidirectional Transformers for Language Understanding",
    author = "Devlin, Jacob and Chang, Ming-Wei and Lee, Kenton and Toutanova, Kristina",
    booktitle = "Proceedings of the 2019 Conference of the North {A}merican Chapter of the Association for
      Computational Linguistics: Human Language Technologies, Volume 1 (Long and Short Papers)",
    year = "2019",
    publisher = "Association for Computational Linguistics",
    url = "https://aclanthology.org/N19-1423",
    pages = "4171--4186",
}
"""
