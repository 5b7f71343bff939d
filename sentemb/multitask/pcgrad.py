"""Gradient surgery: where the gradients of two tasks conflict, each gives up the part that hurts the other.

PCGrad (Yu et al., NeurIPS 2020) projects every task's gradient onto the normal plane of each gradient it has
a negative product with. All projections stay in the span of the tasks' gradients, so the work is done on
their K x K products: the long vectors are read twice, once for the products and once for the result.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add
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
    for option, value, choices in (("reduction", reduction, Reduction), ("preset", preset, Preset)):
        if value not in get_args(choices):
            raise InputError(
                f"gradient surgery does not support {option} {value!r}",
                f"choose {' or '.join(get_args(choices))}",
            )
    if not gradients or len({len(one) for one in gradients}) != 1:
        raise InputError(
            "gradient surgery needs the gradient of every parameter from each task",
            "pass one entry per parameter, and None if a task does not use it",
        )
    released, tasks = preset == "released", len(gradients)
    columns = list(zip(*gradients, strict=True))
    shared = [all(entry is not None for entry in column) for column in columns]
    compared = [column for column, common in zip(columns, shared, strict=True) if common or released]
    orders = visiting_orders(tasks, generator, preset)
    weights = projection_weights(_products(compared, tasks), orders).sum(dim=0)  # (tasks,)
    combined: list[Tensor | None] = []
    for column, common in zip(columns, shared, strict=True):
        factors = weights if common or released else torch.ones_like(weights)
        if common if released else reduction == "mean":
            factors = factors / tasks
        pairs = zip(factors.tolist(), column, strict=True)
        terms = [factor * gradient for factor, gradient in pairs if gradient is not None]
        combined.append(reduce(add, terms) if terms else None)
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


def visiting_orders(tasks: int, generator: random.Random, preset: Preset) -> list[list[int]]:
    """Draw for each task the order in which it visits the others.

    Those of the released code have all tasks, itself too, in one list that is shuffled again for each.
    """
    visited, orders = list(range(tasks)), []
    for task in range(tasks):
        if preset == "released":
            generator.shuffle(visited)
            orders.append(list(visited))
        else:
            orders.append(generator.sample([other for other in visited if other != task], tasks - 1))
    return orders


def _products(columns: Sequence[Gradients], tasks: int) -> Tensor:
    """Return the inner products of the tasks' gradients, float64 on the CPU, `(tasks, tasks)`."""
    total = torch.zeros(tasks, tasks, dtype=torch.float64)
    for column in columns:
        if present := [entry for entry in column if entry is not None]:
            zero = torch.zeros_like(present[0])
            rows = torch.stack([zero if entry is None else entry for entry in column]).reshape(tasks, -1)
            total = total.to(rows.device) + (rows @ rows.T).double()  # (tasks, tasks)
    return total.cpu()


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
        self, parameters: Iterable[nn.Parameter], *, reduction: Reduction = "mean", preset: Preset = "paper"
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
            torch.autograd.grad(loss, self.parameters, retain_graph=loss is not losses[-1], allow_unused=True)
            for loss in losses
        ]
        for own in (entry for one in gradients for entry in one):
            average(own)
        combined = project_conflicts(
            gradients, generator=generator, reduction=self.reduction, preset=self.preset
        )
        for parameter, gradient in zip(self.parameters, combined, strict=True):
            parameter.grad = gradient
