"""A transformer with fewer layers: those whose removal changes its vectors least on your texts are gone."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import nn

from sentemb._compat import Dense, Normalize
from sentemb.encoding import load_encoder
from sentemb.encoding.view import linear, with_modules, with_truncation_as_module
from sentemb.errors import InputError

# Share of the mean square of a dimension. It keeps the map from fitting noise if there is little text.
_RIDGE = 1e-2
_OF_LAYERS = ("attention_window",)  # settings per layer whose name does not say so
_CHOOSING = 200  # texts by which layers are chosen


def layers_of(model: SentenceTransformer) -> nn.ModuleList | None:
    """Return the stack of layers of a model's transformer, or None if it is not unique."""
    network: Any = getattr(model[0], "model", None)
    count = getattr(getattr(network, "config", None), "num_hidden_layers", None)
    if not isinstance(network, nn.Module):
        return None
    stacks = [one for one in network.modules() if isinstance(one, nn.ModuleList) and len(one) == count]
    inner = {id(part) for stack in stacks for layer in stack for part in layer.modules()}
    stacks = [one for one in stacks if id(one) not in inner]
    return stacks[0] if len(stacks) == 1 else None


def reason_against_pruning(model: SentenceTransformer) -> str | None:
    """Return why layers of a model cannot be removed, or None if they can."""
    layers = layers_of(model)
    if layers is None:
        return f"{_network_name(model)} does not have a plain stack of layers with separate weights"
    if len(layers) == 1:
        return "it has a single layer"
    if getattr(model[0].model.config, "output_hidden_states", False):
        return "it pools several layers"
    return None


def prune_layers(model: SentenceTransformer, count: int, texts: Sequence[str]) -> SentenceTransformer:
    """Remove layers, and map the vectors of the rest to those of the full model.

    Layers are removed one by one, each time the one whose removal changes the vectors of the texts least. A
    linear map, fitted by ridge regression on the same texts, then corrects the vectors. A first layer that
    has other weights than the rest, such as T5's positions, is kept.

    Args:
        model: The model, which is not changed.
        count: Number of layers to keep.
        texts: Your texts.

    Returns:
        The smaller model.

    Raises:
        InputError: The model does not have more layers than that, or none can be removed.
    """
    if (reason := reason_against_pruning(model)) is not None:
        raise InputError(f"cannot remove layers (--layers): {reason}", "distill without --layers")
    model = with_truncation_as_module(model)
    layers = layers_of(model)
    assert layers is not None  # reason_against_pruning found none
    if not 0 < count < len(layers):
        raise InputError(
            f"cannot keep {count} layers (--layers): the model has {len(layers)}", "choose a smaller number"
        )
    wanted = load_encoder(model).encode(texts)
    few = texts[:_CHOOSING]
    kept = list(range(len(layers)))
    fixed = {0} if _weights(layers[0]) != _weights(layers[1]) else set()
    while len(kept) > count:
        trials = [[one for one in kept if one != left] for left in kept if left not in fixed]
        kept = max(trials, key=lambda some: _nearness(_with_layers(model, some), few, wanted[: len(few)]))
    smaller = _with_layers(model, kept)
    found = load_encoder(smaller).encode(texts)
    dense = _map(found, wanted)
    return with_modules(smaller, [*smaller, dense, Normalize()])


def _with_layers(model: SentenceTransformer, kept: Sequence[int]) -> SentenceTransformer:
    smaller = copy.deepcopy(model)
    layers = layers_of(smaller)
    assert layers is not None  # as the model has them
    count, some = len(layers), [layers[number] for number in kept]
    config = smaller[0].model.config
    # Settings per layer, such as which layers attend to the whole text.
    for name, value in vars(config).items():
        if isinstance(value, list) and len(value) == count and ("layer" in name or name in _OF_LAYERS):
            setattr(config, name, [value[number] for number in kept])
    if hasattr(config, "attention_layers"):  # GPT-Neo, which saves them as pairs of a pattern and a number
        config.attention_types = [[[kind], 1] for kind in config.attention_layers]
    del layers[:]
    layers.extend(some)
    config.num_hidden_layers = len(some)
    return smaller


def _weights(layer: nn.Module) -> list[tuple[str, torch.Size]]:
    return [(name, weight.shape) for name, weight in layer.named_parameters()]


def _network_name(model: SentenceTransformer) -> str:
    return type(getattr(model[0], "model", model[0])).__name__


def _nearness(model: SentenceTransformer, texts: Sequence[str], wanted: NDArray[np.float32]) -> float:
    found = load_encoder(model).encode(texts)
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(wanted, axis=1)
    return float(((found * wanted).sum(axis=1) / np.maximum(lengths, 1e-12)).mean())


def _map(found: NDArray[np.float32], wanted: NDArray[np.float32]) -> Dense:
    """Fit the linear map between two sets of vectors, as a module."""
    products = found.T @ found
    ridge = _RIDGE * np.trace(products) / len(products) * np.eye(len(products))
    weight = np.linalg.solve(products + ridge, found.T @ wanted).T.astype(np.float32)
    return linear(weight)
