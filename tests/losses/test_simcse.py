from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch
from sentence_transformers import (
    SentenceTransformer,
)
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

from sentemb.errors import InputError
from sentemb.losses import SimCSELoss
from tests.losses import loops


def build(model, **options) -> SimCSELoss:
    torch.manual_seed(5)
    loss = SimCSELoss(model, **options)
    return loss.to(next(model.parameters()).dtype)


def record_batches(model: SentenceTransformer) -> list[torch.Tensor]:
    """Record the sentence vectors of every later forward pass of the model."""
    seen: list[torch.Tensor] = []
    model.register_forward_hook(
        lambda _, __, output: seen.append(output["sentence_embedding"].detach().clone())
    )
    return seen


def test_same_batch_same_mask(tiny_encoder) -> None:
    """One forward pass of the doubled batch, in which every row has its own dropout mask."""
    loss = build(tiny_encoder)
    loss.train()
    batches = record_batches(tiny_encoder)
    loss([tiny_encoder.preprocess(["a cat sat on the mat"] * 3)])
    (vectors,) = batches
    assert vectors.shape == (6, 16)
    for row in range(6):
        for other in range(row):
            assert not torch.equal(vectors[row], vectors[other])


@pytest.mark.parametrize("size", [1, 2, 16])
@pytest.mark.parametrize("head", ["train-only", None])
def test_one_column_equals_the_loops(encoder64, sentences, head, size) -> None:
    loss = build(encoder64, head=head)
    loss.train()
    batches = record_batches(encoder64)
    value = loss([encoder64.preprocess(sentences(size))])
    vectors = batches[0]
    if head:
        linear = loss.head[0]
        vectors = torch.stack([torch.tanh(linear.weight @ vector + linear.bias) for vector in vectors])
    expected = loops.simcse(vectors[:size], vectors[size:], [], temperature=0.05)
    torch.testing.assert_close(value, sum(expected) / size, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("columns", [2, 3, 4])
def test_more_columns_equal_the_loops_with_gradients(encoder64, sentences, columns) -> None:
    loss = build(encoder64)
    loss.eval()
    features = [encoder64.preprocess(sentences(5, seed=seed)) for seed in range(columns)]
    value = loss(features)
    vectors = [loss.head(encoder64(dict(f))["sentence_embedding"]) for f in features]
    expected = sum(loops.simcse(vectors[0], vectors[1], vectors[2:], temperature=0.05)) / 5
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)
    parameters = [p for name, p in loss.named_parameters() if ".pooler." not in name]
    for found, wanted in zip(
        torch.autograd.grad(value, parameters), torch.autograd.grad(expected, parameters), strict=True
    ):
        torch.testing.assert_close(found, wanted, atol=1e-9, rtol=1e-9)


def test_float32_agrees_with_float64(tiny_encoder, sentences) -> None:
    loss = build(tiny_encoder)
    loss.eval()
    features = [tiny_encoder.preprocess(sentences(16, seed=seed)) for seed in (0, 1)]
    single = loss(features)
    torch.testing.assert_close(single.double(), loss.double()(features), atol=1e-5, rtol=1e-5)


def test_one_sentence_has_loss_zero_connected_to_the_graph(tiny_encoder) -> None:
    loss = build(tiny_encoder)
    loss.train()
    value = loss([tiny_encoder.preprocess(["a cat"])])
    value.backward()
    assert value.item() == pytest.approx(0, abs=1e-6)
    assert loss.head[0].weight.grad is not None


@pytest.mark.parametrize("mode", ["no dropout", "evaluation mode"])
def test_identical_views_are_warned_about_once(tiny_encoder, sentences, caplog, mode) -> None:
    loss = build(tiny_encoder)
    loss.train(mode == "no dropout")
    for module in tiny_encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    features = tiny_encoder.preprocess(sentences(3))
    with caplog.at_level(logging.WARNING):
        with torch.no_grad():
            loss([features])
        assert not caplog.text
        loss([features])
        loss([features])
    assert caplog.text.count("two views of every sentence are identical") == 1


def test_dropout_is_not_warned_about(tiny_encoder, sentences, caplog) -> None:
    loss = build(tiny_encoder)
    loss.train()
    with caplog.at_level(logging.WARNING):
        loss([tiny_encoder.preprocess(sentences(3))])
    assert not caplog.text


def test_the_two_layer_head(encoder64, sentences) -> None:
    loss = build(encoder64, head="two-layer").eval()
    features = [encoder64.preprocess(sentences(4, seed=seed)) for seed in (0, 1)]
    inner, _, outer = loss.head
    plain = [encoder64(dict(column))["sentence_embedding"] for column in features]
    heads = [(v @ inner.weight.T + inner.bias).relu() @ outer.weight.T + outer.bias for v in plain]
    expected = sum(loops.simcse(*heads, [], temperature=0.05)) / 4
    torch.testing.assert_close(loss(features), expected, atol=1e-9, rtol=1e-9)
    assert loss.get_config_dict()["head"] == "two-layer"


def test_saved_model_never_holds_the_train_only_head(tiny_encoder, tmp_path: Path) -> None:
    build(tiny_encoder)
    tiny_encoder.save(str(tmp_path / "model"))
    restored = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert [type(module) for module in restored] == [Transformer, Pooling]


def test_head_state_round_trip(tiny_encoder) -> None:
    first, second = build(tiny_encoder), SimCSELoss(tiny_encoder)
    second.load_head_state(first.head_state())
    assert torch.equal(first.head[0].weight, second.head[0].weight)
    with pytest.raises(InputError, match=r"shape of head.0.bias is \(16,\), and should be missing"):
        SimCSELoss(tiny_encoder, head=None).load_head_state(first.head_state())
    assert not list(SimCSELoss(tiny_encoder, head=None).owned_parameters())
