"""Linear layers in the form that is fastest on this processor, with the same bits for any number of rows.

Behind `nn.Linear` is MKL, which uses AVX-512 on Intel's own processors only. oneDNN with weights packed
beforehand uses it on all: from a width of 128 on it is 2.1 to 2.4 times as fast as MKL on AMD Zen 5, equally
fast on Intel, and 2.6 to 4.4 times as fast in bfloat16.

A row of a product must not depend on how many rows there are, or a text's vector would change with its batch.
Libraries do not promise this: the kernel they take depends on processor, shape and number of rows. Therefore
each shape is tried on the processor at hand (`row_plan`), and a layer is called only with numbers of rows
that gave the same bits there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from transformers.activations import GELUActivation

from sentemb._compat import pack_linear_weight, packed_linear, packed_linear_dtypes
from sentemb._machine import multiplies_bfloat16
from sentemb._threads import one_thread, one_thread_each
from sentemb.encoding.encoder import Precision

LinearKernel = Literal["stock", "packed", "packed-bfloat16"]
"""`stock`: `nn.Linear`. `packed`: oneDNN, weights packed beforehand, float32. `packed-bfloat16`: the same
with inputs, weights and outputs in bfloat16; sums over layers and norms stay in float32."""

_NARROWEST = 128  # below, a call to oneDNN costs more than it gains
SIZES: tuple[int, ...] = (
    *range(8, 65, 8),
    *(80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024),
    *(1536, 2048, 3072, 4096),
)
"""Numbers of rows with which a kernel is called. Other numbers of rows are padded: the libraries compile a
product for each number, which takes milliseconds, and in which sums may run in another order."""
_DISTINCT = 7  # rows that differ, in turn, so that rows left over by a tile are not all alike
_LOADS = tuple(1 << exponent for exponent in range(3, 13))  # from one text to a large batch
_ALIGNED = 16  # a block starts at a multiple of this: its memory is aligned as that of a whole batch
_FEW = 32  # padding a few texts to so many rows costs nothing that can be measured
_MOST_PADDING = 0.25  # a larger share of padding costs more than a second call
_ROWS_OF_A_CALL = 16  # that cost as much as a call
_MOST_DIVIDED = 64  # tokens of a text whose products are divided among threads
_UNDIVIDED = 32_768  # numbers from which torch divides an operation
_WHOLE = 128  # numbers that up to four threads have whole vectors of


class Processor(NamedTuple):
    """Features of a processor that decide which kernel is fast."""

    packs: bool  # layers can be packed in float32
    avx512: bool  # packed layers are at least as fast as `nn.Linear` in float32
    bfloat16: bool  # and there are instructions for bfloat16


class Shape(NamedTuple):
    """The shape of a linear layer, and whether it applies GELU."""

    inputs: int
    outputs: int
    bias: bool
    gelu: bool = False


@dataclass(frozen=True)
class RowPlan:
    """Sizes of calls of a kernel for which each row of the output has the same bits."""

    steady: tuple[int, ...]  # the sizes that gave the same bits, ascending; empty if none did

    @property
    def is_plain(self) -> bool:
        """True if a few rows are padded at most, and more than a few are one call."""
        return bool(self.steady) and self.steady[0] <= _FEW and self.steady == SIZES[-len(self.steady) :]

    def blocks(self, rows: int) -> list[int]:
        """Split a number of rows into calls; the last one may be longer than what is left, and is padded."""
        if not self.steady:
            return [rows]
        if (whole := padded_rows(rows)) in self.steady:
            return [whole]
        blocks = []
        while rows > 0:
            blocks.append(self._next_block(rows))
            rows -= blocks[-1]
        return blocks

    @property
    def cost(self) -> float:
        """Cost of calls for one text up to a large batch."""
        calls = ((rows, self.blocks(rows)) for rows in _LOADS)
        return sum((sum(blocks) + _ROWS_OF_A_CALL * len(blocks)) / rows for rows, blocks in calls)

    def _next_block(self, rows: int) -> int:
        """Return a steady size that needs little padding, or the largest one without any."""
        place = bisect_left(self.steady, rows)
        if place < len(self.steady) and self.steady[place] <= rows * (1 + _MOST_PADDING):
            return self.steady[place]
        filled = [size for size in self.steady[:place] if size % _ALIGNED == 0]
        return filled[-1] if filled else self.steady[place]


def padded_rows(rows: int) -> int:
    """Return the size to which a number of rows is padded; beyond the largest one, a sum of sizes."""
    whole, rest = divmod(max(rows, 1) - 1, SIZES[-1])
    return whole * SIZES[-1] + SIZES[bisect_left(SIZES, rest + 1)]


@cache
def this_processor() -> Processor:
    """Return the features of this machine's processor; an older torch that cannot tell them has none."""
    features: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    dtypes = packed_linear_dtypes()
    return Processor(
        packs=torch.float32 in dtypes,
        avx512=bool(features.get("avx512_f")),
        bfloat16=torch.bfloat16 in dtypes and multiplies_bfloat16(),
    )


class PackedLinear(nn.Module):
    """A linear layer with weights packed for oneDNN: a copy, which does not follow the layer.

    Outputs are in float32, or stay in the dtype of the weights.
    """

    def __init__(
        self, linear: nn.Linear, *, dtype: torch.dtype, gelu: bool = False, keep_dtype: bool = False
    ) -> None:
        super().__init__()
        self._dtype, self._gelu, self._keep_dtype = dtype, gelu, keep_dtype
        self._weight = pack_linear_weight(linear.weight.detach().to(dtype))
        self._bias = None if linear.bias is None else linear.bias.detach().to(dtype)

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the layer."""
        outputs = packed_linear(inputs.to(self._dtype), self._weight, self._bias, gelu=self._gelu)
        return outputs if self._keep_dtype else outputs.float()


class SteadyLinear(nn.Linear):
    """A view of a linear layer in which a row of the output does not depend on how many rows there are."""

    def __init__(
        self, linear: nn.Linear, kernel: LinearKernel, *, gelu: bool = False, keep_dtype: bool = False
    ) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self._parameters = linear._parameters if kernel == "stock" else {}
        self._shape = shape_of(linear)._replace(gelu=gelu)
        self._product = _product_by(kernel, linear, gelu=gelu, keep_dtype=keep_dtype)
        self._kernel, self._plan = kernel, row_plan(kernel, self._shape)
        self.training = linear.training

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the layer in blocks of steady numbers of rows."""
        rows = inputs.numel() // max(1, inputs.shape[-1])
        blocks = self._plan.blocks(rows)
        if rows == 0 or blocks == [rows]:
            return self._product(inputs)
        flat = inputs.reshape(rows, inputs.shape[-1])
        parts = [self._product(block) for block in _cut(flat, blocks)]
        outputs = parts[0] if len(parts) == 1 else torch.cat(parts)
        return outputs[:rows].reshape(*inputs.shape[:-1], self.out_features)

    def is_divisible(self, rows: int) -> bool:
        """Return whether a number of rows has the same bits with all of this thread's threads as with one."""
        threads = torch.get_num_threads()
        return all(
            _is_divisible(self._kernel, self._shape, threads, block) for block in self._plan.blocks(rows)
        )


@cache
def row_plan(kernel: LinearKernel, shape: Shape) -> RowPlan:
    """Find out on this processor with which numbers of rows a kernel gives the same bits.

    A few rows are repeated, so that their outputs must be too. The terms of each sum cancel out: what is left
    is the rounding error, which any other order of summation changes, in bfloat16 as well.
    """
    product, inputs = _trial(kernel, shape, SIZES[-1])
    groups: defaultdict[bytes, list[int]] = defaultdict(list)
    with one_thread(), torch.inference_mode():
        for rows in SIZES:
            outputs = product(inputs[:rows])
            if torch.equal(outputs[:-_DISTINCT], outputs[_DISTINCT:]):
                groups[outputs[:_DISTINCT].float().numpy().tobytes()].append(rows)
    usable = [rows for rows in groups.values() if any(number % _ALIGNED == 0 for number in rows)]
    return min((RowPlan(tuple(rows)) for rows in usable), key=lambda plan: plan.cost, default=RowPlan(()))


@cache
def _is_divisible(kernel: LinearKernel, shape: Shape, threads: int, rows: int) -> bool:
    """Find out here whether so many threads, all that there are, give the bits of one."""
    product, inputs = _trial(kernel, shape, rows)
    with torch.inference_mode():
        divided = product(inputs[:rows])
        with one_thread():
            return torch.equal(divided, product(inputs[:rows]))


def _trial(kernel: LinearKernel, shape: Shape, rows: int) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """Return a product whose sums cancel out, and at least so many inputs."""
    linear, distinct = _cancelling(shape)
    if kernel == "packed-bfloat16":
        # The products are then exact, and the halves of a sum still cancel out.
        linear.weight.data, distinct = linear.weight.data.bfloat16().float(), distinct.bfloat16().float()
    product = _product_by(kernel, linear, gelu=shape.gelu)
    return product, distinct.repeat(rows // _DISTINCT + 1, 1)


def _cancelling(shape: Shape) -> tuple[nn.Linear, Tensor]:
    """Make a layer and inputs (distinct, inputs) whose products add up to zero, but for an odd one."""
    generator = torch.Generator().manual_seed(0)
    half = shape.inputs // 2
    # Not initialised, which would draw from the generator of a run.
    linear = nn.Linear(shape.inputs, shape.outputs, bias=shape.bias, dtype=torch.float32, device="meta")
    linear.to_empty(device="cpu")
    order = torch.randperm(half, generator=generator)

    def with_negative(rows: int, sign: int) -> Tensor:
        values = torch.randn(rows, shape.inputs - half, generator=generator)
        return torch.cat([values[:, :half], sign * values[:, order], values[:, half:]], dim=1)

    with torch.no_grad():
        linear.weight.copy_(with_negative(shape.outputs, -1))
        if shape.bias:
            linear.bias.zero_()
    return linear, with_negative(_DISTINCT, 1)


def try_shapes(kernel: LinearKernel, shapes: Iterable[Shape]) -> None:
    """Try several shapes at once, of which `SteadyLinear` would try one after another."""
    with one_thread_each() as pool:
        list(pool.map(partial(row_plan, kernel), shapes))


def choose_kernel(
    processor: Processor,
    shapes: Iterable[Shape],
    *,
    precision: Precision,
    plan: Callable[[LinearKernel, Shape], RowPlan] = row_plan,
) -> LinearKernel:
    """Choose the fastest kernel for layers of some shapes; in float32 one that needs no blocks, if any."""
    shapes = set(shapes)
    if not shapes or min(min(shape.inputs, shape.outputs) for shape in shapes) < _NARROWEST:
        return "stock"
    if precision == "reduced" and processor.bfloat16:
        return "packed-bfloat16"
    kernels: list[LinearKernel] = ["stock", "packed"] if processor.packs else ["stock"]
    if processor.avx512:
        kernels.reverse()
    with one_thread_each() as pool:
        for kernel in kernels:
            if all(found.is_plain for found in pool.map(partial(plan, kernel), shapes)):
                return kernel
    return kernels[0]


def kernel_for(model: nn.Module, *, precision: Precision) -> LinearKernel:
    """Choose the kernel for a model on this machine."""
    return choose_kernel(this_processor(), linear_shapes(model), precision=precision)


def linear_shapes(model: nn.Module) -> set[Shape]:
    """Return the shapes of the linear layers that can be replaced."""
    return {shape_of(module) for module in model.modules() if is_replaceable(module)}  # type: ignore[arg-type]


def replace_linears(view: nn.Module, kernel: LinearKernel) -> None:
    """Replace the linear layers of a view by steady ones that use a kernel."""
    for parent in list(view.modules()):
        for name, child in parent.named_children():
            if is_replaceable(child):
                parent._modules[name] = SteadyLinear(child, kernel)  # type: ignore[arg-type]


def is_divisible(view: nn.Module, tokens: int) -> bool:
    """Return whether one text of so many tokens has the same bits with all of this thread's threads.

    Besides linear layers, torch divides operations on single numbers, whose bits stay if each thread has
    whole vectors of the processor; it must not divide sums over tokens.
    """
    linears = [module for module in view.modules() if isinstance(module, nn.Linear)]
    steady = [linear for linear in linears if isinstance(linear, SteadyLinear)]
    return (
        len(linears) == len(steady) > 0
        and tokens <= _MOST_DIVIDED
        and padded_rows(tokens) * steady[0].in_features < _UNDIVIDED
        and torch.get_num_threads() in (2, 4)
        and all(linear.out_features % _WHOLE == linear.in_features % _WHOLE == 0 for linear in steady)
        and all(linear.is_divisible(rows) for linear in steady for rows in (1, tokens))
    )


def _product_by(
    kernel: LinearKernel, linear: nn.Linear, *, gelu: bool = False, keep_dtype: bool = False
) -> Callable[[Tensor], Tensor]:
    if kernel == "stock":
        return linear
    dtype = torch.float32 if kernel == "packed" else torch.bfloat16
    return PackedLinear(linear, dtype=dtype, gelu=gelu, keep_dtype=keep_dtype)


def applies_gelu(kernel: LinearKernel, linear: nn.Linear, activation: Any) -> bool:
    """Return whether a layer can apply the activation after it: GELU by the error function."""
    exact = type(activation) is nn.GELU and activation.approximate == "none"
    is_gelu = exact or (type(activation) is GELUActivation and activation.act is nn.functional.gelu)
    return is_gelu and _fuses_gelu(kernel, shape_of(linear))


@cache
def _fuses_gelu(kernel: LinearKernel, shape: Shape) -> bool:
    """Return whether a layer that applies GELU gives the bits of both operations; bfloat16 has fewer bits."""
    if kernel == "stock":
        return False
    if kernel == "packed-bfloat16":
        return True
    linear, _ = _cancelling(shape)
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(512, shape.inputs, generator=generator)
    with torch.inference_mode():
        # Outputs of -12 to 12.
        weight = torch.randn(shape.outputs, shape.inputs, generator=generator)
        linear.weight.data = weight * (3 / shape.inputs**0.5)
        alone, fused = (_product_by(kernel, linear, gelu=gelu) for gelu in (False, True))
        return all(
            torch.equal(nn.functional.gelu(alone(inputs[:rows])), fused(inputs[:rows])) for rows in (16, 512)
        )


def _cut(rows: Tensor, blocks: list[int]) -> Iterable[Tensor]:
    start = 0
    for size in blocks:
        block = rows[start : start + size]
        start += size
        yield block if len(block) == size else nn.functional.pad(block, (0, 0, 0, size - len(block)))


def shape_of(linear: nn.Linear, *, copies: int = 1) -> Shape:
    """Return the shape of a layer, or of several copies as one layer."""
    return Shape(linear.in_features, copies * linear.out_features, linear.bias is not None)


def is_replaceable(module: nn.Module) -> bool:
    """Return whether a module is an ordinary linear layer in float32 on the CPU."""
    return (
        type(module) is nn.Linear  # a subclass (LoRA, quantized) computes something else
        and module.weight.device.type == "cpu"
        and module.weight.dtype == torch.float32
        and not module._forward_hooks
        and not module._forward_pre_hooks
    )
