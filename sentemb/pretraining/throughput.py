"""What a step costs and what the machine could do."""

from __future__ import annotations

import platform
import time
from functools import cache
from typing import Literal

import torch
from transformers import PreTrainedModel

Precision = Literal["auto", "float32", "bfloat16"]

_SIDES = {"cpu": 512, "cuda": 4096}  # large enough to be near the peak, small enough to repeat
_SECONDS = 0.5


def matmul_rate(dtype: torch.dtype, device: torch.device) -> float:
    """Measured rate of square matrix products, for about half a second."""
    side = _SIDES.get(device.type, 1024)
    left = torch.randn(side, side, device=device).to(dtype)
    right = torch.randn(side, side, device=device).to(dtype)
    _finish(left @ right)  # the first product sets the library up
    count = 0
    started = time.perf_counter()
    while (passed := time.perf_counter() - started) < _SECONDS:
        _finish(left @ right)
        count += 1
    return count * 2 * side**3 / passed


def choose_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """The type to multiply in: bfloat16 where the hardware is faster at it, which many processors are not."""
    if precision != "auto":
        return torch.float32 if precision == "float32" else torch.bfloat16
    rates = {dtype: matmul_rate(dtype, device) for dtype in (torch.float32, torch.bfloat16)}
    return max(rates, key=lambda dtype: rates[dtype])


@cache
def faster_precision() -> Literal["float32", "bfloat16"]:
    """The precision of training in which this machine multiplies faster, measured once in a process."""
    device = torch.accelerator.current_accelerator() or torch.device("cpu")
    return "float32" if choose_dtype("auto", device) is torch.float32 else "bfloat16"


def operations_per_token(model: PreTrainedModel, length: int, masked_share: float) -> float:
    """Matrix-product operations of a training step, forward and backward, per token.

    Two operations per weight and token forward, four backward; the vocabulary is projected at the masked
    share of positions only; attention adds its two products over `length` positions. Element-wise work is not
    counted.
    """
    config = model.config
    inner = sum(p.numel() for name, p in model.base_model.named_parameters() if "embeddings" not in name)
    attention = 2 * length * config.hidden_size * config.num_hidden_layers
    decoder = masked_share * config.hidden_size * (config.vocab_size + config.hidden_size)
    return float(6 * (inner + attention + decoder))


def throughput_record(
    model: PreTrainedModel,
    *,
    tokens: float,
    seconds: float,
    length: int,
    masked_share: float,
    dtype: torch.dtype,
) -> dict[str, float | str]:
    """Speed of a run beside what the machine multiplies at, measured now."""
    needed = operations_per_token(model, length, masked_share)
    peak = matmul_rate(dtype, model.device)
    return {
        "tokens": round(tokens),
        "tokens_per_second": round(tokens / seconds, 1),
        "operations_per_token": round(needed),
        "gflops_achieved": round(needed * tokens / seconds / 1e9, 2),
        "gflops_of_matrix_products": round(peak / 1e9, 2),
        "share_of_matrix_products": round(needed * tokens / seconds / peak, 4),
        "precision": str(dtype).removeprefix("torch."),
        "device": torch.cuda.get_device_name(model.device)
        if model.device.type == "cuda"
        else platform.machine(),
    }


def _finish(product: torch.Tensor) -> None:
    if product.is_cuda:
        torch.cuda.synchronize(product.device)
