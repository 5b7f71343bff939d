"""Length, cosine and ranks of vectors, as losses train by them and modules predict by them."""

from __future__ import annotations

import torch
from torch import Tensor

_TINY_NORM = 1e-8  # the floor of torch.nn.functional.cosine_similarity


def cosine_similarity(first: Tensor, second: Tensor) -> Tensor:
    """Cosine of every vector of `first` with every row of `second`, as one matrix product."""
    with torch.autocast(first.device.type, enabled=False):
        vectors = unit_vectors(first)
        return vectors @ unit_vectors(second).T.to(vectors.dtype)  # (..., m)


def pair_cosines(first: Tensor, second: Tensor) -> Tensor:
    """Cosine of every vector of `first` with the one of `second` in its place."""
    return (unit_vectors(first) * unit_vectors(second)).sum(-1)


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


def centered_ranks(values: Tensor, *, ordinal: bool = False) -> Tensor:
    """Return the centered ranks of every row, scaled to length 1, so that inner products are Spearman's.

    Equal values share the mean of their ranks, or with `ordinal` have ranks in the order of the columns.
    """
    ranks = _ordinal_ranks(values) if ordinal else average_ranks(values)
    return unit_vectors(ranks - ranks.mean(1, keepdim=True))


def first_equal(rows: Tensor) -> Tensor:
    """Return the place of the first row that is equal to each.

    Equal rows may get different products: the last bits depend on the place, by the processor.
    """
    unique, group = torch.unique(rows, dim=0, return_inverse=True)
    places = torch.arange(len(rows), device=rows.device)
    first = places.new_full((len(unique),), len(rows)).scatter_reduce(0, group, places, "amin")
    return first[group]


def average_ranks(values: Tensor) -> Tensor:
    """Return the rank of every value in its row, `(n, m)`; equal values share the mean of their ranks."""
    ordered, order = full_precision(values).sort(dim=1)
    place = torch.arange(values.shape[1], device=values.device, dtype=ordered.dtype).expand_as(ordered)
    starts = torch.ones_like(ordered, dtype=torch.bool)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    if not bool(starts.all()):
        ends = torch.ones_like(starts)
        ends[:, :-1] = starts[:, 1:]
        first = place.masked_fill(~starts, 0).cummax(1).values
        last = place.masked_fill(~ends, values.shape[1]).flip(1).cummin(1).values.flip(1)
        place = (first + last) / 2
    return torch.empty_like(ordered).scatter_(1, order, place)


def _ordinal_ranks(values: Tensor) -> Tensor:
    order = full_precision(values).argsort(dim=1, stable=True)
    place = torch.arange(values.shape[1], device=values.device, dtype=full_precision(values).dtype)
    return torch.empty_like(full_precision(values)).scatter_(1, order, place.expand_as(order))
