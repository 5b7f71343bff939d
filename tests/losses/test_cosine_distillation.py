"""Cosine distillation, compared with a loop."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from sentemb.losses import CosineDistillationLoss


def by_loop(vectors: Tensor, wanted: Tensor) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for own, teacher in zip(vectors, wanted, strict=True):
        product = sum(
            (a * b for a, b in zip(own, teacher, strict=True)), torch.zeros((), dtype=torch.float64)
        )
        lengths = own.square().sum().sqrt() * teacher.square().sum().sqrt()
        total = total + 1 - product / lengths
    return total / len(vectors)


@pytest.mark.parametrize("rows", [1, 5])
def test_value_and_gradient_are_those_of_a_loop(rows: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    wanted = torch.randn(rows, 4, generator=generator, dtype=torch.float64)
    vectors = torch.randn(rows, 4, generator=generator, dtype=torch.float64).requires_grad_()
    value = CosineDistillationLoss(nn.Identity()).compute_loss_from_embeddings([vectors], wanted)
    expected = by_loop(vectors, wanted)
    torch.testing.assert_close(value, expected)
    (gradient,) = torch.autograd.grad(value, vectors)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, vectors)[0])
    assert torch.autograd.gradcheck(
        lambda one: CosineDistillationLoss(nn.Identity()).compute_loss_from_embeddings([one], wanted), vectors
    )


def test_lengths_do_not_matter_and_equal_directions_cost_nothing() -> None:
    loss = CosineDistillationLoss(nn.Identity())
    wanted = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    assert loss.compute_loss_from_embeddings([wanted * 7], wanted).item() == pytest.approx(0, abs=1e-6)
    assert loss.compute_loss_from_embeddings([-wanted], wanted).item() == pytest.approx(2)


def test_a_zero_vector_has_a_finite_loss_and_gradient() -> None:
    vectors = torch.zeros(2, 3, requires_grad=True)
    value = CosineDistillationLoss(nn.Identity()).compute_loss_from_embeddings([vectors], torch.ones(2, 3))
    value.backward()
    assert value.item() == 1 and vectors.grad is not None
    assert all(math.isfinite(number) for number in vectors.grad.flatten().tolist())
