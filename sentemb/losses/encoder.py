"""Parts of a SentenceTransformer, and the heads that losses put on its vectors for training only.

These heads belong to the loss, so a saved model never contains them.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from sentemb._compat import Pooling, Transformer
from sentemb.errors import InputError

_INITIAL_DEVIATION = 0.02  # BERT's initializer_range, which the papers' code draws the heads from


def unwrap(model: nn.Module) -> nn.Module:
    """Return the SentenceTransformer inside DDP and `torch.compile` wrappers."""
    while True:
        inner = getattr(model, "_orig_mod", None) or getattr(model, "module", None)
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def transformer_module(model: nn.Module, *, loss: str) -> Transformer:
    """Return the first module of a model, which holds the transformer and its tokenizer."""
    first = next(unwrap(model).children(), None)
    if not isinstance(first, Transformer):
        raise InputError(
            f"{loss} needs a transformer encoder, but this model starts with {type(first).__name__}",
            "build the encoder from a transformer base model",
        )
    return first


def pooling_names(model: nn.Module) -> tuple[str, ...] | None:
    """Return the names of the model's poolings; None if it does not have a pooling module."""
    for module in unwrap(model).children():
        if isinstance(module, Pooling):
            mode = module.pooling_mode
            return (mode,) if isinstance(mode, str) else tuple(mode)
    return None


def build_head(model: nn.Module, kind: Literal["train-only", "two-layer"]) -> nn.Sequential:
    """Build a new head for the sentence vectors of a model, on its device.

    `train-only` is that of unsupervised SimCSE. `two-layer` is that of the CS224N project's contrastive
    training (its section 4.1), which does not name the activation; SimCLR, which it cites, has a ReLU.
    """
    width = int(unwrap(model).get_embedding_dimension())  # type: ignore[operator]
    if kind == "train-only":
        head = nn.Sequential(nn.Linear(width, width), nn.Tanh())
    else:
        head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
    return initialize_head(head).to(next(model.parameters()).device)


def initialize_head(head: nn.Sequential) -> nn.Sequential:
    """Draw the weights of all linear layers from N(0, 0.02), with biases of 0."""
    for module in head:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=_INITIAL_DEVIATION)
            nn.init.zeros_(module.bias)
    return head


def project(head: nn.Module | None, vectors: Tensor) -> Tensor:
    """Apply a head in the dtype of its weights; without a head, return the vectors unchanged."""
    return vectors if head is None else head(vectors.to(dtype_of(head)))


def dtype_of(module: nn.Module) -> torch.dtype:
    """Return the dtype of a module's weights, which its input must have outside autocast."""
    return next(module.parameters()).dtype
