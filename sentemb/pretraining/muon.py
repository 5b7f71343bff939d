"""The optimizer of pre-training: Muon for the matrices inside the layers, AdamW for everything else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from sentemb.errors import InputError

# Quintic Newton-Schulz of Jordan et al. (Muon: An optimizer for hidden layers in neural networks, 2024): its
# five steps take singular values from 0.01 to 1 to between 0.7 and 1.2, which is all that the update needs.
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5
# An orthogonal update scaled to the size of AdamW's, so that learning rates compare (Liu et al., Muon is
# Scalable for LLM Training, 2025, equation 4).
_ADAM_SIZE = 0.2


def orthogonalised(matrices: Tensor) -> Tensor:
    """The nearest semi-orthogonal matrices, roughly: U V^T of each U S V^T.

    torch.optim.Muon does the same one matrix at a time and in bfloat16, which a processor without bfloat16
    instructions multiplies ten times more slowly than float32.

    Args:
        matrices: (count, rows, columns) with rows <= columns.

    Returns:
        Of the same shape, singular values about 1.
    """
    a, b, c = _COEFFICIENTS
    x = matrices / (matrices.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.mT  # (count, rows, rows)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def layer_matrices(model: PreTrainedModel) -> set[nn.Parameter]:
    """The weights that Muon is for: matrices inside the layers, neither embeddings nor the head.

    Args:
        model: A masked language model.

    Returns:
        Parameters of two dimensions under the base model's `encoder` or `transformer`.

    Raises:
        InputError: The model's layers are elsewhere.
    """
    base = model.base_model
    layers = getattr(base, "encoder", None) or getattr(base, "transformer", None)
    if not isinstance(layers, nn.Module):
        raise InputError(f"the layers of {type(model).__name__} are not known", "use --optimizer adamw")
    return {parameter for parameter in layers.parameters() if parameter.ndim == 2}


class MuonAdamW(torch.optim.AdamW):
    """AdamW whose groups marked `orthogonal` are updated by Muon instead.

    Args:
        groups: Parameter groups; those with `"orthogonal": True` hold matrices only.
        momentum: Of Muon, in Nesterov's form.
        others: Settings of AdamW.
    """

    def __init__(self, groups: list[dict[str, Any]], *, momentum: float = 0.95, **others: Any) -> None:
        groups = [{"orthogonal": False, **group} for group in groups]
        super().__init__(groups, **others)
        self._momentum = momentum

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every group; see `torch.optim.Optimizer.step`."""
        groups = self.param_groups
        self.param_groups = [group for group in groups if not group["orthogonal"]]
        try:
            loss: float | None = super().step(closure)
        finally:
            self.param_groups = groups
        for group in groups:
            if group["orthogonal"]:
                self._orthogonal_step(group)
        return loss

    def _orthogonal_step(self, group: dict[str, Any]) -> None:
        # Matrices of one shape are orthogonalised together, lying: rows <= columns.
        by_shape: dict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            lying = parameter if parameter.size(0) <= parameter.size(1) else parameter.mT
            by_shape[tuple(lying.shape)].append((lying, self._direction(parameter, lying.shape)))
        for shape, pairs in by_shape.items():
            size = group["lr"] * _ADAM_SIZE * max(shape) ** 0.5
            updates = orthogonalised(torch.stack([direction for _, direction in pairs]))
            for (lying, _), update in zip(pairs, updates, strict=True):
                lying.mul_(1 - group["lr"] * group["weight_decay"]).sub_(update, alpha=size)

    def _direction(self, parameter: Tensor, shape: torch.Size) -> Tensor:
        assert parameter.grad is not None
        state = self.state[parameter]
        if not state:
            # AdamW looks for the step count when it loads a state.
            state["step"] = torch.zeros(())
            state["momentum"] = torch.zeros_like(parameter)
        state["step"] += 1
        state["momentum"].lerp_(parameter.grad, 1 - self._momentum)
        direction = parameter.grad.lerp(state["momentum"], self._momentum)
        return direction if direction.shape == shape else direction.mT
