"""Both losses of a teacher's vectors, compared with loops."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from sentemb.losses import CosineDistillationLoss, InBatchDistillationLoss
from tests.losses import loops
from tests.losses.loops import cosine


def draw(rows: int, width: int, *, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, width, generator=generator, dtype=torch.float64).requires_grad_()


def align(vectors: Tensor, teacher: Tensor) -> Tensor:
    return CosineDistillationLoss(nn.Identity()).compute_loss_from_embeddings([vectors], teacher)


def rank(queries: Tensor, documents: Tensor, teacher: Tensor) -> Tensor:
    loss = InBatchDistillationLoss(nn.Identity(), temperature=0.1)
    return loss.compute_loss_from_embeddings([queries, documents], teacher)


@pytest.mark.parametrize("rows", [1, 5])
def test_cosines_and_their_gradient_are_those_of_a_loop(rows: int) -> None:
    vectors, teacher = draw(rows, 4, seed=0), draw(rows, 4, seed=1).detach()
    expected = sum(1 - cosine(one, other) for one, other in zip(vectors, teacher, strict=True)) / rows
    loops.assert_equal(align(vectors, teacher), expected, [vectors])


def test_lengths_do_not_matter_and_equal_directions_cost_nothing() -> None:
    teacher = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    assert align(teacher * 7, teacher).item() == pytest.approx(0, abs=1e-6)
    assert align(-teacher, teacher).item() == pytest.approx(2)


def by_loop(queries: Tensor, documents: Tensor, labels: Tensor) -> Tensor:
    width = labels.shape[1] // 2
    teacher, student = [labels[:, :width], labels[:, width:]], [queries, documents]
    total = torch.zeros((), dtype=torch.float64)
    for side in (0, 1):
        for row in range(len(queries)):
            exponents, wanted = (
                [torch.exp(cosine(both[side][row], other) / 0.1) for other in both[1 - side]]
                for both in (student, teacher)
            )
            for place in range(len(queries)):
                total = total - wanted[place] / sum(wanted) * torch.log(exponents[place] / sum(exponents))
    return total / (2 * len(queries))


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_similarities_and_their_gradient_are_those_of_a_loop(rows: int) -> None:
    queries, documents = draw(rows, 4, seed=0), draw(rows, 4, seed=1)
    labels = draw(rows, 6, seed=2).detach()  # a teacher of 3 dimensions
    loops.assert_equal(
        rank(queries, documents, labels), by_loop(queries, documents, labels), [queries, documents]
    )


def test_nothing_is_better_than_the_teachers_own_vectors() -> None:
    queries, documents = draw(6, 3, seed=0), draw(6, 3, seed=1)
    labels = torch.cat([queries, documents], dim=1).detach()
    best = rank(queries, documents, labels)
    assert all(
        not gradient.abs().max() > 1e-12 for gradient in torch.autograd.grad(best, [queries, documents])
    )
    for seed in range(2, 7):
        assert rank(queries + draw(6, 3, seed=seed), documents, labels) > best


def test_zero_vectors_have_a_finite_loss_and_gradient() -> None:
    for compute, expected in (
        (lambda zeros: align(zeros, torch.ones(2, 3)), 1),
        (lambda zeros: rank(zeros, torch.ones(2, 3), torch.zeros(2, 4)), math.log(2)),
    ):
        zeros = torch.zeros(2, 3, requires_grad=True)
        value = compute(zeros)
        value.backward()
        assert value.item() == pytest.approx(expected)
        assert zeros.grad is not None and zeros.grad.isfinite().all()
