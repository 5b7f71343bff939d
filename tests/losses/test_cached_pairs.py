"""Cached losses of pairs and triples: loss and gradients of one graph, of the encoder and the head."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.losses import (
    CachedParaphraseContrastLoss,
    CachedSimCSELoss,
    ParaphraseContrastLoss,
    SimCSELoss,
)
from sentemb.training.objective import loss_class
from tests.losses.training import train_steps

LABELS = torch.tensor([[1, 5, 5], [0, 5, 9], [1, 2, 2], [1, 5, 5], [0, 9, 2], [0, 7, 7], [1, 3, 3]])
CASES: dict[str, tuple[type[nn.Module], type[nn.Module], int, dict[str, Any]]] = {
    "one column": (CachedSimCSELoss, SimCSELoss, 1, {}),
    "pairs": (CachedSimCSELoss, SimCSELoss, 2, {"head": None}),
    "triples": (CachedSimCSELoss, SimCSELoss, 3, {"hard_negative_weight": 0.7}),
    "signed": (CachedParaphraseContrastLoss, ParaphraseContrastLoss, 2, {"negative_weight": 0.5}),
    "denominator": (CachedParaphraseContrastLoss, ParaphraseContrastLoss, 2, {"negatives": "denominator"}),
    "ignored": (CachedParaphraseContrastLoss, ParaphraseContrastLoss, 2, {"negatives": "ignored"}),
}


def build(case: str, model: nn.Module, *, size: int = 3) -> Any:
    torch.manual_seed(5)
    kind, _, _, options = CASES[case]
    return kind(model, mini_batch_size=size, **options).to(next(model.parameters()).dtype)


def gradients(loss: nn.Module, value: Tensor) -> dict[str, Tensor]:
    loss.zero_grad()
    value.backward()
    return {name: p.grad.clone() for name, p in loss.named_parameters() if p.grad is not None}


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert len(found) > 30
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, atol=1e-7, rtol=1e-7, msg=name)


def columns_of(case: str, model: Any, sentences: Any) -> list[dict[str, Any]]:
    return [model.preprocess(sentences(7, seed=seed)) for seed in range(CASES[case][2])]


@pytest.mark.parametrize("case", CASES)
def test_cached_gradient_equals_the_plain_one_with_dropout(encoder64, sentences, case) -> None:
    """The plain graph encodes the same mini-batches, so that both draw the same dropout masks."""
    loss, columns = build(case, encoder64), columns_of(case, encoder64, sentences)
    torch.manual_seed(1)
    value = loss(columns, LABELS)
    found = gradients(loss, value)
    torch.manual_seed(1)
    twice = columns * 2 if case == "one column" else columns
    rows = [
        [part for part, _ in loss.embed_minibatch_iter(column, with_grad=True, copy_random_state=False)]
        for column in loss.arrange(twice)
    ]
    plain = loss.calculate_loss(rows, LABELS)
    torch.testing.assert_close(value, plain, atol=1e-9, rtol=1e-9)
    assert_same(found, gradients(loss, plain))


def test_mini_batches_hold_texts_of_similar_length(encoder64, sentences) -> None:
    loss, columns = build("pairs", encoder64), columns_of("pairs", encoder64, sentences)
    for column, arranged in zip(columns, loss.arrange(columns), strict=True):
        lengths = arranged["attention_mask"].sum(1).tolist()
        assert lengths == sorted(column["attention_mask"].sum(1).tolist(), reverse=True)
        assert len(set(lengths)) > 1
        assert sorted(arranged["input_ids"].tolist()) == sorted(column["input_ids"].tolist())


@pytest.mark.parametrize("size", [2, 64])
@pytest.mark.parametrize("case", CASES)
def test_cached_loss_equals_the_uncached_class(encoder64, sentences, case, size) -> None:
    cached, columns = build(case, encoder64, size=size).eval(), columns_of(case, encoder64, sentences)
    uncached = CASES[case][1](encoder64, **CASES[case][3]).double().eval()
    if uncached.head is not None:
        uncached.load_head_state(cached.head_state())
    value, expected = cached(columns, LABELS), uncached(columns, LABELS)
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)
    assert_same(gradients(cached, value), gradients(uncached, expected))
    if isinstance(cached, ParaphraseContrastLoss):
        assert cached.statistics == uncached.statistics != {}


def test_identical_views_are_warned_about(tiny_encoder, sentences, caplog) -> None:
    loss = build("one column", tiny_encoder).eval()
    with caplog.at_level(logging.WARNING):
        loss([tiny_encoder.preprocess(sentences(4))])
        loss([tiny_encoder.preprocess(sentences(4))])
    assert caplog.text.count("two views of every sentence are identical") == 1


@pytest.mark.parametrize("case", ["triples", "signed"])
def test_trains_with_its_head(tiny_encoder, sentences, tmp_path, case) -> None:
    loss = build(case, tiny_encoder)
    before = loss.head_state()
    columns: dict[str, list] = {str(i): sentences(12, seed=i) for i in range(CASES[case][2])}
    train_steps("sentemb", tiny_encoder, loss, columns | {"label": [0, 1] * 6}, tmp_path)
    assert all(not torch.equal(before[name], weight) for name, weight in loss.head_state().items())


def test_model_card_gets_options_and_both_citations(tiny_encoder) -> None:
    loss = build("triples", tiny_encoder)
    assert loss.get_config_dict() == {
        "temperature": 0.05,
        "head": "train-only",
        "hard_negative_weight": 0.7,
        "gather_across_devices": True,
        "mini_batch_size": 3,
    }
    assert "2021.emnlp-main.552" in loss.citation
    assert "2021.repl4nlp-1.31" in loss.citation
    assert build("signed", tiny_encoder).get_config_dict()["negative_weight"] == 0.5


def test_what_cannot_be_cached_is_refused(tiny_encoder) -> None:
    with pytest.raises(InputError, match="mini_batch_size of CachedSimCSELoss is 0"):
        build("pairs", tiny_encoder, size=0)
    with pytest.raises(InputError, match="SelfGuidedLoss has no gradient cache: it compares a batch with"):
        loss_class("CachedSelfGuidedLoss")
