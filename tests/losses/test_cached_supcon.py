from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.losses import CachedSupCLSeqLoss, CachedSupConLoss, SupCLSeqLoss, SupConLoss
from tests.losses.training import train_steps

LABELS = torch.tensor([0, 1, 0, 2, 1, 0, 3])


def gradients(loss: nn.Module, value: Tensor) -> dict[str, Tensor]:
    loss.zero_grad()
    value.backward()
    return {name: p.grad.clone() for name, p in loss.named_parameters() if p.grad is not None}


def in_one_graph(loss: Any, columns: list[dict[str, Any]]) -> Tensor:
    """The loss on what the cached one compares, encoded in its mini-batches but with an ordinary graph."""
    options = {"with_grad": True, "copy_random_state": False}
    rows = [
        [part for part, _ in loss.embed_minibatch_iter(column, **options)] for column in loss.arrange(columns)
    ]
    return loss.calculate_loss(rows, LABELS)


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert len(found) > 30
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, atol=1e-7, rtol=1e-7, msg=name)


@pytest.mark.parametrize("size", [2, 3, 32])
@pytest.mark.parametrize("columns", [1, 2])
def test_cached_gradient_equals_the_plain_one_with_dropout(encoder64, sentences, columns, size) -> None:
    loss = CachedSupConLoss(encoder64, mini_batch_size=size)
    encoder64.train()
    features = [encoder64.preprocess(sentences(7, seed=seed)) for seed in range(columns)]
    torch.manual_seed(1)
    value = loss(features, LABELS)
    found = gradients(loss, value)
    torch.manual_seed(1)
    plain = in_one_graph(loss, features)
    torch.testing.assert_close(value, plain, atol=1e-9, rtol=1e-9)
    assert_same(found, gradients(loss, plain))


def test_cached_loss_equals_the_uncached_class(encoder64, sentences) -> None:
    encoder64.eval()
    features = [encoder64.preprocess(sentences(7))]
    plain, cached = SupConLoss(encoder64), CachedSupConLoss(encoder64, mini_batch_size=2)
    assert_same(gradients(cached, cached(features, LABELS)), gradients(plain, plain(features, LABELS)))
    assert isinstance(cached, SupConLoss)


@pytest.mark.parametrize("preset", [None, "released"])
@pytest.mark.parametrize("labels", [LABELS, None], ids=["labels", "no labels"])
def test_cached_views_equal_those_of_one_graph(encoder64, sentences, labels, preset) -> None:
    """Distinct probabilities and one mini-batch: both draw the same masks in the same order."""
    dropouts = (0.0, 0.3, 0.2)
    plain = SupCLSeqLoss(encoder64, dropouts=dropouts, preset=preset)
    cached = CachedSupCLSeqLoss(encoder64, dropouts=dropouts, preset=preset)
    encoder64.train()
    features = [encoder64.preprocess(sentences(7))]
    torch.manual_seed(1)
    value = cached(features, labels)
    found = gradients(cached, value)
    torch.manual_seed(1)
    expected = plain(features, labels)
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)
    assert_same(found, gradients(plain, expected))
    assert all(module.p == 0.1 for module in encoder64.modules() if isinstance(module, nn.Dropout))


def test_mini_batches_of_views_replay_their_dropout(encoder64, sentences) -> None:
    loss = CachedSupCLSeqLoss(encoder64, mini_batch_size=3, dropouts=(0.0, 0.3, 0.3))
    encoder64.train()
    features = encoder64.preprocess(sentences(7))
    torch.manual_seed(1)
    value = loss([features], LABELS)
    found = gradients(loss, value)
    torch.manual_seed(1)
    columns = [{**features, "dropout probability": probability} for probability in loss.dropouts]
    plain = in_one_graph(loss, columns)
    torch.testing.assert_close(value, plain, atol=1e-9, rtol=1e-9)
    assert_same(found, gradients(loss, plain))


def test_evaluation_needs_no_gradient(tiny_encoder, sentences) -> None:
    tiny_encoder.eval()
    features = [tiny_encoder.preprocess(sentences(7))]
    with torch.no_grad():
        cached = CachedSupConLoss(tiny_encoder, mini_batch_size=2)(features, LABELS)
        torch.testing.assert_close(cached, SupConLoss(tiny_encoder)(features, LABELS))


@pytest.mark.parametrize("loss_class", [CachedSupConLoss, CachedSupCLSeqLoss])
def test_trains(tiny_encoder, sentences, tmp_path, loss_class) -> None:
    loss = loss_class(tiny_encoder, mini_batch_size=2)
    train_steps("sentemb", tiny_encoder, loss, {"sentence": sentences(12), "label": [0, 1] * 6}, tmp_path)


def test_model_card_gets_options_and_both_citations(tiny_encoder) -> None:
    loss = CachedSupCLSeqLoss(tiny_encoder, mini_batch_size=8)
    assert loss.get_config_dict()["mini_batch_size"] == 8
    assert "2021.findings-emnlp.289" in loss.citation
    assert "2021.repl4nlp-1.31" in loss.citation
    assert CachedSupConLoss(tiny_encoder, anchors="one").get_config_dict()["anchors"] == "one"


@pytest.mark.parametrize("loss_class", [CachedSupConLoss, CachedSupCLSeqLoss])
@pytest.mark.parametrize("size", [0, -1, 2.5, None])
def test_bad_sizes_are_refused(tiny_encoder, loss_class, size) -> None:
    with pytest.raises(InputError, match=f"mini_batch_size of {loss_class.__name__}"):
        loss_class(tiny_encoder, mini_batch_size=size)
