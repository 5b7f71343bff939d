"""The optimizer that BERT was released with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class BertAdam(Optimizer):
    """Adam without bias correction, with decoupled weight decay.

        m = b1 m + (1 - b1) g,   v = b2 v + (1 - b2) g^2,   w = w - lr (m / (sqrt(v) + eps) + decay w)

    The first steps are larger than those of Adam: about 3 lr instead of lr.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        *,
        learning_rate: float,
        weight_decay: float,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-6,
    ) -> None:
        defaults = {"lr": learning_rate, "weight_decay": weight_decay, "betas": betas, "eps": epsilon}
        super().__init__(parameters, defaults)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Change the weights by their gradients."""
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if not state:
                    state["mean"], state["square"] = torch.zeros_like(weight), torch.zeros_like(weight)
                mean: Tensor = state["mean"].lerp_(weight.grad, 1 - beta1)
                square: Tensor = state["square"].lerp_(weight.grad.square(), 1 - beta2)
                change = mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * weight
                weight.sub_(group["lr"] * change)
