"""The number type that a machine multiplies faster in."""

from __future__ import annotations

import time
from functools import cache
from typing import Literal

import torch

Precision = Literal["auto", "float32", "bfloat16"]

_SIDES = {"cpu": 512, "cuda": 4096}  # large enough to be near the peak, small enough to repeat
_SECONDS = 0.5


def matmul_rate(dtype: torch.dtype, device: torch.device) -> float:
    """Measure the rate of square matrix products, for about half a second."""
    side = _SIDES.get(device.type, 1024)
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    _finish(left @ right)  # the first product sets the library up
    count, started = 0, time.perf_counter()
    while (passed := time.perf_counter() - started) < _SECONDS:
        _finish(left @ right)
        count += 1
    return count * 2 * side**3 / passed


def choose_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """Return the type to multiply in: bfloat16 where the hardware is faster at it, which many are not."""
    if precision != "auto":
        return torch.float32 if precision == "float32" else torch.bfloat16
    return max((torch.float32, torch.bfloat16), key=lambda dtype: matmul_rate(dtype, device))


@cache
def faster_precision() -> Literal["float32", "bfloat16"]:
    """Return the precision in which this machine multiplies faster, measured once in a process."""
    device = torch.accelerator.current_accelerator() or torch.device("cpu")
    return "float32" if choose_dtype("auto", device) is torch.float32 else "bfloat16"


def _finish(product: torch.Tensor) -> None:
    if product.is_cuda:
        torch.cuda.synchronize(product.device)
