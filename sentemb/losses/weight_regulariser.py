"""The weight regulariser: squared distance between the trained encoder and its frozen copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def squared_distance(parameters: Sequence[Tensor], references: Sequence[Tensor]) -> Tensor:
    """Compute L_reg of SG-BERT: the sum of `(theta_T - theta_F)^2`, not its mean or root (footnote 5).

    The gradient `2 (theta_T - theta_F)` is implemented directly instead of by autograd, so a difference of
    the size of the model is not kept between forward and backward. It passes through the parameters' own
    autograd nodes, so gradient accumulation, loss scaling and DDP treat it like any other gradient. At
    `theta_T = theta_F` it is exactly zero.
    """
    if not parameters:
        return torch.zeros(())
    apply: Callable[..., Tensor] = _SquaredDistance.apply
    return apply(tuple(references), *parameters)


class _SquaredDistance(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, references: tuple[Tensor, ...], *parameters: Tensor) -> Tensor:
        ctx.references = references
        ctx.save_for_backward(*parameters)  # references to the parameters, not copies
        # Parameter by parameter: the peak is one difference, not one model.
        parts = []
        for parameter, reference in zip(parameters, references, strict=True):
            difference = _difference(parameter, reference).flatten()
            parts.append(torch.dot(difference, difference))
        return torch.stack(parts).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        factor = 2 * upstream[0]
        gradients: list[Tensor | None] = [None]
        for parameter, reference in zip(ctx.saved_tensors, ctx.references, strict=True):
            gradients.append(_difference(parameter, reference).mul_(factor).to(parameter.dtype))
        return tuple(gradients)


def _difference(parameter: Tensor, reference: Tensor) -> Tensor:
    if parameter.dtype == torch.float64:
        return parameter - reference
    return parameter.float() - reference.float()
