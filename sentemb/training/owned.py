"""Parts of a loss that do not belong to the model: trainable weights, and the views of a frozen encoder.

`SentenceTransformerTrainer` optimizes these weights but does not save, restore, average or clip them. A loss
names them through `sentemb.losses.LossParameters`. For any other loss, such as upstream's SoftmaxLoss, they
are the trainable parameters that do not belong to the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn

from sentemb._compat import get_world_size
from sentemb.errors import InputError
from sentemb.losses import LossParameters, SelfGuidedLoss

_ROWS = 64
_WINDOW = 64 * _ROWS
_IDLE_BATCHES = 8


class LossWeights:
    """A view of all weights that a loss, or a dict of losses, owns."""

    def __init__(self, loss: nn.Module | Mapping[str, nn.Module], model: nn.Module) -> None:
        losses = loss if isinstance(loss, Mapping) else {"": loss}
        modules = {
            _joined(prefix, path): module
            for prefix, one in losses.items()
            for path, module in one.named_modules()
            if isinstance(module, LossParameters)
        }
        # A loss shared by several data sets counts once.
        self._modules = {path: one for path, one in modules.items() if _first(modules, one) == path}
        known = {id(parameter) for parameter in model.parameters()}
        known |= {id(parameter) for one in self._modules.values() for parameter in one.owned_parameters()}
        others = {
            _joined(prefix, name): parameter
            for prefix, one in losses.items()
            for name, parameter in one.named_parameters()
            if parameter.requires_grad and id(parameter) not in known
        }
        self._others = {name: one for name, one in others.items() if _first(others, one) == name}

    def parameters(self) -> list[nn.Parameter]:
        """Return the trainable weights, each once, in a fixed order."""
        owned = [p for module in self._modules.values() for p in module.owned_parameters() if p.requires_grad]
        return list({id(p): p for p in [*owned, *self._others.values()]}.values())

    def state(self) -> dict[str, Tensor]:
        """Return copies of all owned weights and buffers by name."""
        tensors = {
            _joined(path, name): tensor
            for path, module in self._modules.items()
            for name, tensor in module.head_state().items()
        } | self._others
        return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Load what `state` returned."""
        if odd := sorted(state.keys() ^ self.state().keys()):
            raise InputError(
                f"the checkpoint was saved with another loss; these weights do not match: {', '.join(odd)}",
                "resume with the same loss and options",
            )
        for path, module in self._modules.items():
            module.load_head_state({name: state[_joined(path, name)] for name in module.head_state()})
        with torch.no_grad():
            for name, parameter in self._others.items():
                parameter.copy_(state[name])

    def broadcast(self) -> None:
        """Give every rank the weights of rank 0."""
        if get_world_size() > 1:
            for parameter in self.parameters():
                torch.distributed.broadcast(parameter.data, src=0)

    def average_gradients(self) -> None:
        """Average the gradients over the ranks, as DDP does for the model.

        A weight without a gradient on any rank stays without one, so that the optimizer skips it. A weight
        with one on some ranks counts as zero on the others.
        """
        parameters = self.parameters()
        if get_world_size() == 1 or not parameters:
            return
        used = torch.tensor([float(p.grad is not None) for p in parameters], device=parameters[0].device)
        torch.distributed.all_reduce(used)
        for parameter, ranks in zip(parameters, used.tolist(), strict=True):
            if ranks:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                average(parameter.grad)


def average(tensor: Tensor | None) -> None:
    """Replace a tensor, which all ranks have or none has, by the average over the ranks."""
    if tensor is not None and get_world_size() > 1:
        torch.distributed.all_reduce(tensor)
        tensor /= get_world_size()


def _joined(path: str, name: str) -> str:
    return ".".join(part for part in (path, name) if part)


def _first(named: Mapping[str, object], wanted: object) -> str:
    return next(name for name, one in named.items() if one is wanted)


def fill_view_caches(
    losses: Iterable[nn.Module],
    rows: Any,
    features_of: Callable[[list[dict[str, Any]]], Sequence[dict[str, Any]]],
) -> None:
    """Compute the views of every row for each loss that caches them, always in the same batches.

    Rounding depends on the batch that a sentence is computed in. A cache that fills up while training would
    hold other last bits after an interruption.
    """
    for loss in losses:
        if not isinstance(loss, SelfGuidedLoss) or (cache := loss.view_cache) is None:
            continue
        if not hasattr(rows, "__len__"):
            raise InputError(
                "SelfGuidedLoss computes all views before the first step, which does not work with a "
                "streaming train_dataset",
                'compute the views in each step with SelfGuidedLoss(model, views="online"), or pass a '
                "datasets.Dataset",
            )
        device = next(loss.frozen.parameters()).device
        idle = 0
        for batch in _batches(rows):
            held = len(cache)
            for features in loss.columns_of_views(features_of(batch)):
                moved = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in features.items()}
                cache.views(moved, loss.frozen)
            # Texts may differ and their tokens not, but not batch after batch: the cache is full.
            idle = 0 if len(cache) > held else idle + 1
            if idle == _IDLE_BATCHES:
                break


def _batches(rows: Any) -> Iterator[list[dict[str, Any]]]:
    seen: set[int] = set()
    for start in range(0, len(rows), _WINDOW):
        window = rows[start : start + _WINDOW]
        unique = {hash(values): values for values in zip(*window.values(), strict=True)}
        fresh = [dict(zip(window, unique[key], strict=True)) for key in unique if key not in seen]
        seen |= unique.keys()
        # Texts of a length together: little padding. Only the data decides the order.
        fresh.sort(key=lambda row: max(len(str(value)) for value in row.values()))
        yield from (fresh[first : first + _ROWS] for first in range(0, len(fresh), _ROWS))
