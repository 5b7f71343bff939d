"""Views of the frozen encoder, all computed before the first step and always in the same batches.

Rounding depends on the batch that a sentence is computed in. A cache that fills up while training would hold
other last bits after an interruption, or in another run's order; one filled in the order of the data does
not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import nn

from sentemb.errors import InputError
from sentemb.losses import SelfGuidedLoss

_ROWS = 64
_WINDOW = 64 * _ROWS
_IDLE_BATCHES = 8


class Rows(Protocol):
    """What is needed of a data set."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: slice) -> dict[str, list[Any]]: ...


def fill_view_caches(
    losses: Iterable[nn.Module],
    rows: Rows,
    features_of: Callable[[list[dict[str, Any]]], Sequence[dict[str, Any]]],
) -> int:
    """Compute the views of every row for each loss that caches them."""
    cached = [loss for loss in losses if isinstance(loss, SelfGuidedLoss) and loss.view_cache is not None]
    if cached and not hasattr(rows, "__len__"):
        raise InputError(
            "SelfGuidedLoss computes all views before the first step, which does not work with a "
            "streaming train_dataset",
            'compute the views in each step with SelfGuidedLoss(model, views="online"), or pass a '
            "datasets.Dataset",
        )
    for loss in cached:
        _fill(loss, rows, features_of)
    return sum(len(loss.view_cache) for loss in cached if loss.view_cache is not None)


def _fill(
    loss: SelfGuidedLoss, rows: Rows, features_of: Callable[[list[dict[str, Any]]], Sequence[dict[str, Any]]]
) -> None:
    cache = loss.view_cache
    if cache is None:
        return
    device = next(loss.frozen.parameters()).device
    idle = 0
    for batch in _batches(rows):
        held = len(cache)
        for features in loss.columns_of_views(features_of(batch)):
            moved = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in features.items()}
            cache.views(moved, loss.frozen)
        # Texts may differ and their tokens not, but not batch after batch: the cache is full.
        idle = 0 if len(cache) > held else idle + 1
        if idle == _IDLE_BATCHES:
            return


def _batches(rows: Rows) -> Iterator[list[dict[str, Any]]]:
    seen: set[int] = set()
    for start in range(0, len(rows), _WINDOW):
        window = rows[start : start + _WINDOW]
        unique = {hash(values): values for values in zip(*window.values(), strict=True)}
        fresh = [dict(zip(window, unique[key], strict=True)) for key in unique if key not in seen]
        seen |= unique.keys()
        # Texts of a length together: little padding. Only the data decides the order.
        fresh.sort(key=lambda row: max(len(str(value)) for value in row.values()))
        yield from (fresh[first : first + _ROWS] for first in range(0, len(fresh), _ROWS))
