"""The processor, cores and memory of this machine."""

from __future__ import annotations

import os
import platform
import re
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal


def processor_name() -> str:
    """Return the name of the processor."""
    # platform.processor() is empty or just "x86_64" on Linux.
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_gib() -> float | None:
    """Return the size of the memory in GiB; None where the system does not tell."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None


def multiplies_bfloat16() -> bool:
    """Return whether the processor has instructions for it; an older torch cannot tell."""
    import torch

    features: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(features.get("avx512_bf16") or features.get("amx_bf16"))


def faster_precision() -> Literal["float32", "bfloat16"]:
    """Return the precision in which this machine multiplies faster.

    Its features decide. A measurement depends on what else the machine does, so that a run would resume in
    another precision.
    """
    import torch

    if torch.cuda.is_available():
        is_faster = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        is_faster = not torch.accelerator.is_available() and multiplies_bfloat16()
    return "bfloat16" if is_faster else "float32"


def describe_processor() -> str:
    """Return what this machine computes with: machines of which it is equal make the same bits."""
    return f"{processor_name()}, arithmetic {arithmetic()}"


@cache
def arithmetic() -> str:
    """Return a digest of what this machine's kernels make of fixed numbers.

    Machines with the same digest round alike in what an encoder does: matrix products, attention,
    normalization and activations. A processor's name says less: versions and settings of the libraries
    decide as well.
    """
    import torch
    from torch.nn import functional as nn

    from sentemb._threads import one_thread

    generator = torch.Generator().manual_seed(0)
    digest = blake2b(digest_size=8)
    with one_thread(), torch.inference_mode():
        rows, weight = (torch.randn(size, generator=generator) for size in ((64, 384), (384, 384)))
        products = nn.linear(rows, weight)
        heads = products.view(1, 64, 12, 32).transpose(1, 2)
        attended = nn.scaled_dot_product_attention(heads, heads, heads)
        normed = nn.layer_norm(products, (384,))
        reduced = nn.linear(rows.bfloat16(), weight.bfloat16()).float()
        for numbers in (products, attended, normed, nn.gelu(normed), torch.tanh(normed), reduced):
            digest.update(numbers.contiguous().numpy().tobytes())
    return digest.hexdigest()
