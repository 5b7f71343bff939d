"""Linear layers in the form that is fastest on this processor.

Behind `nn.Linear` is MKL, which uses AVX-512 on Intel's own processors only: on others that have it, oneDNN
with weights packed beforehand is 2.1 to 2.4 times as fast from a width of 128 on, and 2.6 to 4.4 times in
bfloat16 (AMD Zen 5). The choice follows from processor and layers alone, so that vectors repeat.

A row of a product must not depend on how many rows there are. With one thread it does not from 4 rows on, in
any of the kernels, with AVX-512 or AVX2 (measured for 1 to 2,048 rows of twelve shapes); fewer are computed
by others, of one row MKL and oneDNN make a product of a matrix and a vector. So there are never fewer.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from sentemb._compat import pack_linear_weight, packed_linear, packed_linear_dtypes
from sentemb.encoding.encoder import Precision

LinearKernel = Literal["stock", "packed", "packed-bfloat16"]
"""`stock`: `nn.Linear`. `packed`: oneDNN, weights packed beforehand, float32. `packed-bfloat16`: the same
with inputs, weights and outputs in bfloat16 and everything between the linear layers in float32."""

# Below, a call to oneDNN costs more than it gains.
_NARROWEST = 128
# Twice as many as it takes: they cost nothing.
_FEWEST_ROWS = 8


class Processor(NamedTuple):
    """What decides which kernel is fast."""

    packs: bool  # packed layers are faster than `nn.Linear` in float32
    bfloat16: bool  # and there are instructions for bfloat16


@lru_cache(maxsize=1)
def this_processor() -> Processor:
    """The features of this machine's processor; an older torch that cannot tell them has none."""
    features: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    dtypes = packed_linear_dtypes()
    intel = "Intel" in str(features.get("cpu_name", "Intel"))
    instructions = features.get("avx512_bf16") or features.get("amx_bf16")
    return Processor(
        packs=torch.float32 in dtypes and bool(features.get("avx512_f")) and not intel,
        bfloat16=torch.bfloat16 in dtypes and bool(instructions),
    )


class SteadyLinear(nn.Module):
    """A linear layer of which a row of the output does not depend on how many there are."""

    def __init__(self, linear: nn.Module) -> None:
        super().__init__()
        self._linear = linear

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the layer, to rows of zeros besides where there are few."""
        rows = inputs.numel() // max(1, inputs.shape[-1])
        if not 0 < rows < _FEWEST_ROWS:
            outputs: Tensor = self._linear(inputs)
            return outputs
        flat = inputs.reshape(rows, inputs.shape[-1])
        padded = torch.nn.functional.pad(flat, (0, 0, 0, _FEWEST_ROWS - rows))
        few: Tensor = self._linear(padded)[:rows]
        return few.reshape(*inputs.shape[:-1], few.shape[-1])


class PackedLinear(nn.Module):
    """A linear layer with weights packed for oneDNN: a copy, which sees no later change of the layer."""

    def __init__(self, linear: nn.Linear, *, dtype: torch.dtype) -> None:
        super().__init__()
        self._dtype = dtype
        self._weight = pack_linear_weight(linear.weight.detach().to(dtype))
        self._bias = None if linear.bias is None else linear.bias.detach().to(dtype)

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the layer."""
        return packed_linear(inputs.to(self._dtype), self._weight, self._bias).to(inputs.dtype)


def choose_kernel(processor: Processor, narrowest: int, *, precision: Precision) -> LinearKernel:
    """Decide from the processor and the narrowest side of a model's layers which kernel to use."""
    if narrowest < _NARROWEST:
        return "stock"
    if precision == "reduced" and processor.bfloat16:
        return "packed-bfloat16"
    return "packed" if processor.packs else "stock"


def kernel_for(model: nn.Module, *, precision: Precision) -> LinearKernel:
    """Choose the kernel for a model on this machine."""
    return choose_kernel(this_processor(), narrowest_layer(model), precision=precision)


def narrowest_layer(model: nn.Module) -> int:
    """The narrowest side of the linear layers that could be replaced; 0 where there are none."""
    sides = [
        min(module.in_features, module.out_features)
        for module in model.modules()
        if isinstance(module, nn.Linear) and _is_replaceable(module)
    ]
    return min(sides, default=0)


def replace_linears(view: nn.Module, kernel: LinearKernel) -> None:
    """Put steady layers in the place of a view's linear layers, packed ones if the kernel says so."""
    for parent in list(view.modules()):
        for name, child in parent.named_children():
            if _is_replaceable(child):
                parent._modules[name] = SteadyLinear(_by(kernel, child))  # type: ignore[arg-type]


def _by(kernel: LinearKernel, linear: nn.Linear) -> nn.Module:
    if kernel == "stock":
        return linear
    return PackedLinear(linear, dtype=torch.float32 if kernel == "packed" else torch.bfloat16)


def _is_replaceable(module: nn.Module) -> bool:
    return (
        type(module) is nn.Linear  # a subclass (LoRA, quantised) computes something else
        and module.weight.device.type == "cpu"
        and module.weight.dtype == torch.float32
        and not module._forward_hooks
        and not module._forward_pre_hooks
    )
