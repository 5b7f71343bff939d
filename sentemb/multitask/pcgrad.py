"""Gradient surgery: where the gradients of two tasks conflict, each gives up the part that hurts the other.

PCGrad (Yu et al., NeurIPS 2020) projects every task's gradient onto the normal plane of each gradient it has
a negative product with. All projections stay in the span of the tasks' gradients, so the work is done on
their K x K products: the long vectors are read twice, once for the products and once for the result.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import get_args

import torch
from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.training.config.base import Preset
from sentemb.training.config.multitask import Reduction
from sentemb.training.owned import average

Gradients = Sequence[Tensor | None]
"""One task's gradient of each parameter; None for a parameter that the task does not touch."""


def project_conflicts(
    gradients: Sequence[Gradients],
    *,
    generator: random.Random,
    reduction: Reduction = "mean",
    preset: Preset = "paper",
) -> list[Tensor | None]:
    """Combine the gradients of several tasks after removing their conflicts.

    With `preset="paper"` the gradients are compared on the parameters that all tasks share, and only these
    are projected; any other parameter gets what the mean (or sum) of the losses would give it. Without a
    conflict the result is the gradient of the mean loss.

    `preset="released"` is what WeiChengTseng/Pytorch-PCGrad computes: vectors of all parameters are compared,
    zero where a task does not touch one, so that a task's own head is rescaled by conflicts elsewhere; a task
    also visits its own original gradient; what all tasks share is averaged and what some share is summed,
    whatever the reduction; and the list of visits is shuffled where it stands. With the same state of the
    generator the visits are those of that code.

    Args:
        gradients: For each task the gradient of each parameter.
        generator: Draws the order in which a task visits the others.
        reduction: `sum` as in the paper, or `mean`, its value over the number of tasks, which can be compared
            with training on the mean loss.
        preset: `paper` or `released`.

    Returns:
        The gradient of each parameter; None where no task touches it.

    Raises:
        InputError: An option is none of the choices, or the tasks have different numbers of parameters.

    Example:
        >>> first, second = [torch.tensor([1.0, 0.0])], [torch.tensor([-1.0, 1.0])]
        >>> project_conflicts([first, second], generator=random.Random(1))
        [tensor([0.2500, 0.7500])]

    Reference:
        Yu, Kumar, Gupta, Levine, Hausman and Finn: Gradient Surgery for Multi-Task Learning. NeurIPS 2020.
    """
    _check(gradients, reduction, preset)
    released = preset == "released"
    tasks = len(gradients)
    columns = list(zip(*gradients, strict=True))
    shared = [all(entry is not None for entry in column) for column in columns]
    compared = [column for column, common in zip(columns, shared, strict=True) if common or released]
    orders = released_orders(tasks, generator) if released else visiting_orders(tasks, generator)
    weights = projection_weights(_products(compared, tasks), orders).sum(dim=0)  # (tasks,)
    combined: list[Tensor | None] = []
    for column, common in zip(columns, shared, strict=True):
        projected = common or released
        divided = common if released else reduction == "mean"
        factors = weights if projected else torch.ones_like(weights)
        combined.append(_combined(column, (factors / tasks if divided else factors).tolist()))
    return combined


def projection_weights(products: Tensor, orders: Sequence[Sequence[int]]) -> Tensor:
    """Project every task's gradient: entry (i, j) of the result is the weight of gradient j in that of i."""
    weights = torch.eye(len(products), dtype=products.dtype)  # (tasks, tasks)
    for own, order in zip(weights, orders, strict=True):
        for other in order:
            product = own @ products[:, other]
            # A gradient of zero has no negative product, so nothing is ever divided by its norm.
            if product < 0:
                own[other] -= product / products[other, other]
    return weights


def visiting_orders(tasks: int, generator: random.Random) -> list[list[int]]:
    """Draw for each task the order in which it visits the others."""
    return [generator.sample([j for j in range(tasks) if j != i], tasks - 1) for i in range(tasks)]


def released_orders(tasks: int, generator: random.Random) -> list[list[int]]:
    """Draw the orders of the released code: one list of all tasks, itself too, shuffled again for each."""
    visited = list(range(tasks))
    orders = []
    for _ in range(tasks):
        generator.shuffle(visited)
        orders.append(list(visited))
    return orders


class GradientSurgery:
    """Fills the gradients of parameters from the losses of several tasks.

    Args:
        parameters: What is trained.
        reduction: See `project_conflicts`.
        preset: See `project_conflicts`.

    Example:
        >>> surgery = GradientSurgery(model.parameters())  # doctest: +SKIP
        >>> surgery.backward([first_loss, second_loss], generator=random.Random(1))  # doctest: +SKIP
        >>> optimizer.step()  # doctest: +SKIP
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        reduction: Reduction = "mean",
        preset: Preset = "paper",
    ) -> None:
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self.reduction: Reduction = reduction
        self.preset: Preset = preset

    def backward(self, losses: Sequence[Tensor], *, generator: random.Random) -> None:
        """Take the place of `loss.backward()` for the loss of each task; older gradients are replaced.

        On several ranks each task's gradient is their average.
        """
        gradients = [
            # The tasks may have computed something in common.
            torch.autograd.grad(loss, self.parameters, retain_graph=later > 0, allow_unused=True)
            for later, loss in zip(reversed(range(len(losses))), losses, strict=True)
        ]
        for own in (entry for one in gradients for entry in one):
            average(own)
        combined = project_conflicts(
            gradients, generator=generator, reduction=self.reduction, preset=self.preset
        )
        for parameter, gradient in zip(self.parameters, combined, strict=True):
            parameter.grad = gradient


def _products(columns: Sequence[Gradients], tasks: int) -> Tensor:
    """Inner products of the tasks' gradients over some parameters, float64 on the CPU, `(tasks, tasks)`."""
    total: Tensor | None = None
    for column in columns:
        present = [entry for entry in column if entry is not None]
        if not present:
            continue
        zero = torch.zeros_like(present[0])
        rows = torch.stack([zero if entry is None else entry for entry in column]).reshape(tasks, -1)
        product = (rows @ rows.T).double()  # (tasks, tasks)
        total = product if total is None else total + product
    return torch.zeros(tasks, tasks, dtype=torch.float64) if total is None else total.cpu()


def _combined(column: Gradients, factors: Sequence[float]) -> Tensor | None:
    combined: Tensor | None = None
    for gradient, factor in zip(column, factors, strict=True):
        if gradient is not None:
            term = factor * gradient
            combined = term if combined is None else combined + term
    return combined


def _check(gradients: Sequence[Gradients], reduction: str, preset: str) -> None:
    for option, value, choices in (
        ("reduction", reduction, get_args(Reduction)),
        ("preset", preset, get_args(Preset)),
    ):
        if value not in choices:
            raise InputError(
                f"gradient surgery does not support {option} {value!r}", f"choose {' or '.join(choices)}"
            )
    if not gradients or len({len(one) for one in gradients}) != 1:
        raise InputError(
            "gradient surgery needs the gradient of every parameter from each task",
            "pass one entry per parameter, and None if a task does not use it",
        )
