"""Which weights of an encoder are trained."""

from __future__ import annotations

from sentence_transformers import SentenceTransformer
from torch import nn

from sentemb.errors import InputError


def train_last_layers(model: SentenceTransformer, count: int) -> None:
    """Freeze everything but the last layers of the transformer, and what comes after them.

    Raises:
        InputError: The model has no layers, or not so many.
    """
    transformer = model[0]
    inner = getattr(transformer, "model", None)
    total = getattr(getattr(inner, "config", None), "num_hidden_layers", None)
    stacks = [
        module
        for module in transformer.modules()
        if isinstance(module, nn.ModuleList) and len(module) == total
    ]
    if not stacks:
        raise InputError("the base has no layers that could be trained alone", "leave --layers out")
    if count > len(stacks[0]):
        raise InputError(f"the base has {len(stacks[0])} layers, not {count}", "lower --layers")
    for parameter in transformer.parameters():
        parameter.requires_grad_(False)
    for layer in stacks[0][-count:]:
        for parameter in layer.parameters():
            parameter.requires_grad_(True)
