"""Poolings from token embeddings to a sentence embedding, built from upstream's modules if possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from sentemb._compat import Dense, Pooling, Transformer, WeightedLayerPooling
from sentemb.modules.wk_pooling import WKPooling

Poolings = Literal[
    "cls", "cls-mlp", "mean", "max", "last-token", "last-2", "first-last", "first-last-static", "wk"
]
"""Pooling of a sentence embedding; averages and maxima include [CLS] and [SEP] and exclude padding.

- `cls`: last layer at position 0. `cls-mlp`: the same through Dense + tanh (supervised SimCSE).
- `mean`, `max`: over the tokens of the last layer.
- `last-token`: last layer at the last token, which alone has read the whole text in a decoder.
- `last-2`: mean over the last two layers, then over tokens (BERT-flow, SimCSE's `avg_top2`).
- `first-last`: layer 1 and the last (the SimCSE code as it is today).
- `first-last-static`: embedding output and the last (the SimCSE paper's baseline table).
- `wk`: all layers from the fourth, or from a third of the depth where that is lower, and all tokens but the
  last, weighted by SBERT-WK's rules. The only one that needs sentemb to load a saved model.
"""

_LAYER_MEANS = ("last-2", "first-last", "first-last-static")
# The released SBERT-WK starts at layer 4 of 12 and of 24; a shallower model skips the same share of layers.
_WK_START, _WK_PART = 4, 3


def needs_hidden_states(pooling: Poolings) -> bool:
    """Return whether a pooling reads more than the last layer."""
    return pooling in _LAYER_MEANS or pooling == "wk"


def pooling_modules(transformer: Transformer, pooling: Poolings) -> list[nn.Module]:
    """Build the modules that follow the transformer."""
    width = transformer.get_embedding_dimension()
    if pooling == "cls-mlp":
        return [Pooling(width, "cls"), _head(transformer, width)]
    if not needs_hidden_states(pooling):
        return [Pooling(width, pooling.replace("-", ""))]  # "lasttoken" to upstream
    layers = transformer.model.config.num_hidden_layers
    if pooling == "wk":
        return [WKPooling(width, layers, layer_start=min(_WK_START, layers // _WK_PART))]
    return [_mean_of_layers(width, layers, pooling), Pooling(width, "mean")]


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


def _mean_of_layers(width: int, layers: int, pooling: Poolings) -> WeightedLayerPooling:
    # Hidden states are numbered 0 (embedding output) to `layers`; the module slices from `start`.
    start = {"last-2": layers - 1, "first-last": min(1, layers), "first-last-static": 0}[pooling]
    weights = torch.zeros(layers + 1 - start)
    weights[0] = weights[-1] = 1.0
    return WeightedLayerPooling(
        width,
        num_hidden_layers=layers,
        layer_start=start,
        layer_weights=nn.Parameter(weights, requires_grad=False),
    )


def _head(transformer: Transformer, width: int) -> Dense:
    head = Dense(width, width, activation_function=nn.Tanh())
    # SimCSE initialises its MLP as BERT initialises every linear layer.
    nn.init.normal_(head.linear.weight, std=getattr(transformer.model.config, "initializer_range", 0.02))
    nn.init.zeros_(head.linear.bias)
    return head
