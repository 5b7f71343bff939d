"""LaCon's head, with one vector per class, and functions shared by heads with label vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sentemb._vectors import cosine_similarity, full_precision
from sentemb.errors import InputError
from sentemb.modules.heads import (
    INITIAL_DEVIATION,
    ClassificationHead,
    check_count,
    check_flag,
    check_temperature,
    check_width,
    linear_layer,
)


class LabelHead(ClassificationHead):
    """Head with a learned vector per class: the nearest one wins (LaCon-vanilla, Zhang et al., 2022).

    With g a projection head on the encoder's vector E(x), and L_1 to L_C the label vectors::

        H_x = g(E(x)),   logit_p = cos(H_x, L_p) / temperature

    The paper uses the last hidden state of `[CLS]` as E(x), which is `pooling="cls"` in the encoder.

    Args:
        width: Width d of the sentence vector, of all layers of g and of the label vectors.
        classes: Number C of classes.
        layers: Linear layers of g, 3 in the paper; 0 compares the encoder's vectors directly (ablation).
        last_relu: Whether a ReLU follows the last linear layer too; "ReLU for each hidden layer" (section
            2.1) implies that it does not.
        temperature: tau; 0.1, as the paper recommends 0.1 to 0.2 (section 4.4).

    Attributes:
        label_vectors: The learned label vectors, `(classes, width)`, drawn from N(0, 0.02); the paper does
            not specify a distribution. Only their direction matters.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> encoder = load("bert-base-uncased", pooling="cls")
        >>> head = LabelHead(encoder.get_embedding_dimension(), classes=2)
        >>> loss = LaConLoss(encoder, head)

    Reference:
        Zhang et al.: Label Anchored Contrastive Learning for Language Understanding. NAACL 2022.
        https://aclanthology.org/2022.naacl-main.103
    """

    kind: ClassVar[str] = "label"

    def __init__(
        self,
        width: int,
        classes: int,
        *,
        layers: int = 3,
        last_relu: bool = False,
        temperature: float = 0.1,
    ) -> None:
        super().__init__()
        self.label_vectors = label_table(classes, width)
        check_count("layers", layers, least=0)
        check_flag("last_relu", last_relu)
        check_temperature(temperature)
        self.width = width
        self.classes = classes
        self.layers = layers
        self.last_relu = last_relu
        self.temperature = temperature
        modules: list[nn.Module] = []
        for _ in range(layers):
            modules += [linear_layer(width, width), nn.ReLU()]
        self.projection = nn.Sequential(*(modules if last_relu else modules[:-1]))

    def embed(self, features: Mapping[str, Any]) -> Tensor:
        """Compute H from the sentence vectors, `(b, d)`; raise InputError if their width differs."""
        vectors: Tensor = features["sentence_embedding"]  # (b, d)
        check_width(vectors, self.width)
        return self.project(vectors)

    def project(self, vectors: Tensor) -> Tensor:
        """Apply g to vectors `(b, d)`, in the type of the head's weights, or in that of autocast."""
        projected: Tensor = self.projection(vectors.to(self.label_vectors.dtype))  # (b, d)
        return projected

    def forward(self, features: Mapping[str, Any]) -> Tensor:
        """Compute the logits of a batch, `(b, classes)`, in float32, or in float64 if the head is float64."""
        return cosine_similarity(self.embed(features), self.label_vectors) / self.temperature


def label_table(classes: int, width: int) -> nn.Parameter:
    """Draw new label vectors."""
    check_count("width", width)
    check_count("classes", classes)
    return nn.Parameter(INITIAL_DEVIATION * torch.randn(classes, width))


def token_states(features: Mapping[str, Any], *, width: int) -> tuple[Tensor, Tensor]:
    """Return the hidden states that a head attends to, and their mask."""
    states, mask = features.get("token_embeddings"), features.get("attention_mask")
    if not (isinstance(states, Tensor) and isinstance(mask, Tensor) and states.ndim == 3):
        raise InputError(
            "this classification head needs the hidden states of padded texts",
            "use a transformer encoder, and set model[0].unpad_inputs = False",
        )
    check_width(states, width)
    attended = mask.bool()
    # Values at padded positions, even infinities, must not reach a sum with weight 0.
    return full_precision(states).masked_fill(~attended.unsqueeze(2), 0), attended
