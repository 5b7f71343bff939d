"""The linear kernel follows from processor and layers; every kernel computes the same layer, row by row."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from torch import nn

import sentemb.encoding.linear as linear
import sentemb.encoding.sentence as sentence
from sentemb._compat import packed_linear_dtypes
from sentemb.data.bundled_text import bundled_sentences
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.encoding.encoder import Precision
from sentemb.encoding.linear import (
    LinearKernel,
    PackedLinear,
    Processor,
    RowPlan,
    Shape,
    SteadyLinear,
    choose_kernel,
    kernel_for,
    replace_linears,
)
from sentemb.encoding.rows import ReadyTexts, row_encoder
from sentemb.encoding.sentence import SentenceEncoder
from sentemb.encoding.view import inference_view
from sentemb.modules import load

needs_packing = pytest.mark.skipif(not packed_linear_dtypes(), reason="this torch has no oneDNN")

KERNELS: list[LinearKernel] = ["stock", "packed", "packed-bfloat16"]


def skip_without(kernel: LinearKernel) -> None:
    needed = {"packed": torch.float32, "packed-bfloat16": torch.bfloat16}.get(kernel)
    if needed is not None and needed not in packed_linear_dtypes():
        pytest.skip(f"this machine has no kernel {kernel}")


ALL_ROWS = RowPlan(linear.SIZES)
FROM_16 = RowPlan(tuple(rows for rows in linear.SIZES if rows >= 16))
IN_BLOCKS = RowPlan(tuple(rows for rows in linear.SIZES if not 96 <= rows <= 300))
NEVER = RowPlan(())


@pytest.mark.parametrize(
    ("processor", "narrowest", "precision", "stock", "packed", "expected"),
    [
        (Processor(True, True, True), 256, "float32", FROM_16, FROM_16, "packed"),
        (Processor(True, True, True), 256, "float32", FROM_16, IN_BLOCKS, "stock"),
        (Processor(True, True, True), 256, "float32", IN_BLOCKS, IN_BLOCKS, "packed"),
        (Processor(True, True, True), 256, "reduced", FROM_16, IN_BLOCKS, "packed-bfloat16"),
        (Processor(True, False, False), 256, "float32", FROM_16, ALL_ROWS, "stock"),
        (Processor(True, False, False), 256, "float32", IN_BLOCKS, ALL_ROWS, "packed"),
        (Processor(True, False, False), 256, "float32", IN_BLOCKS, IN_BLOCKS, "stock"),
        (Processor(False, False, False), 256, "reduced", FROM_16, ALL_ROWS, "stock"),
        (Processor(True, True, True), 127, "reduced", FROM_16, ALL_ROWS, "stock"),
    ],
)
def test_processor_widths_and_plans_decide(
    processor: Processor,
    narrowest: int,
    precision: Precision,
    stock: RowPlan,
    packed: RowPlan,
    expected: LinearKernel,
) -> None:
    shapes = {Shape(narrowest, 512, bias=True), Shape(512, 512, bias=False)}

    def plan(kernel: LinearKernel, shape: Shape) -> RowPlan:
        return stock if kernel == "stock" else packed

    assert choose_kernel(processor, shapes, precision=precision, plan=plan) == expected


def test_models_without_layers_to_replace_keep_theirs() -> None:
    for model in (nn.LayerNorm(256), nn.Linear(256, 256).bfloat16(), nn.Linear(256, 256, device="meta")):
        assert linear.linear_shapes(model) == set()
        assert kernel_for(model, precision="float32") == "stock"
    layers = nn.Sequential(nn.Linear(256, 512), nn.Linear(512, 128, bias=False))
    assert linear.linear_shapes(layers) == {Shape(256, 512, bias=True), Shape(512, 128, bias=False)}


@pytest.mark.parametrize("plan", [ALL_ROWS, FROM_16, IN_BLOCKS], ids=["all", "from-16", "blocks"])
@given(rows=st.integers(1, 5000))
def test_a_kernel_is_called_only_with_steady_numbers_of_rows(plan: RowPlan, rows: int) -> None:
    blocks = plan.blocks(rows)
    assert sum(blocks[:-1]) < rows <= sum(blocks)
    assert {*blocks} <= {*plan.steady}
    if plan.is_plain and rows <= 4096:
        assert len(blocks) == 1 and sum(blocks) - rows < max(16, rows / 2)
    starts = np.cumsum([0, *blocks[:-1]])
    assert len(blocks) == 1 or not (starts % 16).any()
    assert NEVER.blocks(rows) == [rows]


def test_blocks_need_little_padding_and_few_calls() -> None:
    blocks = [IN_BLOCKS.blocks(rows) for rows in (10, 63, 70, 90, 1000, 4100)]
    assert blocks == [[16], [64], [80], [80, 16], [1024], [4096, 8]]
    assert ALL_ROWS.cost < IN_BLOCKS.cost < RowPlan((4096,)).cost


def unsteady(kernel: LinearKernel, layer: nn.Linear, **_: bool) -> Callable[[torch.Tensor], torch.Tensor]:
    """Make a product that adds up in reverse for 96 to 300 rows, and in float64 for one to 15.

    It works in tiles of six rows: one or two rows that are left over are added up in reverse.
    """

    def add_up(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        columns = [rows[:, at : at + 16] @ weight[:, at : at + 16].T for at in range(0, rows.shape[1], 16)]
        return functools.reduce(torch.add, columns).float()

    def product(inputs: torch.Tensor) -> torch.Tensor:
        rows = inputs.reshape(-1, inputs.shape[-1])
        kind = torch.float64 if len(rows) < 16 else torch.float32
        given, weight = rows.to(kind), layer.weight.to(kind)
        if 96 <= len(rows) <= 300:
            given, weight = given.flip(1), weight.flip(1)
        left_over = len(rows) % 6 if len(rows) % 6 in (1, 2) else 0
        whole = len(rows) - left_over
        total = torch.cat([add_up(given[:whole], weight), add_up(given[whole:].flip(1), weight.flip(1))])
        total = (total + layer.bias).reshape(*inputs.shape[:-1], -1)
        return total.bfloat16().float() if kernel == "packed-bfloat16" else total

    return product


@pytest.mark.parametrize("kernel", ["stock", "packed-bfloat16"])
def test_a_kernel_that_depends_on_the_rows_is_found_out_and_tamed(
    kernel: LinearKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "_product_by", unsteady)
    monkeypatch.setattr(linear, "row_plan", linear.row_plan.__wrapped__)
    drawn = torch.get_rng_state()
    plan = linear.row_plan(kernel, Shape(80, 48, bias=True))
    assert torch.equal(torch.get_rng_state(), drawn)  # what a run draws does not depend on it
    steady = [rows for rows in linear.SIZES if rows >= 16 and not 96 <= rows <= 300]
    assert plan.steady == tuple(rows for rows in steady if rows % 6 not in (1, 2))
    layer = nn.Sequential(nn.Linear(80, 48))
    replace_linears(layer, kernel)
    check_rows(layer, 80, [1, 7, 15, 16, 19, 95, 96, 128, 200, 300, 301, 700])


def check_rows(layer: nn.Module, inputs: int, counts: Iterable[int]) -> None:
    """Assert that every row of a layer's output has the same bits for any number of rows, in any order."""
    rows = torch.randn(4201, inputs, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        together = layer(rows)
        for count in counts:
            assert torch.equal(layer(rows[:count]), together[:count]), count
            chosen = torch.randperm(4201, generator=torch.Generator().manual_seed(count))[:count]
            assert torch.equal(layer(rows[chosen]), together[chosen]), count


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


@pytest.mark.parametrize(
    ("kernel", "precision", "tolerance"),
    [("packed", "float32", 1e-5), ("packed-bfloat16", "bfloat16 linear layers", 0.1)],
)
def test_packed_encoding_equals_own_encode(
    kernel: LinearKernel,
    precision: str,
    tolerance: float,
    make_encoder: Callable[..., SentenceTransformer],
    texts: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    skip_without(kernel)
    monkeypatch.setattr(sentence, "kernel_for", lambda model, *, precision: kernel)
    model = make_encoder("mean", dense=True)
    encoder = SentenceEncoder(model, name="tiny", precision="reduced")
    described = encoder.describe()
    assert (described["linear_kernel"], described["precision"]) == (kernel, precision)
    assert described["precision_asked"] == "reduced"
    np.testing.assert_allclose(encoder.encode(texts), model.encode(texts), atol=tolerance)


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


@pytest.mark.numeric
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("inputs", "outputs"), [(384, 384), (1536, 384), (1024, 256), (312, 1200), (16, 32)])
def test_a_row_does_not_depend_on_how_many_there_are(kernel: LinearKernel, inputs: int, outputs: int) -> None:
    skip_without(kernel)
    model = nn.Sequential(nn.Linear(inputs, outputs))
    replace_linears(model, kernel)
    check_rows(model, inputs, [*range(1, 20), 47, 63, 64, 65, 96, 200, 257, 300, 1000])
    rows = torch.randn(300, inputs)
    with torch.inference_mode():
        together = model(rows)
        assert torch.equal(model(rows[50:150]), together[50:150])
        assert torch.equal(model(rows[:3].reshape(1, 3, inputs)), together[:3].reshape(1, 3, outputs))
        assert torch.equal(model(rows[:300:7]), together[::7])
        assert model(rows[:0]).shape == (0, outputs)


@pytest.mark.numeric
@pytest.mark.parametrize("kernel", KERNELS)
def test_no_shape_and_no_number_of_rows_changes_a_row(kernel: LinearKernel) -> None:
    skip_without(kernel)
    # Widths of models are multiples of 8. With odd ones, rows are not aligned, and some of MKL's kernels
    # without AVX-512 depend on that. A larger layer takes seconds.
    shapes = st.integers(8, 512).flatmap(
        lambda one: st.tuples(
            st.just(8 * one), st.integers(8, min(512, 2**14 // one)).map(lambda other: 8 * other)
        ).flatmap(st.permutations)
    )

    @settings(max_examples=8)
    @given(shapes, st.booleans(), st.lists(st.integers(1, 4201), min_size=6, max_size=8))
    def drawn(shape: list[int], bias: bool, counts: list[int]) -> None:
        inputs, outputs = shape
        model = nn.Sequential(nn.Linear(inputs, outputs, bias=bias))
        replace_linears(model, kernel)
        check_rows(model, inputs, counts)

    drawn()


SENTENCES = bundled_sentences()[:60]
LONGER = [" ".join(SENTENCES[start : start + 3]) for start in range(0, 30, 3)]
TEXTS = [*SENTENCES, *LONGER, "", "a", "hello world", " ".join(SENTENCES[:20])]


@pytest.fixture(params=[*KERNELS, "static"])
def encoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> TextEncoder:
    if request.param == "static":
        return load_encoder("static-mini")
    skip_without(request.param)
    monkeypatch.setattr(sentence, "kernel_for", lambda model, *, precision: request.param)
    encoder = load_encoder("sg-bert-mini", device="cpu")
    encoder.encode(["packs the layers"])
    return encoder


@pytest.mark.numeric
def test_any_company_and_none_gives_the_same_bits(encoder: TextEncoder) -> None:
    together = encoder.encode(TEXTS)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_array_equal(together, alone)

    @settings(max_examples=25)
    @given(st.lists(st.integers(0, len(TEXTS) - 1), min_size=1, max_size=40))
    def any_company(rows: list[int]) -> None:
        np.testing.assert_array_equal(encoder.encode([TEXTS[row] for row in rows]), together[rows])

    any_company()


@pytest.mark.numeric
def test_the_same_bits_by_any_number_of_threads(encoder: TextEncoder, three_threads: None) -> None:
    by_three, alone = encoder.encode(TEXTS), encoder.encode(TEXTS[:1])
    torch.set_num_threads(1)
    np.testing.assert_array_equal(by_three, encoder.encode(TEXTS))
    np.testing.assert_array_equal(alone, by_three[:1])


@pytest.mark.numeric
def test_rows_of_several_requests_in_one_batch_have_the_same_bits(encoder: TextEncoder) -> None:
    rows = row_encoder(encoder)
    parts = [rows.prepare(TEXTS[:40]), rows.prepare(TEXTS[40:])]
    expected = [encoder.encode(TEXTS[:40]), encoder.encode(TEXTS[40:])]
    lengths = np.concatenate([ready.lengths for ready in parts])
    for length in np.unique(lengths):
        batch: list[tuple[ReadyTexts, np.ndarray]] = []
        wanted = []
        for ready, vectors in zip(parts, expected, strict=True):
            found = np.flatnonzero(ready.lengths == length)
            if len(found):
                batch.append((ready, found))
                wanted.append(vectors[found])
        np.testing.assert_array_equal(rows.compute(batch), np.concatenate(wanted))


def test_lengths_are_the_tokens_that_are_read(tiny_bert: Path) -> None:
    encoder = load_encoder(load(tiny_bert, pooling="mean", max_length=8, device="cpu"))
    ready = row_encoder(encoder).prepare(["the cat", "the cat sat on the mat in the park", ""])
    assert ready.lengths.tolist() == [4, 8, 2]
    assert list(ready.cut) == [1]


def test_an_encoder_of_an_unknown_kind_encodes_each_text_alone() -> None:
    calls: list[list[str]] = []

    def function(texts: list[str]) -> np.ndarray:
        calls.append(texts)
        return np.array([[len(text), 1.0] for text in texts], dtype=np.float32)

    rows = row_encoder(load_encoder(function))
    ready = rows.prepare(["one two", "three"])
    assert not rows.by_length and ready.lengths.tolist() == [2, 1]
    assert rows.compute([(ready, np.array([0, 1]))]).tolist() == [[7, 1], [5, 1]]
    assert calls == [["one two"], ["three"]]


ROOT = Path(__file__).resolve().parents[2]
FEATURES: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
# What holds on this processor must hold with the kernels of older ones. Each library's settings, with the
# feature of the processor that each of them needs. The libraries do not share code, so one run tries one
# setting of each.
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


def environments() -> list[dict[str, str]]:
    """Return environments that together have every setting which this processor allows."""
    columns = [
        [(name, value) for value, feature in values.items() if FEATURES.get(feature)]
        for name, values in SETTINGS.items()
    ]
    return [dict(filter(None, row)) for row in zip_longest(*columns)]


@pytest.mark.parametrize(
    "environment", environments(), ids=lambda environment: "-".join(environment.values())
)
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


@pytest.fixture
def short_texts() -> list[str]:
    return [" ".join(["files"] * words) for words in range(1, 70, 3)]


def test_a_short_text_alone_may_use_several_threads(
    monkeypatch: pytest.MonkeyPatch, short_texts: list[str]
) -> None:
    """The vectors of texts alone have the bits that one thread gives, whatever the threads."""
    encoder = SentenceEncoder(load("bert-mini", pooling="mean"), name="bert-mini", frozen=True)
    used: dict[int, list[int]] = {}
    forward = sentence._forward

    def counted(view: SentenceTransformer, rows: Any) -> Any:
        used.setdefault(threads, []).append(torch.get_num_threads())
        return forward(view, rows)

    monkeypatch.setattr(sentence, "_forward", counted)
    before, found = torch.get_num_threads(), {}
    try:
        for threads in (1, 2, 3, 9):
            torch.set_num_threads(threads)
            found[threads] = np.concatenate([encoder.encode([text]) for text in short_texts])
            assert torch.get_num_threads() == threads
            pair = encoder.encode(short_texts[:1] * 2 + short_texts[1:2])
            np.testing.assert_array_equal(pair, found[1][[0, 0, 1]])
    finally:
        torch.set_num_threads(before)
    for threads, vectors in found.items():
        np.testing.assert_array_equal(vectors, found[1])
        assert max(used[threads]) <= {1: 1, 2: 2, 3: 2, 9: 4}[threads]
    if kernel_for(encoder.model, precision="float32") == "packed":
        assert used[2][0] == 2
    assert used[2][len(short_texts) - 1] == 1  # a long text


def test_threads_that_change_the_bits_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def divided(kernel: LinearKernel, layer: nn.Linear, **_: bool) -> Callable[..., torch.Tensor]:
        return lambda rows: layer(rows) * (1 + 1e-6 * (torch.get_num_threads() > 1 and len(rows) > 16))

    monkeypatch.setattr(linear, "_product_by", divided)
    monkeypatch.setattr(linear, "_is_divisible", linear._is_divisible.__wrapped__)
    layer = nn.Sequential(nn.Linear(128, 256))
    replace_linears(layer, "stock")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert [linear.is_divisible(layer, tokens) for tokens in (8, 16, 17, 65)] == [
            True,
            True,
            False,
            False,
        ]
        assert not linear.is_divisible(nn.Sequential(layer, nn.Linear(8, 8)), 8)
        torch.set_num_threads(1)
        assert not linear.is_divisible(layer, 8)
    finally:
        torch.set_num_threads(before)
