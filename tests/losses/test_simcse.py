from __future__ import annotations

import logging

import pytest
import torch
from sentence_transformers import SentenceTransformer

from sentemb.losses import SimCSELoss
from tests.losses import loops
from tests.losses.cases import without_dropout


def build(model, **options) -> SimCSELoss:
    torch.manual_seed(5)
    loss = SimCSELoss(model, **options)
    return loss.to(next(model.parameters()).dtype)


def record_batches(model: SentenceTransformer) -> list[torch.Tensor]:
    """Record the sentence vectors of every later forward pass of the model."""
    seen: list[torch.Tensor] = []
    model.register_forward_hook(lambda _, __, output: seen.append(output["sentence_embedding"]))
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


def projected(head: torch.nn.Sequential | None, vectors: torch.Tensor) -> list[torch.Tensor]:
    if head is None:
        return list(vectors)
    first = [head[0].weight @ vector + head[0].bias for vector in vectors]
    if len(head) == 2:
        return [torch.tanh(vector) for vector in first]
    return [head[2].weight @ vector.clamp_min(0) + head[2].bias for vector in first]


@pytest.mark.parametrize(("columns", "size"), [(1, 1), (1, 2), (1, 7), (2, 5), (3, 5), (4, 5)])
@pytest.mark.parametrize("head", ["train-only", "two-layer", None])
def test_loss_and_gradients_equal_the_loops(encoder64, sentences, head, columns, size) -> None:
    loss = build(encoder64, head=head).train()
    batches = record_batches(encoder64)
    value = loss([encoder64.preprocess(sentences(size, seed=seed)) for seed in range(columns)])
    views = batches[0].chunk(max(columns, 2))  # one forward pass
    first, second, *hard = (projected(loss.head, vectors) for vectors in views)
    expected = sum(loops.simcse(first, second, hard, temperature=0.05)) / size
    loops.assert_equal(value, expected, loss.parameters())
    assert loss.get_config_dict()["head"] == head


@pytest.mark.parametrize("mode", ["dropout", "no dropout", "evaluation mode"])
def test_identical_views_are_warned_about_once(tiny_encoder, sentences, caplog, mode) -> None:
    loss = build(tiny_encoder).train(mode != "evaluation mode")
    if mode == "no dropout":
        without_dropout(tiny_encoder)
    features = tiny_encoder.preprocess(sentences(3))
    with caplog.at_level(logging.WARNING):
        with torch.no_grad():
            loss([features])
        assert not caplog.text
        loss([features])
        loss([features])
    assert caplog.text.count("two views of every sentence are identical") == (mode != "dropout")
