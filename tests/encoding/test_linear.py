"""The linear kernel follows from processor and layers, and every kernel computes the same layer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import nn

import sentemb.encoding.linear as linear
import sentemb.encoding.sentence as sentence
from sentemb._compat import packed_linear_dtypes
from sentemb.encoding.encoder import Precision
from sentemb.encoding.linear import (
    LinearKernel,
    PackedLinear,
    Processor,
    SteadyLinear,
    choose_kernel,
    kernel_for,
    replace_linears,
)
from sentemb.encoding.sentence import SentenceEncoder
from sentemb.encoding.view import inference_view

needs_packing = pytest.mark.skipif(not packed_linear_dtypes(), reason="this torch has no oneDNN")
needs_bfloat16 = pytest.mark.skipif(
    torch.bfloat16 not in packed_linear_dtypes(), reason="this processor has no bfloat16 linear layers"
)


@pytest.mark.parametrize(
    ("processor", "narrowest", "precision", "expected"),
    [
        (Processor(packs=True, bfloat16=True), 256, "float32", "packed"),
        (Processor(packs=True, bfloat16=True), 256, "reduced", "packed-bfloat16"),
        (Processor(packs=True, bfloat16=False), 256, "reduced", "packed"),
        (Processor(packs=False, bfloat16=True), 256, "float32", "stock"),
        (Processor(packs=False, bfloat16=True), 256, "reduced", "packed-bfloat16"),
        (Processor(packs=False, bfloat16=False), 256, "reduced", "stock"),
        (Processor(packs=True, bfloat16=True), 127, "reduced", "stock"),
        (Processor(packs=True, bfloat16=True), 0, "float32", "stock"),
    ],
)
def test_the_processor_and_the_widths_decide(
    processor: Processor, narrowest: int, precision: Precision, expected: LinearKernel
) -> None:
    assert choose_kernel(processor, narrowest, precision=precision) == expected


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({}, Processor(packs=False, bfloat16=False)),
        ({"cpu_name": "AMD EPYC", "avx512_f": True}, Processor(packs=True, bfloat16=False)),
        ({"cpu_name": "AMD EPYC", "avx512_f": False}, Processor(packs=False, bfloat16=False)),
        (
            {"cpu_name": "Intel(R) Xeon(R)", "avx512_f": True, "amx_bf16": True},
            Processor(packs=False, bfloat16=True),
        ),
    ],
)
def test_features_that_make_a_kernel_fast(
    monkeypatch: pytest.MonkeyPatch, features: dict[str, object], expected: Processor
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: features, raising=False)
    monkeypatch.setattr(linear, "packed_linear_dtypes", lambda: (torch.float32, torch.bfloat16))
    assert linear.this_processor.__wrapped__() == expected


def test_models_without_layers_to_replace_keep_theirs() -> None:
    for model in (nn.LayerNorm(256), nn.Linear(256, 256).bfloat16(), nn.Linear(256, 256, device="meta")):
        assert linear.narrowest_layer(model) == 0
        assert kernel_for(model, precision="float32") == "stock"
    assert linear.narrowest_layer(nn.Sequential(nn.Linear(256, 512), nn.Linear(512, 128))) == 128


@needs_packing
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5, 24), (2, 3, 24), (1, 24)])
def test_packed_layer_equals_the_layer(bias: bool, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(24, 40, bias=bias)
    inputs = torch.randn(shape)
    with torch.inference_mode():
        expected = layer(inputs)
        torch.testing.assert_close(PackedLinear(layer, dtype=torch.float32)(inputs), expected)
        if torch.bfloat16 in packed_linear_dtypes():
            reduced = PackedLinear(layer, dtype=torch.bfloat16)(inputs)
            assert reduced.dtype == torch.float32
            torch.testing.assert_close(reduced, expected, atol=0.03, rtol=0.02)


@needs_packing
def test_only_the_view_is_replaced() -> None:
    class Adapted(nn.Linear):
        """A subclass computes something else and must stay."""

    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 4)), Adapted(4, 4))
    hooked = nn.Linear(4, 4)
    hooked.register_forward_hook(lambda module, inputs, output: output * 2)
    model.append(hooked)
    view = inference_view(model)
    replace_linears(view, "packed")
    assert [type(module) for module in view.modules()].count(PackedLinear) == 2
    assert not any(isinstance(module, (PackedLinear, SteadyLinear)) for module in model.modules())
    inputs = torch.randn(3, 4)
    with torch.inference_mode():
        torch.testing.assert_close(view(inputs), model.eval()(inputs))


@needs_packing
def test_packed_encoding_equals_own_encode(
    make_encoder: Callable[..., SentenceTransformer], texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sentence, "kernel_for", lambda model, *, precision: "packed")
    model = make_encoder("mean", dense=True)
    encoder = SentenceEncoder(model, name="tiny")
    assert encoder.describe()["linear_kernel"] == "packed"
    np.testing.assert_allclose(encoder.encode(texts), model.encode(texts), atol=1e-5)


@needs_bfloat16
def test_bfloat16_encoding_is_close(
    make_encoder: Callable[..., SentenceTransformer], texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sentence, "kernel_for", lambda model, *, precision: "packed-bfloat16")
    model = make_encoder("mean")
    vectors = SentenceEncoder(model, name="tiny", precision="reduced").encode(texts)
    np.testing.assert_allclose(vectors, model.encode(texts), atol=0.1)


def test_reduced_precision_says_what_it_does(make_encoder: Callable[..., SentenceTransformer]) -> None:
    description = SentenceEncoder(make_encoder(), name="tiny", precision="reduced").describe()
    assert description["precision_asked"] == "reduced"
    expected = {"packed-bfloat16": "bfloat16 linear layers"}.get(description["linear_kernel"], "float32")
    assert description["precision"] == expected


def test_view_sees_the_original_weights_and_leaves_its_modes() -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 2), nn.Dropout(0.5))
    model.tied = model[1]  # a module in two places
    view = inference_view(model)
    assert not any(module.training for module in view.modules())
    assert all(module.training for module in model.modules())
    assert view.tied is view[1]
    with torch.no_grad():
        model[1].weight.zero_()
        model[1].bias.fill_(3.0)
    assert view(torch.randn(4, 2)).tolist() == [[3.0, 3.0]] * 4
    view[1].register_forward_hook(lambda module, inputs, output: output)
    assert not model[1]._forward_hooks


@pytest.mark.parametrize("kernel", ["stock", "packed", "packed-bfloat16"])
@pytest.mark.parametrize(("inputs", "outputs"), [(384, 384), (1536, 384), (312, 1200), (16, 32)])
def test_a_row_does_not_depend_on_how_many_there_are(kernel: LinearKernel, inputs: int, outputs: int) -> None:
    needed = {"packed": torch.float32, "packed-bfloat16": torch.bfloat16}.get(kernel)
    if needed is not None and needed not in packed_linear_dtypes():
        pytest.skip(f"this machine has no kernel {kernel}")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(inputs, outputs))
    replace_linears(model, kernel)
    rows = torch.randn(300, inputs)
    with torch.inference_mode():
        together = model(rows)
        for count in (*range(1, 20), 63, 64, 65, 200):
            assert torch.equal(model(rows[:count]), together[:count]), count
            assert torch.equal(model(rows[50 : 50 + count]), together[50 : 50 + count]), count
        assert torch.equal(model(rows[:3].reshape(1, 3, inputs)), together[:3].reshape(1, 3, outputs))
        assert model(rows[:0]).shape == (0, outputs)
