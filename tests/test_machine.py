"""The precision that a machine computes in."""

from __future__ import annotations

import pytest
import torch

from sentemb._machine import faster_precision


@pytest.mark.skipif(torch.accelerator.is_available(), reason="an accelerator decides")
@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({"avx512_f": True, "avx512_bf16": True, "amx_bf16": False}, "bfloat16"),
        ({"avx512_f": True, "avx512_bf16": False, "amx_bf16": True}, "bfloat16"),
        ({"avx512_f": True, "avx512_bf16": False, "amx_bf16": False}, "float32"),
        ({}, "float32"),
    ],
)
def test_the_processor_decides_the_precision_and_not_its_load(
    features: dict[str, bool], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: features, raising=False)
    assert faster_precision() == expected
