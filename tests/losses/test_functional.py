from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sentemb.losses import functional, self_guided
from sentemb.losses.self_guided import pool_tokens
from tests.losses import loops

TOLERANCE = {torch.float64: {"atol": 1e-9, "rtol": 1e-9}, torch.float32: {"atol": 1e-5, "rtol": 1e-5}}
SELF_GUIDED = {
    "base": functional.nt_xent,
    "opt1": self_guided.opt1,
    "opt2": self_guided.opt2,
}


def vectors(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("size", [1, 2, 16])
@pytest.mark.parametrize("objective", ["base", "opt1", "opt2"])
def test_single_view_objectives_equal_the_loops(objective: str, size: int, dtype: torch.dtype) -> None:
    u, v = vectors(size, 8, seed=1), vectors(size, 8, seed=2)
    expected = torch.stack(loops.OBJECTIVES[objective](u, v, temperature=0.1))
    losses = SELF_GUIDED[objective](u.to(dtype), v.to(dtype), temperature=0.1)
    torch.testing.assert_close(losses.double(), expected, **TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("layers", [1, 2, 5])
@pytest.mark.parametrize("size", [1, 2, 16])
def test_opt3_equals_the_loops(size: int, layers: int, dtype: torch.dtype) -> None:
    u, v = vectors(size, 8, seed=1), vectors(size, layers, 8, seed=2)
    expected = torch.stack(loops.opt3(u, v, temperature=0.1)).view(size, layers)
    losses = self_guided.opt3(u.to(dtype), v.to(dtype), temperature=0.1)
    torch.testing.assert_close(losses.double(), expected, **TOLERANCE[dtype])


@pytest.mark.parametrize("columns", [0, 1, 2])
@pytest.mark.parametrize("size", [1, 2, 16])
def test_info_nce_equals_the_loops(size: int, columns: int) -> None:
    first, second, *hard = (vectors(size, 8, seed=seed) for seed in range(2 + columns))
    expected = torch.stack(loops.simcse(first, second, hard, temperature=0.05))
    losses = functional.info_nce(first, second, temperature=0.05, hard_negatives=hard)
    torch.testing.assert_close(losses, expected, **TOLERANCE[torch.float64])


@pytest.mark.parametrize("size", [2, 3, 16])
def test_released_opt2_drops_view_1_for_anchor_0_and_view_0_for_the_others(size: int) -> None:
    u, v = vectors(size, 8, seed=1), vectors(size, 8, seed=2)
    losses = self_guided.opt2(u, v, temperature=0.1, drop_one=True)
    expected = torch.stack(loops.opt2(u, v, temperature=0.1, released=True))
    torch.testing.assert_close(losses, expected, **TOLERANCE[torch.float64])
    if size == 2:
        assert losses.tolist() == [0, 0]


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


@pytest.mark.parametrize("index", range(6))
def test_gradients_pass_gradcheck(index: int) -> None:
    u, v = vectors(3, 4, seed=1).requires_grad_(), vectors(3, 2, 4, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(lambda u, v: all_objectives(u, v)[index], (u, v))


def test_losses_follow_their_sentence_when_the_batch_is_permuted() -> None:
    u, v = vectors(5, 8, seed=1), vectors(5, 3, 8, seed=2)
    order = torch.tensor([3, 1, 4, 0, 2])
    for index, (plain, permuted) in enumerate(
        zip(all_objectives(u, v), all_objectives(u[order], v[order]), strict=True)
    ):
        if index == 4:
            continue  # the authors' slip depends on the place in the batch
        blocks = plain.view(2, 5)[:, order].flatten() if len(plain) == 10 else plain[order]
        torch.testing.assert_close(permuted, blocks)


@pytest.mark.parametrize("anchors", [slice(0, 2), slice(2, 5)])
def test_local_anchors_see_the_candidates_of_the_whole_batch(anchors: slice) -> None:
    u, v = vectors(5, 8, seed=1), vectors(5, 3, 8, seed=2)
    for whole, local in zip(all_objectives(u, v), all_objectives(u, v, anchors), strict=True):
        expected = whole.view(2, 5)[:, anchors].flatten() if len(whole) == 10 else whole[anchors]
        torch.testing.assert_close(local, expected)


def test_one_sentence_has_loss_zero_and_gradient_zero() -> None:
    u, v = vectors(1, 8, seed=1).requires_grad_(), vectors(1, 3, 8, seed=2).requires_grad_()
    for losses in all_objectives(u, v)[1:]:
        assert losses.abs().max() < 1e-12
        for gradient in torch.autograd.grad(losses.sum(), (u, v)):
            assert gradient.abs().max() < 1e-9


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
    hidden = vectors(3, 6, 4)
    mask = torch.tensor([[1] * 6, [1] * 4 + [0] * 2, [1] + [0] * 5])
    result = pool_tokens(hidden, mask, pooling=pooling)
    for row, length in enumerate((6, 4, 1)):
        torch.testing.assert_close(result[row], loops.pooled(hidden[row], length, pooling))
    noisy = hidden.masked_fill(mask.unsqueeze(2) == 0, 1e6)
    torch.testing.assert_close(pool_tokens(noisy, mask, pooling=pooling), result)


def test_pooling_a_row_without_tokens_gives_zero() -> None:
    hidden, mask = vectors(1, 3, 4), torch.zeros(1, 3)
    assert pool_tokens(hidden, mask, pooling="max").eq(0).all()
    assert pool_tokens(hidden, mask, pooling="mean").eq(0).all()


def test_mean_with_a_full_mask_is_the_plain_mean() -> None:
    hidden = vectors(2, 5, 4)
    torch.testing.assert_close(pool_tokens(hidden, torch.ones(2, 5), pooling="mean"), hidden.mean(1))
