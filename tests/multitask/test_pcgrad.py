"""Gradient surgery against loops, and where the released code departs from the paper."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.multitask.pcgrad import (
    GradientSurgery,
    Preset,
    project_conflicts,
    projection_weights,
    released_orders,
)
from tests.multitask import loops

SIZES = (5, 3, 2, 2)
"""Parameters: an encoder of two tensors, a layer that only some tasks have, a head of the first task."""


def toy_gradients(tasks: int, seed: int) -> list[list[Tensor | None]]:
    generator = torch.Generator().manual_seed(seed)
    gradients: list[list[Tensor | None]] = []
    for task in range(tasks):
        row: list[Tensor | None] = [
            torch.randn(size, generator=generator, dtype=torch.float64) for size in SIZES
        ]
        if task == 0:
            row[2] = None  # sentiment does not have the layer of the pair tasks
        else:
            row[3] = None
        gradients.append(row)
    return gradients


def dense(row: list[Tensor | None]) -> np.ndarray:
    parts = [np.zeros(size) if g is None else g.numpy() for g, size in zip(row, SIZES, strict=True)]
    return np.concatenate(parts)


def touched(row: list[Tensor | None]) -> np.ndarray:
    return np.concatenate([np.full(size, g is not None) for g, size in zip(row, SIZES, strict=True)])


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(("tasks", "seed"), list(itertools.product([2, 3, 4], range(6))))
def test_the_paper_by_loops(tasks: int, seed: int, reduction: str) -> None:
    gradients = toy_gradients(tasks, seed)
    combined = project_conflicts(gradients, generator=random.Random(seed), reduction=reduction)
    shared = sum(SIZES[:2])
    projected = np.sum(loops.paper([dense(row)[:shared] for row in gradients], random.Random(seed)), axis=0)
    # A layer that not every task has gets what the mean, or sum, of the losses would give it.
    other = np.sum([dense(row)[shared:] for row in gradients], axis=0)
    expected = np.concatenate([projected, other]) / (tasks if reduction == "mean" else 1)
    np.testing.assert_allclose(dense(combined), expected, atol=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(("tasks", "seed"), list(itertools.product([2, 3, 4], range(6))))
def test_the_released_code_by_loops(tasks: int, seed: int, reduction: str) -> None:
    gradients = toy_gradients(tasks, seed)
    combined = project_conflicts(
        gradients, generator=random.Random(seed), reduction=reduction, preset="released"
    )
    expected = loops.released(
        [dense(row) for row in gradients], [touched(row) for row in gradients], random.Random(seed)
    )
    np.testing.assert_allclose(dense(combined), expected, atol=1e-12)  # whatever the reduction


def test_only_the_released_code_visits_the_task_itself() -> None:
    """The first gradient ends against its own original; the visit to itself takes that away again."""
    vectors = torch.tensor([[1.0, 0.0], [-1.0, 1.0], [-1.0, -0.5]], dtype=torch.float64)
    products = vectors @ vectors.T
    without = projection_weights(products, [[1, 2], [], []])[0] @ vectors
    assert without @ vectors[0] < 0
    itself = projection_weights(products, [[1, 2, 0], [], []])[0] @ vectors
    assert abs(float(itself @ vectors[0])) < 1e-12
    assert all(sorted(order) == [0, 1, 2] for order in released_orders(3, random.Random(1)))


def test_two_tasks_end_without_conflict() -> None:
    first, second = (torch.tensor(values, dtype=torch.float64) for values in ([2.0, 0.0], [-1.0, 1.0]))
    combined = project_conflicts([[first], [second]], generator=random.Random(0), reduction="sum")
    # (1, 1) and (0, 1): each lost its part along the other.
    np.testing.assert_allclose(combined[0], [1.0, 2.0])


def test_without_conflict_the_paper_is_the_mean_of_the_losses() -> None:
    gradients = [[torch.ones(2), torch.ones(1), None], [torch.tensor([1.0, 3.0]), None, torch.ones(1)]]
    combined = project_conflicts(gradients, generator=random.Random(0))
    assert [entry.tolist() for entry in combined if entry is not None] == [[1.0, 2.0], [0.5], [0.5]]


def test_a_conflict_rescales_a_head_only_in_the_released_code() -> None:
    encoder = [torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 0.5])]
    gradients = [[encoder[0], torch.ones(1), None], [encoder[1], None, torch.ones(1)]]

    def head(preset: Preset) -> float:
        combined = project_conflicts(gradients, generator=random.Random(0), preset=preset)
        return float(combined[1])

    assert head("paper") == 0.5  # of the mean loss
    assert head("released") == pytest.approx(1 + 1 / 2)  # 1 of its own, and 1/|g|^2 that the other gave up


def test_zero_gradients_and_untouched_parameters() -> None:
    gradients = [[torch.zeros(2), None], [torch.tensor([1.0, -1.0]), None]]
    combined = project_conflicts(gradients, generator=random.Random(0))
    assert combined[0].tolist() == [0.5, -0.5]
    assert combined[1] is None


@pytest.mark.parametrize("preset", ["paper", "released"])
def test_parameters_get_the_combined_gradients(preset: Preset) -> None:
    torch.manual_seed(0)
    encoder = nn.Linear(4, 3).double()
    heads = [nn.Linear(3, 1).double() for _ in range(3)]
    parameters = [*encoder.parameters(), *(p for head in heads for p in head.parameters())]
    inputs = torch.randn(8, 4, dtype=torch.float64)
    targets = [torch.randn(8, 1, dtype=torch.float64) for _ in heads]

    def losses() -> list[Tensor]:
        hidden = encoder(inputs)  # computed once, for all tasks
        return [((head(hidden) - one) ** 2).mean() for head, one in zip(heads, targets, strict=True)]

    gradients = [
        torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True) for loss in losses()
    ]
    expected = project_conflicts(gradients, generator=random.Random(3), preset=preset)
    surgery = GradientSurgery(parameters, preset=preset)
    surgery.backward(losses(), generator=random.Random(3))
    for parameter, gradient in zip(parameters, expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_bad_options_are_named() -> None:
    with pytest.raises(InputError, match="does not support reduction 'median'"):
        project_conflicts([[torch.ones(1)]], generator=random.Random(0), reduction="median")
    with pytest.raises(InputError, match="does not support preset 'old'"):
        project_conflicts([[torch.ones(1)]], generator=random.Random(0), preset="old")
    with pytest.raises(InputError, match="every parameter"):
        project_conflicts([[torch.ones(1)], []], generator=random.Random(0))
