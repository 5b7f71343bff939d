"""Attention by label vectors: LaCon's fusion block, and LEAM, from which it is adopted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sentemb._vectors import cosine_similarity, full_precision
from sentemb.errors import InputError
from sentemb.modules.heads import ClassificationHead, check_count, check_flag, check_probability, linear_layer
from sentemb.modules.labels import LabelHead, label_table, token_states


class LabelAttention(nn.Module):
    """Mean of the tokens of a text, each weighted by how similar its context is to any label.

    With E_t the hidden state of token t, including `[CLS]` and `[SEP]`, and L_p the label vectors::

        G_tp = cos(E_t, L_p)
        m_t  = max over p of ReLU(convolution of G over positions)
        z    = sum_t softmax(m)_t E_t

    The convolution has C input and C output channels and a window of `window` tokens, an odd number. Padding
    is zero in the convolution and has weight 0 in the mean.
    """

    def __init__(self, classes: int, *, window: int, relu: bool = True) -> None:
        super().__init__()
        check_count("window", window)
        if window % 2 == 0:
            raise InputError(
                f"window of a classification head is {window}",
                "use an odd number, so that the window has a center",
            )
        check_flag("relu", relu)
        self.relu = relu
        self.convolution = nn.Conv1d(classes, classes, window, padding=window // 2)
        # The initialiser of the framework that LEAM's code is written in.
        nn.init.xavier_uniform_(self.convolution.weight)
        nn.init.zeros_(self.convolution.bias)  # type: ignore[arg-type]

    def forward(self, states: Tensor, attended: Tensor, label_vectors: Tensor) -> Tensor:
        """Pool the tokens of each text, `(b, d)`."""
        similarity = cosine_similarity(states, label_vectors).mT  # (b, classes, t)
        scores = self.convolution(similarity.to(self.convolution.weight.dtype))  # (b, classes, t)
        strongest = full_precision(scores.relu() if self.relu else scores).amax(1)  # (b, t)
        weights = masked_softmax(strongest, attended).to(states.dtype)  # (b, t)
        return (weights.unsqueeze(1) @ states).squeeze(1)  # (b, d)


class FusionHead(LabelHead):
    """LaCon-fusion: `LabelHead` on a label-aware mean of the tokens instead of the sentence vector (Eq. 9).

    With z what `LabelAttention` makes of the hidden states and the label vectors::

        H_x = g(z),   logit_p = cos(H_x, L_p) / temperature

    Args:
        width: Width d of the hidden states, of all layers of g and of the label vectors.
        classes: Number C of classes.
        layers: See `LabelHead`, as for `last_relu` and `temperature`.
        last_relu: Whether a ReLU follows the last linear layer of g.
        temperature: tau.
        window: Tokens that the convolution sees; the paper does not say how many.
        relu: Whether a ReLU follows the convolution, as in LEAM; Eq. 9 shows none.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> head = FusionHead(encoder.get_embedding_dimension(), classes=2)
        >>> loss = LaConLoss(encoder, head)
    """

    kind: ClassVar[str] = "label-fusion"

    def __init__(
        self,
        width: int,
        classes: int,
        *,
        layers: int = 3,
        last_relu: bool = False,
        temperature: float = 0.1,
        window: int = 5,
        relu: bool = True,
    ) -> None:
        super().__init__(width, classes, layers=layers, last_relu=last_relu, temperature=temperature)
        self.window = window
        self.relu = relu
        self.attention = LabelAttention(classes, window=window, relu=relu)

    def embed(self, features: Mapping[str, Any]) -> Tensor:
        """Compute H from the label-aware means, `(b, d)`."""
        states, attended = token_states(features, width=self.width)
        return self.project(self.attention(states, attended, self.label_vectors))


class LeamHead(ClassificationHead):
    """LEAM on an encoder's hidden states (Wang et al., 2018): `LabelAttention` and a classifier.

    The classifier is a hidden layer with ReLU, with dropout before both of its linear layers. `LeamLoss` also
    trains it to classify the label vectors.

    Args:
        width: Width d of the hidden states and label vectors.
        classes: Number of classes.
        window: Window of the convolution in tokens; 5. The authors' code uses 55 for texts of 300 words.
        hidden: Width of the classifier's hidden layer, 300 in the paper.
        dropout: Probability, 0.5 in the paper.

    Attributes:
        label_vectors: `(classes, width)`, drawn from N(0, 0.02). The paper starts from word vectors of the
            labels' names, but these do not lie in the space of the hidden states.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> head = LeamHead(encoder.get_embedding_dimension(), classes=14)
        >>> loss = LeamLoss(encoder, head)

    Reference:
        Wang et al.: Joint Embedding of Words and Labels for Text Classification. ACL 2018.
        https://aclanthology.org/P18-1216
    """

    kind: ClassVar[str] = "leam"

    def __init__(
        self, width: int, classes: int, *, window: int = 5, hidden: int = 300, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.label_vectors = label_table(classes, width)
        check_count("hidden", hidden)
        check_probability("dropout", dropout)
        self.width = width
        self.classes = classes
        self.window = window
        self.hidden = hidden
        self.dropout = dropout
        self.attention = LabelAttention(classes, window=window)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout),
            linear_layer(width, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            linear_layer(hidden, classes),
        )

    def forward(self, features: Mapping[str, Any]) -> Tensor:
        """Compute the logits of a batch, `(b, classes)`."""
        states, attended = token_states(features, width=self.width)
        pooled = self.attention(states, attended, self.label_vectors)  # (b, d)
        logits: Tensor = self.classifier(pooled.to(self.label_vectors.dtype))  # (b, classes)
        return logits

    def label_logits(self) -> Tensor:
        """Compute the classifier's logits of the label vectors, `(classes, classes)`."""
        logits: Tensor = self.classifier(self.label_vectors)  # (classes, classes)
        return logits


def masked_softmax(scores: Tensor, attended: Tensor) -> Tensor:
    """Apply softmax over the last dimension, ignoring padding."""
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~attended, lowest).softmax(-1).masked_fill(~attended, 0)
