"""Linear layers in the form that is fastest on this processor.

More than four fifths of the time of a text encoder on a CPU goes into its linear layers, and the library
behind `nn.Linear` is not the fastest on every processor: on some with AVX-512, oneDNN with weights packed
beforehand is two to four times as fast, and faster still in bfloat16 where there are instructions for it; on
others the same calls are slower. So the layers of the model at hand are timed once per process, and nothing
is replaced unless it pays.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor, nn

from sentemb._compat import pack_linear_weight, packed_linear, packed_linear_dtypes
from sentemb.encoding.encoder import Precision

LinearKernel = Literal["stock", "packed", "packed-bfloat16"]
"""`stock`: `nn.Linear`. `packed`: oneDNN, weights packed beforehand, float32. `packed-bfloat16`: the same
with inputs, weights and outputs in bfloat16 and everything between the linear layers in float32."""

# A replacement has to win by more than timings scatter on a busy machine. Where it pays, it does so twofold.
_LEAST_GAIN = 1.25
_CALIBRATION_ROWS = 256
_CALIBRATION_ROUNDS = 5

Shapes = tuple[tuple[int, int, int], ...]
"""(out_features, in_features, how many) for each shape of linear layer in a model."""


class PackedLinear(nn.Module):
    """A linear layer with weights packed for oneDNN; inference only.

    Args:
        linear: The layer to stand in for. Its weights are copied: a later change to them is not seen.
        dtype: float32, or bfloat16 to compute in it.
    """

    def __init__(self, linear: nn.Linear, *, dtype: torch.dtype) -> None:
        super().__init__()
        self._dtype = dtype
        self._weight = pack_linear_weight(linear.weight.detach().to(dtype))
        self._bias = None if linear.bias is None else linear.bias.detach().to(dtype)

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the layer."""
        return packed_linear(inputs.to(self._dtype), self._weight, self._bias).to(inputs.dtype)


def choose_kernel(seconds: Mapping[LinearKernel, float], *, precision: Precision) -> LinearKernel:
    """Decide from timings which kernel to use."""
    allowed = [kernel for kernel in seconds if precision == "reduced" or kernel != "packed-bfloat16"]
    fastest = min(allowed, key=lambda kernel: seconds[kernel])
    return fastest if seconds["stock"] > _LEAST_GAIN * seconds[fastest] else "stock"


def kernel_for(model: nn.Module, *, precision: Precision) -> LinearKernel:
    """Choose the kernel for a model on this machine with the present number of threads."""
    shapes = _shapes(model)
    if not shapes or not packed_linear_dtypes():
        return "stock"
    return choose_kernel(_measure(shapes, torch.get_num_threads()), precision=precision)


def replace_linears(view: nn.Module, kernel: LinearKernel) -> None:
    """Put packed layers in the place of a view's linear layers."""
    if kernel == "stock":
        return
    dtype = torch.float32 if kernel == "packed" else torch.bfloat16
    for parent in list(view.modules()):
        for name, child in parent.named_children():
            if _is_replaceable(child):
                parent._modules[name] = PackedLinear(child, dtype=dtype)  # type: ignore[arg-type]


def _is_replaceable(module: nn.Module) -> bool:
    return (
        type(module) is nn.Linear  # a subclass (LoRA, quantised) computes something else
        and module.weight.device.type == "cpu"
        and module.weight.dtype == torch.float32
        and not module._forward_hooks
        and not module._forward_pre_hooks
    )


def _shapes(model: nn.Module) -> Shapes:
    counts = Counter(
        (module.out_features, module.in_features)
        for module in model.modules()
        if isinstance(module, nn.Linear) and _is_replaceable(module)
    )
    return tuple((rows, columns, count) for (rows, columns), count in sorted(counts.items()))


@lru_cache(maxsize=32)
def _measure(shapes: Shapes, threads: int) -> dict[LinearKernel, float]:
    """Time one pass through layers of the given shapes with every kernel that this processor has."""
    kernels: list[LinearKernel] = ["stock", "packed"]
    if torch.bfloat16 in packed_linear_dtypes():
        kernels.append("packed-bfloat16")
    seconds: dict[LinearKernel, float] = dict.fromkeys(kernels, 0.0)
    with torch.inference_mode():
        for out_features, in_features, count in shapes:
            # No random numbers: drawing some would change the course of a training that is being evaluated.
            inputs = torch.linspace(-1, 1, _CALIBRATION_ROWS * in_features).view(
                _CALIBRATION_ROWS, in_features
            )
            linear: nn.Linear = nn.utils.skip_init(  # type: ignore[no-untyped-call]
                nn.Linear, in_features, out_features
            )
            for parameter in linear.parameters():
                parameter.copy_(torch.linspace(-1, 1, parameter.numel()).view_as(parameter))
            layers = {kernel: _layer(linear, kernel) for kernel in kernels}
            for kernel, best in _best_of_rounds(layers, inputs).items():
                seconds[kernel] += count * best
    return seconds


def _layer(linear: nn.Linear, kernel: LinearKernel) -> nn.Module:
    if kernel == "stock":
        return linear
    return PackedLinear(linear, dtype=torch.float32 if kernel == "packed" else torch.bfloat16)


def _best_of_rounds(
    layers: Mapping[LinearKernel, Callable[[Tensor], Tensor]], inputs: Tensor
) -> dict[LinearKernel, float]:
    # Kernels take turns, so that what else runs on the machine disturbs all alike; the best round counts.
    best: dict[LinearKernel, float] = dict.fromkeys(layers, float("inf"))
    for _ in range(_CALIBRATION_ROUNDS):
        for kernel, layer in layers.items():
            start = time.perf_counter()
            layer(inputs)
            best[kernel] = min(best[kernel], time.perf_counter() - start)
    return best
