"""Length and cosine of vectors, as losses train by them and heads predict by them."""

from __future__ import annotations

import torch
from torch import Tensor

_TINY_NORM = 1e-8  # the floor of torch.nn.functional.cosine_similarity


def cosine_similarity(first: Tensor, second: Tensor) -> Tensor:
    """Cosine of every vector of `first` with every row of `second`, as one matrix product."""
    with torch.autocast(first.device.type, enabled=False):
        vectors = unit_vectors(first)
        return vectors @ unit_vectors(second).T.to(vectors.dtype)  # (..., m)


def unit_vectors(vectors: Tensor) -> Tensor:
    """Divide vectors by their length."""
    vectors = full_precision(vectors)
    norm = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    # Without the mask a zero vector would receive a gradient of order 1 / _TINY_NORM.
    unit: Tensor = (vectors / norm.clamp_min(_TINY_NORM)).masked_fill(norm == 0, 0)
    return unit


def full_precision(vectors: Tensor) -> Tensor:
    """Half precision as float32; float32 and float64 as they are."""
    return vectors if vectors.dtype == torch.float64 else vectors.float()
