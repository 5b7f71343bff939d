"""Cross-entropy fine-tuning, and its variant on dropout views."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sentemb.losses.gather import mean_weight
from sentemb.losses.labelled import ClassificationLoss
from sentemb.losses.views import View, check_dropouts


class CrossEntropyLoss(ClassificationLoss):
    """Mean cross-entropy of a classification head, as in BERT's fine-tuning (Devlin et al., 2019).

    With p_i the softmax of the head's logits for row i and y_i its class::

        loss = - 1 / b * sum_i log p_i[y_i]

    With `dropouts` every row is encoded once per probability, as `SupCLSeqLoss` does, and the mean is over
    all views: the dropout-augmented baseline of SupCL-Seq (Table 2). The encoder reads a row as one text,
    either a sentence or a pair joined by the separator.

    Inputs:
        sentence; labels: class.

    Args:
        model: The encoder to train.
        head: Maps the encoder's output to logits, such as `LinearHead`. The loss owns its weights.
        dropouts: One probability per view; None encodes each row once, under the encoder's own dropout.

    Raises:
        InputError: An option is out of range.

    Example:
        >>> encoder = load("bert-base-uncased", pooling="cls-mlp")
        >>> loss = CrossEntropyLoss(encoder, LinearHead(encoder.get_embedding_dimension(), classes=2))
        >>> trainer = SentembTrainer(encoder, train_dataset=labelled_sentences, loss=loss)

    Reference:
        Devlin et al.: BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding. NAACL
        2019. https://aclanthology.org/N19-1423
    """

    references: ClassVar[tuple[str, ...]] = ("devlin-etal-2019-bert",)

    def __init__(
        self, model: nn.Module, head: nn.Module, *, dropouts: tuple[float, ...] | None = None
    ) -> None:
        super().__init__(model, head)
        self.dropouts = None if dropouts is None else check_dropouts(self, dropouts)

    def views_of(self, sentence_features: Iterable[dict[str, Any]]) -> list[View]:
        """Return a view of the only text column for each probability of `dropouts`."""
        column = self.one_column(sentence_features)
        return [View(column, probability) for probability in self.dropouts or (None,)]

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor | None = None) -> Tensor:
        """Compute the mean loss of the logits of all views, each `(b, classes)`."""
        entropies = torch.cat([self.cross_entropy(logits, labels) for logits in embeddings])
        return mean_weight(entropies) * entropies.mean()
