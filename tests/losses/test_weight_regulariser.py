from __future__ import annotations

import pytest
import torch

from sentemb.losses.self_guided import squared_distance


def pairs(dtype: torch.dtype = torch.float64) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    torch.manual_seed(0)
    shapes = [(3, 4), (5,), (), (2, 3, 2)]
    parameters = [torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]
    return parameters, [torch.randn(shape, dtype=torch.float64).to(dtype) for shape in shapes]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_value_and_gradient_equal_autograd(dtype: torch.dtype, tolerance: float) -> None:
    parameters, references = pairs(dtype)
    expected = sum(((p - q) ** 2).sum() for p, q in zip(parameters, references, strict=True))
    value = squared_distance(parameters, references)
    assert value.dtype == dtype
    torch.testing.assert_close(value, expected, rtol=tolerance, atol=tolerance)
    found = torch.autograd.grad(0.3 * value, parameters)
    wanted = torch.autograd.grad(0.3 * expected, parameters)
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


def test_gradcheck() -> None:
    parameters, references = pairs()
    assert torch.autograd.gradcheck(lambda *tensors: squared_distance(tensors, references), tuple(parameters))


def test_value_and_gradient_are_exactly_zero_at_the_reference() -> None:
    parameters, _ = pairs(torch.float32)
    value = squared_distance(parameters, [p.detach().clone() for p in parameters])
    value.backward()
    assert value.item() == 0
    assert all(p.grad.eq(0).all() for p in parameters)


def test_gradients_accumulate_and_scale_with_what_comes_from_above() -> None:
    parameters, references = pairs()
    for _ in range(2):
        (squared_distance(parameters, references) * 1024 / 2).backward()
    for p, q in zip(parameters, references, strict=True):
        torch.testing.assert_close(p.grad, 1024 * 2 * (p - q).detach())


def test_it_adds_to_the_gradient_of_another_term() -> None:
    parameters, references = pairs()
    (squared_distance(parameters, references) + sum(p.sin().sum() for p in parameters)).backward()
    for p, q in zip(parameters, references, strict=True):
        torch.testing.assert_close(p.grad, (2 * (p - q) + p.cos()).detach())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_parameters_are_summed_in_float32(dtype: torch.dtype) -> None:
    parameter = torch.full((70_000,), 1.0, dtype=dtype, requires_grad=True)
    value = squared_distance([parameter], [torch.zeros(70_000, dtype=dtype)])
    assert value.item() == 70_000  # beyond the largest float16
    value.backward()
    assert parameter.grad.dtype == dtype
    assert parameter.grad.eq(2).all()


def test_nothing_trainable_gives_zero() -> None:
    assert squared_distance([], []).item() == 0


def test_no_difference_of_the_size_of_the_model_is_kept_for_the_backward_pass() -> None:
    kept: list[int] = []
    parameter, reference = torch.randn(1000, requires_grad=True), torch.randn(1000)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.data_ptr()) or t, lambda t: t):
        squared_distance([parameter], [reference])
    assert kept == [parameter.data_ptr()]
