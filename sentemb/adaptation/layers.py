"""Which weights of an encoder are trained."""

from __future__ import annotations

from sentence_transformers import SentenceTransformer

from sentemb.compression.prune import layers_of
from sentemb.errors import InputError


def train_last_layers(model: SentenceTransformer, count: int) -> None:
    """Freeze everything but the last layers of the transformer, and what comes after them.

    Raises:
        InputError: The model has no layers, or not so many.
    """
    layers = layers_of(model)
    if layers is None:
        raise InputError("the base has no layers that could be trained alone", "leave --layers out")
    if count > len(layers):
        raise InputError(f"the base has {len(layers)} layers, not {count}", "lower --layers")
    model[0].requires_grad_(False)
    for layer in layers[-count:]:
        layer.requires_grad_(True)
