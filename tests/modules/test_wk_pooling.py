"""WK pooling compared with loops, where its formulas are undefined, and as part of a model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

import sentemb
from sentemb.encoding.sentence import is_plain_text_model
from sentemb.errors import InputError
from sentemb.modules import WKPooling, load
from sentemb.modules.wk_pooling import wk_pooling
from tests.conftest import build_tiny_bert
from tests.modules.wk_loops import wk_vector

LENGTHS = (5, 2, 9, 3)
TEXTS = ["a cat sat on the mat", "the dog ran in the park quickly", "", "birds"]


def hidden_states(
    count: int, *, width: int = 24, lengths: tuple[int, ...] = LENGTHS, padding: int = 2, near: float = 0.3
) -> tuple[list[Tensor], Tensor]:
    """Return layers in float64 that differ slightly from each other, like those of an encoder."""
    generator = torch.Generator().manual_seed(7)
    shape = (len(lengths), max(lengths) + padding, width)
    state = 3 * torch.randn(shape, generator=generator, dtype=torch.float64)
    layers = [state]
    for _ in range(count - 1):
        state = state + near * torch.randn(shape, generator=generator, dtype=torch.float64)
        layers.append(state)
    mask = torch.tensor([[1] * length + [0] * (shape[1] - length) for length in lengths])
    return layers, mask


def reference(layers: list[Tensor], mask: Tensor, *, window: int = 2, clip_left: bool = False) -> np.ndarray:
    stacked = torch.stack(layers).double().numpy()  # (K, b, t, d)
    return np.array(
        [
            wk_vector(stacked[:, row][:, inside], window=window, clip_left=clip_left)
            for row, inside in enumerate(mask.bool().numpy())
        ]
    )


@pytest.mark.parametrize("clip_left", [False, True])
@pytest.mark.parametrize(("count", "window"), [(9, 2), (3, 2), (5, 1), (7, 3), (21, 2)])
def test_equals_the_loops_in_float64(count: int, window: int, clip_left: bool) -> None:
    layers, mask = hidden_states(count)
    expected = reference(layers, mask, window=window, clip_left=clip_left)
    pooled = wk_pooling(layers, mask, window=window, clip_left=clip_left)
    np.testing.assert_allclose(pooled.numpy(), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("near", [0.3, 0.003])
def test_float32_states_lose_nothing_but_the_rounding_of_the_result(near: float) -> None:
    """The layers differ by 0.1 %, so float32 products would lose their residuals."""
    layers, mask = hidden_states(9, near=near)
    single = [states.float() for states in layers]
    pooled = wk_pooling(single, mask)
    assert pooled.dtype == torch.float32
    expected = reference(single, mask)
    np.testing.assert_allclose(pooled.numpy(), expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_states_are_weighted_in_full(dtype: torch.dtype) -> None:
    layers, mask = hidden_states(5)
    half = [states.to(dtype) for states in layers]
    pooled = wk_pooling(half, mask)
    assert pooled.dtype == dtype
    expected = torch.from_numpy(reference(half, mask)).to(dtype)
    torch.testing.assert_close(pooled, expected)


def test_autocast_changes_nothing() -> None:
    layers, mask = hidden_states(5)
    single = [states.float() for states in layers]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = wk_pooling(single, mask)
    assert torch.equal(inside, wk_pooling(single, mask))


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side_changes_nothing(side: str) -> None:
    layers, mask = hidden_states(5, lengths=(4, 6), padding=0)
    expected = wk_pooling(layers, mask)
    filling = torch.full((2, 3, 24), 1e3, dtype=torch.float64)
    for states in layers:  # what padding holds must not matter
        states[mask == 0] = -7.0
    zeros = mask.new_zeros(2, 3)
    order = slice(None, None, -1 if side == "left" else 1)
    padded = [torch.cat([states, filling][order], 1) for states in layers]
    longer = torch.cat([mask, zeros][order], 1)
    torch.testing.assert_close(wk_pooling(padded, longer), expected, rtol=0, atol=1e-12)


def test_blocks_of_tokens_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    layers, mask = hidden_states(5)
    whole = wk_pooling(layers, mask)
    monkeypatch.setattr("sentemb.modules.wk_pooling._BLOCK_CPU", 3 * 5 * 24)
    torch.testing.assert_close(wk_pooling(layers, mask), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("clip_left", [False, True])
def test_gradients(clip_left: bool) -> None:
    layers, mask = hidden_states(4, width=4, lengths=(2, 3), padding=1)
    inputs = [states.requires_grad_() for states in layers]
    assert torch.autograd.gradcheck(lambda *x: wk_pooling(x, mask, clip_left=clip_left), inputs)


def one_token(*states: list[float]) -> tuple[list[Tensor], Tensor]:
    """Return the layers of a text with a single token, which then counts although it is the last."""
    return [torch.tensor([[state]], dtype=torch.float64) for state in states], torch.ones(1, 1)


DEGENERATE = {
    "the same state in every layer": ([1.0, 2.0, 0.5], [1.0, 2.0, 0.5], [1.0, 2.0, 0.5]),
    "dependent context": ([1.0, 0.0, 0.0], [0.0, 1.0, 0.5], [0.0, 2.0, 1.0]),
    "zero state": ([1.0, 0.2, 0.0], [0.0, 0.0, 0.0], [0.5, 1.0, 0.0]),
    "orthogonal layers": ([1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0]),
    "all zero": ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
}


@pytest.mark.parametrize("states", DEGENERATE.values(), ids=DEGENERATE)
def test_layers_weigh_the_same_where_their_weights_are_undefined(states: tuple[list[float], ...]) -> None:
    layers, mask = one_token(*states)
    inputs = [layer.requires_grad_() for layer in layers]
    pooled = wk_pooling(inputs, mask)
    np.testing.assert_allclose(pooled.detach().numpy(), [np.mean(states, axis=0)], atol=1e-12)
    pooled.square().sum().backward()
    assert all(layer.grad is not None and layer.grad.isfinite().all() for layer in inputs)


def test_an_alignment_that_is_not_positive_is_left_out_of_the_weights() -> None:
    """x_1 points away from the others: its cosine would make a weight negative. The novelties count."""
    states = np.array([[1.0, 0.1, 0.0], [-1.0, 0.1, 0.3], [1.0, 0.0, 0.4]])
    layers, mask = one_token(*states.tolist())
    novelty = []
    for k, around in enumerate([[1, 2], [2], [0, 1]]):
        basis = np.linalg.qr(states[around].T)[0]
        novelty.append(np.linalg.norm(states[k] - basis @ (basis.T @ states[k])) / np.linalg.norm(states[k]))
    weights = (np.array(novelty) / sum(novelty) + 1 / 3) / 2
    np.testing.assert_allclose(wk_pooling(layers, mask).numpy(), [weights @ states], atol=1e-12)


def test_tokens_weigh_the_same_where_no_layer_changes_them() -> None:
    """Equal steps from layer to layer: every variance is 0."""
    angles = torch.arange(3, dtype=torch.float64) * 0.1
    turned = torch.stack([angles.cos(), angles.sin()], 1)  # (K, 2): all neighbours have one cosine
    layers = [torch.stack([state, 2 * state, 9 * state]).unsqueeze(0) for state in turned]  # (1, 3, 2)
    one = [states[:, :1] for states in layers]
    pooled, first = wk_pooling(layers, torch.ones(1, 3)), wk_pooling(one, torch.ones(1, 1))
    torch.testing.assert_close(pooled, 1.5 * first, rtol=0, atol=1e-12)  # the last token is skipped


def test_texts_of_two_tokens_of_one_and_of_none() -> None:
    layers, _ = hidden_states(4, lengths=(2, 2, 2), padding=0)
    pooled = wk_pooling(layers, torch.tensor([[1, 1], [1, 0], [0, 0]]))
    alone = [states[:, :1] for states in layers]
    torch.testing.assert_close(pooled[:2], wk_pooling(alone, torch.ones(3, 1))[:2])
    assert not pooled[2].any()


@pytest.mark.parametrize(
    ("layers", "options", "hint"),
    [
        (4, {"layer_start": 4}, "layer 2 or below"),
        (4, {"layer_start": 3}, "layer 2 or below"),
        (4, {"layer_start": 4, "clip_left": True}, "layer 3 or below"),
        (1, {"layer_start": 0}, "another pooling"),
        (12, {"window": 0}, "window of at least 1"),
        (12, {"layer_start": -1}, "at least 0"),
    ],
)
def test_options_that_leave_a_layer_alone_are_refused(
    layers: int, options: dict[str, int], hint: str
) -> None:
    with pytest.raises(InputError, match=hint):
        WKPooling(16, layers, **options)


@pytest.mark.parametrize(("layers", "start"), [(2, 0), (4, 1), (12, 4)])
def test_the_first_layer_follows_the_depth(tmp_path: Path, layers: int, start: int) -> None:
    folder = build_tiny_bert(tmp_path / "bert", layers=layers, width=4)
    pooling = load(folder, pooling="wk", device="cpu")[1]
    assert (pooling.layer_start, pooling.window, pooling.clip_left) == (start, 2, False)


def test_a_saved_model_is_loaded_by_sentemb_and_says_so(tiny_bert: Path, tmp_path: Path) -> None:
    built = load(tiny_bert, pooling="wk", device="cpu")
    expected = built.encode(TEXTS)
    built.save(str(tmp_path / "model"))
    loaded = sentemb.load(tmp_path / "model", device="cpu")
    assert isinstance(loaded[1], WKPooling)
    np.testing.assert_array_equal(loaded.encode(TEXTS), expected)
    assert "load this model with sentemb.load" in (tmp_path / "model" / "README.md").read_text()
    with pytest.raises(ValueError, match=r"sentemb\.modules\.wk_pooling"):
        SentenceTransformer(str(tmp_path / "model"), device="cpu")


def test_options_are_saved(tiny_bert: Path, tmp_path: Path) -> None:
    model = load(tiny_bert, pooling="wk", device="cpu")
    model[1] = WKPooling(16, 3, layer_start=0, window=1, clip_left=True)
    model.save(str(tmp_path / "model"))
    loaded = sentemb.load(tmp_path / "model", device="cpu")[1]
    assert loaded.get_config_dict() == model[1].get_config_dict()
    saved = json.loads((tmp_path / "model" / "1_WKPooling" / "config.json").read_text())
    assert saved["clip_left"] is True


def test_a_model_takes_the_fast_path_and_equals_the_loops(tiny_bert: Path) -> None:
    encoder = sentemb.load_encoder(tiny_bert, pooling="wk", device="cpu")
    assert is_plain_text_model(encoder.model)
    vectors = encoder.encode(TEXTS)
    features = encoder.model.preprocess(TEXTS)
    with torch.no_grad():
        states = encoder.model[0](features)["all_layer_embeddings"]
    expected = reference(list(states[1:]), features["attention_mask"])
    np.testing.assert_allclose(vectors, expected, atol=3e-6 * np.abs(expected).max())
    np.testing.assert_allclose(vectors, encoder.model.encode(TEXTS), atol=5e-6)


def test_a_transformer_that_keeps_its_hidden_states_to_itself_is_refused(tiny_bert: Path) -> None:
    model = load(tiny_bert, pooling="wk", device="cpu")
    model[0].model.config.output_hidden_states = False
    with pytest.raises(InputError, match="needs the 4 hidden states"):
        model.encode(TEXTS)
