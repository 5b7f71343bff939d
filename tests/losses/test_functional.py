"""Check what holds for all objectives alike; the tests of their losses compare them with loops."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sentemb.losses import functional, self_guided
from sentemb.losses.self_guided import pool_tokens
from tests.losses import loops


def vectors(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def all_objectives(u: Tensor, v: Tensor, anchors: slice = slice(None)) -> list[Tensor]:
    options = {"temperature": 0.2, "anchors": anchors}
    return [
        functional.info_nce(u, v[:, 0], hard_negatives=[v[:, 1]], **options),
        functional.nt_xent(u, v[:, 0], **options),
        self_guided.opt1(u, v[:, 0], **options),
        self_guided.opt2(u, v[:, 0], **options),
        self_guided.opt2(u, v[:, 0], drop_one=True, **options),
        self_guided.opt3(u, v, **options),
    ]


@pytest.mark.parametrize("anchors", [slice(0, 2), slice(2, 5)])
def test_local_anchors_see_the_candidates_of_the_whole_batch(anchors: slice) -> None:
    u, v = vectors(5, 8, seed=1), vectors(5, 3, 8, seed=2)
    for whole, local in zip(all_objectives(u, v), all_objectives(u, v, anchors), strict=True):
        expected = whole.view(2, 5)[:, anchors].flatten() if len(whole) == 10 else whole[anchors]
        torch.testing.assert_close(local, expected)


def test_duplicated_texts_stay_negatives_and_finite() -> None:
    u = vectors(1, 8).expand(4, 8)
    v = u.unsqueeze(1).expand(4, 3, 8)
    opt3 = self_guided.opt3(u, v, temperature=0.01)
    torch.testing.assert_close(opt3, torch.full((4, 3), 10.0, dtype=torch.float64).log())
    torch.testing.assert_close(
        functional.info_nce(u, u, temperature=0.01), torch.full((4,), 4.0).double().log()
    )


def test_zero_vectors_receive_no_gradient() -> None:
    u, v = torch.zeros(3, 8, requires_grad=True), torch.randn(3, 2, 8, requires_grad=True)
    for losses in all_objectives(u, v):
        assert losses.isfinite().all()
        gradients = torch.autograd.grad(losses.sum(), (u, v), retain_graph=True)
        assert gradients[0].eq(0).all()
        assert gradients[1].isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    u, v = vectors(4, 8, seed=1, dtype=dtype), vectors(4, 3, 8, seed=2, dtype=dtype)
    for half, full in zip(all_objectives(u, v), all_objectives(u.float(), v.float()), strict=True):
        assert half.dtype == torch.float32
        torch.testing.assert_close(half, full, rtol=0, atol=0)


def test_autocast_does_not_reach_the_logits() -> None:
    u, v = vectors(4, 8, seed=1, dtype=torch.float32), vectors(4, 3, 8, seed=2, dtype=torch.float32)
    plain = all_objectives(u, v)
    with torch.autocast("cpu", torch.bfloat16):
        inside = all_objectives(u, v)
    for first, second in zip(plain, inside, strict=True):
        torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.parametrize("pooling", ["max", "mean"])
def test_pooling_counts_masked_positions_only(pooling: str) -> None:
    hidden = vectors(4, 6, 4)
    mask = torch.tensor([[1] * 6, [1] * 4 + [0] * 2, [1] + [0] * 5, [0] * 6])
    result = pool_tokens(hidden, mask, pooling=pooling)
    for row, length in enumerate((6, 4, 1)):
        torch.testing.assert_close(result[row], loops.pooled(hidden[row], length, pooling))
    assert result[3].eq(0).all()
    noisy = hidden.masked_fill(mask.unsqueeze(2) == 0, 1e6)
    torch.testing.assert_close(pool_tokens(noisy, mask, pooling=pooling), result)
