"""Gradient surgery: where the gradients of two tasks conflict, each gives up the part that hurts the other.

PCGrad (Yu et al., NeurIPS 2020) projects every task's gradient onto the normal plane of each gradient it has
a negative product with. All projections stay in the span of the tasks' gradients, so the work is done on
their K x K products: the long vectors are read twice, once for the products and once for the result.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import reduce
from operator import add

import torch
from torch import Tensor

from sentemb.training.config.base import Preset

Gradients = Sequence[Tensor | None]
"""One task's gradient of each parameter; None for a parameter that the task does not touch."""


def project_conflicts(
    gradients: Sequence[Gradients], *, generator: random.Random, preset: Preset = "paper"
) -> list[Tensor | None]:
    """Combine the gradients of several tasks, one of each parameter, after removing their conflicts.

    With `preset="paper"` the gradients are compared on the parameters that all tasks share, and only these
    are projected; any other parameter gets what the mean of the losses would give it. The projected
    gradients are averaged, so without a conflict the result is the gradient of the mean loss; the paper's
    sum is the same times the number of tasks.

    `preset="released"` is what WeiChengTseng/Pytorch-PCGrad computes: vectors of all parameters are
    compared, zero where a task does not touch one, so that a task's own head is rescaled by conflicts
    elsewhere; a task also visits its own original gradient; what all tasks share is averaged and what some
    share is summed; and the list of visits is shuffled where it stands. With the same state of the generator
    the visits are those of that code.
    """
    released, tasks = preset == "released", len(gradients)
    columns = list(zip(*gradients, strict=True))
    shared = [all(entry is not None for entry in column) for column in columns]
    compared = [column for column, common in zip(columns, shared, strict=True) if common or released]
    # Inner products of the tasks' gradients, float64 on the CPU, (tasks, tasks).
    products = torch.zeros(tasks, tasks, dtype=torch.float64)
    for column in compared:
        if present := [entry for entry in column if entry is not None]:
            zero = torch.zeros_like(present[0])
            rows = torch.stack([zero if entry is None else entry for entry in column]).reshape(tasks, -1)
            products = products.to(rows.device) + (rows @ rows.T).double()
    orders = visiting_orders(tasks, generator, preset)
    weights = projection_weights(products.cpu(), orders).sum(dim=0)  # (tasks,)
    combined: list[Tensor | None] = []
    for column, common in zip(columns, shared, strict=True):
        factors = weights if common or released else torch.ones_like(weights)
        if common or not released:
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
    """Draw for each task the order in which it visits the others; the released code's list has all tasks."""
    visited, orders = list(range(tasks)), []
    for task in range(tasks):
        if preset == "released":
            generator.shuffle(visited)
            orders.append(list(visited))
        else:
            orders.append(generator.sample([other for other in visited if other != task], tasks - 1))
    return orders
