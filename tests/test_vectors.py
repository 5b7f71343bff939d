from __future__ import annotations

import pytest
import torch

from sentemb._vectors import cosine_similarity, first_equal, full_precision, unit_vectors


def test_cosine_equals_torch_with_any_leading_dimensions() -> None:
    torch.manual_seed(0)
    first, second = torch.randn(4, 5, 8, dtype=torch.float64), torch.randn(6, 8, dtype=torch.float64)
    expected = torch.nn.functional.cosine_similarity(first.unsqueeze(2), second, dim=3)
    torch.testing.assert_close(cosine_similarity(first, second), expected)
    assert cosine_similarity(first, second.float()).dtype == torch.float64


def test_zero_vectors_have_cosine_zero_and_receive_no_gradient() -> None:
    first, second = torch.zeros(2, 8, requires_grad=True), torch.randn(3, 8, requires_grad=True)
    cosine = cosine_similarity(first, second)
    cosine.sum().backward()
    assert not cosine.any()
    assert not first.grad.any()
    assert second.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32_also_under_autocast(dtype: torch.dtype) -> None:
    vectors = torch.randn(4, 8).to(dtype)
    exact = cosine_similarity(vectors.float(), vectors.float())
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(cosine_similarity(vectors, vectors), exact, atol=0, rtol=0)
    assert unit_vectors(vectors).dtype == full_precision(vectors).dtype == torch.float32


def test_equal_rows_are_found_wherever_they_are() -> None:
    rows = torch.tensor([[3.0, 1.0], [1.0, 2.0], [3.0, 1.0], [0.0, 0.0], [1.0, 2.0], [3.0, 1.0]])
    assert first_equal(rows).tolist() == [0, 1, 0, 3, 1, 0]
    assert first_equal(torch.randn(50, 3)).tolist() == list(range(50))
