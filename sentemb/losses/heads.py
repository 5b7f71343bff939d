"""Heads for training only: they belong to the loss, so a saved model never contains them."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from sentemb.losses.encoder import unwrap

_INITIAL_DEVIATION = 0.02  # BERT's initializer_range, which the papers' code draws the heads from


def build_head(model: nn.Module, kind: Literal["train-only", "two-layer"]) -> nn.Sequential:
    """Build a new head for the sentence vectors of a model, on its device."""
    width = int(unwrap(model).get_embedding_dimension())  # type: ignore[operator]
    head = train_only_head(width) if kind == "train-only" else contrast_head(width)
    return head.to(next(model.parameters()).device)


def project(head: nn.Module | None, vectors: Tensor) -> Tensor:
    """Apply a head in the dtype of its weights; without a head, return the vectors unchanged."""
    return vectors if head is None else head(vectors.to(dtype_of(head)))


def dtype_of(module: nn.Module) -> torch.dtype:
    """Return the dtype of a module's weights, which its input must have outside autocast."""
    return next(module.parameters()).dtype


def projection_head(width: int, projection_width: int) -> nn.Sequential:
    """Build the head of SG-BERT: two linear layers, each followed by an exact GELU (paper, footnote 4)."""
    return _initialised(
        nn.Sequential(
            nn.Linear(width, projection_width),
            nn.GELU(),
            nn.Linear(projection_width, projection_width),
            nn.GELU(),
        )
    )


def train_only_head(width: int) -> nn.Sequential:
    """Build the head of unsupervised SimCSE: one new linear layer and tanh."""
    return _initialised(nn.Sequential(nn.Linear(width, width), nn.Tanh()))


def contrast_head(width: int) -> nn.Sequential:
    """Build the head of the CS224N project's contrastive training: two linear layers (its section 4.1).

    The paper does not specify the activation between them; SimCLR, which it cites, has a ReLU.
    """
    return _initialised(nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)))


def _initialised(head: nn.Sequential) -> nn.Sequential:
    for module in head:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=_INITIAL_DEVIATION)
            nn.init.zeros_(module.bias)
    return head
