"""LSAN: one text vector per label, from two kinds of attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sentemb._vectors import full_precision
from sentemb.modules.heads import ClassificationHead, check_count, check_flag, linear_layer
from sentemb.modules.label_fusion import masked_softmax
from sentemb.modules.labels import label_table, token_states


class LsanHead(ClassificationHead):
    """LSAN on an encoder's hidden states, for one label per text (Xiao et al., 2019; Zhang et al., 2022).

    With E_t the hidden states, L_p the label vectors and s the logistic function, label p sees the text as::

        self-attention    S_p = sum_t a_tp E_t,   a_.p = softmax over t of (W2 tanh(W1 E_t))_p
        label attention   A_p = sum_t (L_p . E_t) E_t
        adaptive fusion   D_p = w_p A_p + (1 - w_p) S_p,   w_p = s(u . A_p) / (s(u . A_p) + s(v . S_p))

    and the logits are a linear layer on the mean of D over the labels. The hidden states replace the authors'
    bidirectional LSTM, and softmax with `CrossEntropyLoss` replaces their sigmoids. Padding is ignored.

    Args:
        width: Width d of the hidden states and label vectors.
        classes: Number of classes.
        hidden: Width of W1's output, 200 in the authors' code.
        train_labels: Whether to train the label vectors. The authors' code does not train them.

    Attributes:
        label_vectors: `(classes, width)`, drawn from N(0, 0.02) and saved even if they are not trained.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> head = LsanHead(encoder.get_embedding_dimension(), classes=14)
        >>> loss = CrossEntropyLoss(encoder, head)

    Reference:
        Xiao et al.: Label-Specific Document Representation for Multi-Label Text Classification. EMNLP 2019.
        https://aclanthology.org/D19-1044
    """

    kind: ClassVar[str] = "lsan"

    def __init__(self, width: int, classes: int, *, hidden: int = 200, train_labels: bool = False) -> None:
        super().__init__()
        self.label_vectors = label_table(classes, width)
        check_count("hidden", hidden)
        check_flag("train_labels", train_labels)
        self.width = width
        self.classes = classes
        self.hidden = hidden
        self.train_labels = train_labels
        self.token_scores = nn.Sequential(
            linear_layer(width, hidden), nn.Tanh(), linear_layer(hidden, classes)
        )
        self.label_gate = linear_layer(width, 1)
        self.self_gate = linear_layer(width, 1)
        self.output = linear_layer(width, classes)

    def forward(self, features: Mapping[str, Any]) -> Tensor:
        """Compute the logits of a batch, `(b, classes)`."""
        states, attended = token_states(features, width=self.width)
        states = states.to(self.label_vectors.dtype)  # (b, t, d)
        scores = full_precision(self.token_scores(states)).mT  # (b, classes, t)
        weights = masked_softmax(scores, attended.unsqueeze(1)).to(states.dtype)  # (b, classes, t)
        by_itself = weights @ states  # (b, classes, d)
        # Always parameters, so that sharing a head among processes includes them.
        labels = self.label_vectors if self.train_labels else self.label_vectors.detach()  # (classes, d)
        by_label = (labels @ states.mT) @ states  # (b, classes, d)
        logits: Tensor = self.output(self._fuse(by_label, by_itself).mean(1))  # (b, classes)
        return logits

    def _fuse(self, by_label: Tensor, by_itself: Tensor) -> Tensor:
        """Combine both kinds of attention, `(b, classes, d)`."""
        label_gate = nn.functional.logsigmoid(self.label_gate(by_label))  # (b, classes, 1)
        self_gate = nn.functional.logsigmoid(self.self_gate(by_itself))  # (b, classes, 1)
        # The quotient of the docstring in a form that is not 0 / 0 when both gates are closed.
        share = torch.sigmoid(label_gate - self_gate)  # (b, classes, 1)
        return share * by_label + (1 - share) * by_itself
