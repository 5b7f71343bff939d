"""What holds on this processor also holds with the instructions and kernels of older ones."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
FEATURES: dict[str, Any] = torch.cpu.get_capabilities()
# Each library's settings, with the feature of the processor that each of them needs. The libraries do not
# share code, so that one run tries a setting of each.
SETTINGS = {
    "OPENBLAS_CORETYPE": {
        "Haswell": "avx2",
        "Zen": "avx2",
        "SkylakeX": "avx512_f",
        "Cooperlake": "avx512_bf16",
        "SapphireRapids": "amx_bf16",
    },
    "MKL_ENABLE_INSTRUCTIONS": {"SSE4_2": "sse4_2", "AVX": "avx", "AVX2": "avx2", "AVX512": "avx512_f"},
    "ONEDNN_MAX_CPU_ISA": {
        "AVX": "avx",
        "AVX2": "avx2",
        "AVX512_CORE": "avx512_f",
        "AVX512_CORE_BF16": "avx512_bf16",
        "AVX512_CORE_AMX": "amx_bf16",
    },
    "ATEN_CPU_CAPABILITY": {"default": "sse4_2", "avx2": "avx2", "avx512": "avx512_f"},
}


def runs() -> list[dict[str, str]]:
    """Return environments that together have every setting which this processor allows."""
    columns = [
        [(name, value) for value, feature in values.items() if FEATURES.get(feature)]
        for name, values in SETTINGS.items()
    ]
    return [dict(filter(None, row)) for row in zip_longest(*columns)]


@pytest.mark.parametrize("environment", runs(), ids=lambda environment: "-".join(environment.values()))
def test_the_numeric_tests_pass_under_every_setting(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "pytest", "-n", "0", "-m", "numeric", "tests/encoding"]
    ran = subprocess.run(
        [*command, "tests/test_threads.py"],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-6000:]
