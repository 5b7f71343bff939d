"""Gradient surgery against loops over float64 vectors, and where the released code departs from the paper."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import Tensor

from sentemb.multitask.pcgrad import project_conflicts, projection_weights, visiting_orders

SIZES = (5, 3, 2, 2)
"""Parameters: an encoder of two tensors, a layer that only some tasks have, a head of the first task."""


def toy_gradients(tasks: int, seed: int) -> list[list[Tensor | None]]:
    generator = torch.Generator().manual_seed(seed)
    gradients: list[list[Tensor | None]] = []
    for task in range(tasks):
        row: list[Tensor | None] = [
            torch.randn(size, generator=generator, dtype=torch.float64) for size in SIZES
        ]
        row[2 if task == 0 else 3] = None  # sentiment does not have the layer of the pair tasks
        gradients.append(row)
    return gradients


def dense(row: list[Tensor | None]) -> np.ndarray:
    return np.concatenate([np.zeros(n) if g is None else g.numpy() for g, n in zip(row, SIZES, strict=True)])


def projected(own: np.ndarray, other: np.ndarray) -> np.ndarray:
    product = float(own @ other)
    return own - product / float(other @ other) * other if product < 0 else own


def by_paper(vectors: list[np.ndarray], shared: int, generator: random.Random) -> np.ndarray:
    """Yu et al., algorithm 1, on the shared entries: every task visits the others in a random order."""
    total = np.sum(vectors, axis=0)
    total[:shared] = 0
    for index, vector in enumerate(vectors):
        own = vector[:shared].copy()
        others = [j for j in range(len(vectors)) if j != index]
        for other in generator.sample(others, len(others)):
            own = projected(own, vectors[other][:shared])
        total[:shared] += own
    return total


def by_released_code(vectors: list[np.ndarray], shared: int, generator: random.Random) -> np.ndarray:
    """One list, itself included, shuffled in place; means of shared entries, sums of the others."""
    visited, total = list(vectors), np.zeros_like(vectors[0])
    for vector in vectors:
        own = vector.copy()
        generator.shuffle(visited)
        for other in visited:
            own = projected(own, other)
        total += own
    total[:shared] /= len(vectors)
    return total


@pytest.mark.parametrize("preset", ["paper", "released"])
@pytest.mark.parametrize("tasks", [2, 3, 4])
def test_it_equals_the_loops(tasks: int, preset: str) -> None:
    for seed in range(6):
        gradients = toy_gradients(tasks, seed)
        combined = project_conflicts(gradients, generator=random.Random(seed), preset=preset)
        loops = by_paper if preset == "paper" else by_released_code
        expected = loops([dense(row) for row in gradients], sum(SIZES[:2]), random.Random(seed))
        if preset == "paper":
            expected /= tasks
        np.testing.assert_allclose(dense(combined), expected, atol=1e-12)


def test_only_the_released_code_visits_the_task_itself() -> None:
    """The first gradient ends against its own original; the visit to itself takes that away again."""
    vectors = torch.tensor([[1.0, 0.0], [-1.0, 1.0], [-1.0, -0.5]], dtype=torch.float64)
    products = vectors @ vectors.T
    without = projection_weights(products, [[1, 2], [], []])[0] @ vectors
    assert without @ vectors[0] < 0
    itself = projection_weights(products, [[1, 2, 0], [], []])[0] @ vectors
    assert abs(float(itself @ vectors[0])) < 1e-12
    orders = {preset: visiting_orders(3, random.Random(1), preset) for preset in ("paper", "released")}
    assert all(sorted(order) == [0, 1, 2] for order in orders["released"])
    assert [sorted(order) for order in orders["paper"]] == [[1, 2], [0, 2], [0, 1]]


def test_two_tasks_end_without_conflict() -> None:
    first, second = (torch.tensor(values, dtype=torch.float64) for values in ([2.0, 0.0], [-1.0, 1.0]))
    combined = project_conflicts([[first], [second]], generator=random.Random(0))
    # The mean of (1, 1) and (0, 1): each lost its part along the other.
    np.testing.assert_allclose(combined[0], [0.5, 1.0])


def test_without_conflict_the_paper_is_the_mean_of_the_losses() -> None:
    gradients = [[torch.ones(2), torch.ones(1), None], [torch.tensor([1.0, 3.0]), None, torch.ones(1)]]
    combined = project_conflicts(gradients, generator=random.Random(0))
    assert [entry.tolist() for entry in combined if entry is not None] == [[1.0, 2.0], [0.5], [0.5]]
    gradients = [[torch.zeros(2), None], [torch.tensor([1.0, -1.0]), None]]
    shared, untouched = project_conflicts(gradients, generator=random.Random(0))
    assert shared.tolist() == [0.5, -0.5]
    assert untouched is None


def test_a_conflict_rescales_a_head_only_in_the_released_code() -> None:
    encoder = [torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 0.5])]
    gradients = [[encoder[0], torch.ones(1), None], [encoder[1], None, torch.ones(1)]]
    # 0.5 of the mean loss; 1 of its own, and 1/|g|^2 that the other gave up.
    for preset, expected in (("paper", 0.5), ("released", 1.5)):
        combined = project_conflicts(gradients, generator=random.Random(0), preset=preset)
        assert float(combined[1]) == pytest.approx(expected)
