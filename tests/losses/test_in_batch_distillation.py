"""In-batch distillation, compared with a loop."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from sentemb.losses import InBatchDistillationLoss


def cosine(one: Tensor, other: Tensor) -> Tensor:
    return (one * other).sum() / (one.square().sum().sqrt() * other.square().sum().sqrt())


def by_loop(queries: Tensor, documents: Tensor, labels: Tensor, temperature: float) -> Tensor:
    taught = [labels[:, : labels.shape[1] // 2], labels[:, labels.shape[1] // 2 :]]
    given = [queries, documents]
    total = torch.zeros((), dtype=torch.float64)
    for side in (0, 1):
        for row in range(len(queries)):
            exponents, wanted = (
                [torch.exp(cosine(both[side][row], other) / temperature) for other in both[1 - side]]
                for both in (given, taught)
            )
            for place in range(len(queries)):
                total = total - wanted[place] / sum(wanted) * torch.log(exponents[place] / sum(exponents))
    return total / (2 * len(queries))


def compute(queries: Tensor, documents: Tensor, labels: Tensor | None, temperature: float = 0.1) -> Tensor:
    loss = InBatchDistillationLoss(nn.Identity(), temperature=temperature)
    return loss.compute_loss_from_embeddings([queries, documents], labels)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_value_and_gradient_are_those_of_a_loop(rows: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    queries, documents = (
        torch.randn(rows, 4, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(2)
    )
    labels = torch.randn(rows, 6, generator=generator, dtype=torch.float64)  # a teacher of 3 dimensions
    value, expected = compute(queries, documents, labels), by_loop(queries, documents, labels, 0.1)
    torch.testing.assert_close(value, expected)
    for found, wanted in zip(
        torch.autograd.grad(value, [queries, documents]),
        torch.autograd.grad(expected, [queries, documents]),
        strict=True,
    ):
        torch.testing.assert_close(found, wanted)
    assert torch.autograd.gradcheck(
        lambda *both: compute(*both, labels=labels), (queries, documents), fast_mode=True
    )


def test_nothing_is_better_than_the_teachers_own_vectors() -> None:
    generator = torch.Generator().manual_seed(0)
    queries, documents = (torch.randn(6, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    labels = torch.cat([queries, documents], dim=1)
    mine = (queries.clone().requires_grad_(), documents.clone().requires_grad_())
    best = compute(*mine, labels)
    assert all(not gradient.abs().max() > 1e-12 for gradient in torch.autograd.grad(best, mine))
    for other in range(5):
        generator = torch.Generator().manual_seed(1 + other)
        assert compute(queries + torch.randn(6, 3, generator=generator), documents, labels) > best


def test_texts_that_the_teacher_finds_equal_are_no_negatives() -> None:
    one, other = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    same = torch.stack([one, one, other])
    labels = torch.cat([same, same], dim=1)
    apart = torch.stack([one, -one, other])
    assert compute(same, same, labels) < compute(same, apart, labels)


def test_zero_vectors_have_a_finite_loss_and_gradient() -> None:
    queries = torch.zeros(2, 3, requires_grad=True)
    value = compute(queries, torch.ones(2, 3), torch.zeros(2, 4))
    value.backward()
    assert value.item() == pytest.approx(math.log(2)) and queries.grad is not None
    assert all(math.isfinite(number) for number in queries.grad.flatten().tolist())
