"""Poolings from token embeddings to a sentence embedding, built from upstream's modules if possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import nn

from sentemb._compat import Dense, Module, Pooling, Transformer, WeightedLayerPooling
from sentemb.errors import InputError
from sentemb.modules.prompting import MaskPooling
from sentemb.modules.wk_pooling import WKPooling

Poolings = Literal[
    "cls",
    "cls-mlp",
    "mean",
    "max",
    "last-token",
    "last-2",
    "first-last",
    "first-last-static",
    "wk",
    "prompt",
]
"""Pooling of a sentence embedding; averages and maxima include [CLS] and [SEP] and exclude padding.

- `cls`: last layer at position 0. `cls-mlp`: the same through Dense + tanh (supervised SimCSE).
- `mean`, `max`: over the tokens of the last layer.
- `last-token`: last layer at the last token, which alone has read the whole text in a decoder.
- `last-2`: mean over the last two layers, then over tokens (BERT-flow, SimCSE's `avg_top2`).
- `first-last`: layer 1 and the last (the SimCSE code as it is today).
- `first-last-static`: embedding output and the last (the SimCSE paper's baseline table).
- `wk`: all layers from the fourth, or from a third of the depth where that is lower, and all tokens but the
  last, weighted by SBERT-WK's rules.
- `prompt`: last layer at [MASK] of PromptBERT's template around the text. Like `wk`, it needs sentemb to
  load a saved model.
"""

# The released SBERT-WK starts at layer 4 of 12 and of 24; a shallower model skips the same share of layers.
_WK_START, _WK_PART = 4, 3


def needs_hidden_states(pooling: Poolings) -> bool:
    """Return whether a pooling reads more than the last layer."""
    return pooling in ("last-2", "first-last", "first-last-static", "wk")


def pooling_modules(transformer: Transformer, pooling: Poolings) -> list[nn.Module]:
    """Build the modules that follow the transformer."""
    width = transformer.get_embedding_dimension()
    config = transformer.model.config
    if pooling == "prompt":
        reader = MaskPooling(width)
        reader.attach(transformer)
        return [reader]
    if pooling == "cls-mlp":
        head = Dense(width, width, activation_function=nn.Tanh())
        # SimCSE initialises its MLP as BERT initialises every linear layer.
        nn.init.normal_(head.linear.weight, std=getattr(config, "initializer_range", 0.02))
        nn.init.zeros_(head.linear.bias)
        return [Pooling(width, "cls"), head]
    if not needs_hidden_states(pooling):
        return [Pooling(width, pooling.replace("-", ""))]  # "lasttoken" to upstream
    layers = config.num_hidden_layers
    if pooling == "wk":
        return [WKPooling(width, layers, layer_start=min(_WK_START, layers // _WK_PART))]
    # Hidden states are numbered 0 (embedding output) to `layers`; the module slices from `start`.
    start = {"last-2": layers - 1, "first-last": min(1, layers), "first-last-static": 0}[pooling]
    weights = torch.zeros(layers + 1 - start)
    weights[0] = weights[-1] = 1.0
    mean = WeightedLayerPooling(
        width,
        num_hidden_layers=layers,
        layer_start=start,
        layer_weights=nn.Parameter(weights, requires_grad=False),
    )
    return [mean, Pooling(width, "mean")]


def has_cls_mlp(modules: Sequence[nn.Module]) -> bool:
    """Return whether the modules of a model start with those of `cls-mlp`."""
    if len(modules) < 2:
        return False
    pooling, dense = modules[:2]
    return (
        isinstance(pooling, Pooling)
        and pooling.pooling_mode == "cls"
        and isinstance(dense, Dense)
        and isinstance(dense.activation_function, nn.Tanh)
    )


def freeze_fixed_layer_weights(model: nn.Module) -> None:
    """Freeze layer weights that are all exactly 0 or 1, since they select layers."""
    for module in model.children():
        if isinstance(module, WeightedLayerPooling):
            weights = module.layer_weights
            if bool(((weights == 0) | (weights == 1)).all()):
                weights.requires_grad_(False)


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
        mask = features["attention_mask"]
        vectors = [
            self._pooling({"token_embeddings": layer, "attention_mask": mask})["sentence_embedding"]
            for layer in features["all_layer_embeddings"]
        ]
        features["sentence_embedding"] = torch.cat(vectors, dim=1)
        return features

    def get_embedding_dimension(self) -> int:
        """Return the length of the vector of all layers and poolings."""
        return (self.num_hidden_layers + 1) * len(self.poolings) * self.embedding_dimension

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Write the configuration; there are no weights."""
        self.save_config(output_path)
