"""Every hidden state of an encoder, pooled in several ways, as one long vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sentemb._compat import Module, Pooling
from sentemb.errors import InputError


class LayerPooling(Module):
    """Concatenation of several poolings of every layer, so that one forward pass computes all of them."""

    config_keys = ["embedding_dimension", "num_hidden_layers", "poolings"]  # noqa: RUF012

    def __init__(self, embedding_dimension: int, num_hidden_layers: int, poolings: Sequence[str]) -> None:
        super().__init__()
        unknown = [pooling for pooling in poolings if pooling not in Pooling.POOLING_MODES]
        if unknown or not poolings:
            raise InputError(
                f"unknown pooling {unknown[0]!r} of a layer" if unknown else "pooling_mode is empty",
                f"choose among {', '.join(Pooling.POOLING_MODES)}",
            )
        self.embedding_dimension = embedding_dimension
        self.num_hidden_layers = num_hidden_layers
        self.poolings = list(poolings)
        self._pooling = Pooling(embedding_dimension, tuple(poolings))

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Pool every layer."""
        states = features.get("all_layer_embeddings")
        if states is None or len(states) != self.num_hidden_layers + 1:
            raise InputError(
                f"pooling of all layers needs the transformer's {self.num_hidden_layers + 1} hidden states",
                "set output_hidden_states in its configuration",
            )
        mask = features["attention_mask"]
        features["sentence_embedding"] = torch.cat(
            [
                self._pooling({"token_embeddings": layer, "attention_mask": mask})["sentence_embedding"]
                for layer in states
            ],
            dim=1,
        )
        return features

    def get_embedding_dimension(self) -> int:
        """Return the length of the vector of all layers and poolings."""
        return (self.num_hidden_layers + 1) * len(self.poolings) * self.embedding_dimension

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Write the configuration; there are no weights."""
        self.save_config(output_path)
