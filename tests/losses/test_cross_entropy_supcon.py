from __future__ import annotations

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import nn

from sentemb._compat import WeightedLayerPooling
from sentemb.errors import InputError
from sentemb.losses import CrossEntropySupConLoss, SupConLoss
from sentemb.modules import LinearHead
from tests.losses import loops

LABELS = {
    "with a singleton": [0, 1, 0, 2, 1],
    "one class": [1, 1, 1],
    "all different": [0, 1, 2],
    "a batch of one": [2],
    "a batch of two": [1, 1],
}


def batch(size: int) -> list[torch.Tensor]:
    """Return logits and vectors in float64."""
    torch.manual_seed(0)
    return [torch.randn(size, width, dtype=torch.float64).requires_grad_() for width in (3, 5)]


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_components_and_gradients_equal_the_loops(labels, reduction) -> None:
    loss = CrossEntropySupConLoss(nn.Linear(1, 1), nn.Identity(), reduction=reduction)
    tensors, count = batch(len(labels)), len(labels)
    value = loss.compute_loss_from_embeddings(tensors, torch.tensor(labels))
    # A singleton's empty sum counts as 0 and stays in the count N.
    terms = loops.supervised(tensors[1][:, None], labels, temperature=0.3)
    scl = sum((term for term in terms if term is not None), tensors[1].sum() * 0)
    ce = sum(-tensors[0][i].log_softmax(0)[label] for i, label in enumerate(labels)) / count
    expected = {"ce": (1 - 0.9) * ce, "supcon": 0.9 * (scl / count if reduction == "mean" else scl)}
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)
    wanted = torch.autograd.grad(sum(expected.values()), tensors)
    for found, gradient in zip(torch.autograd.grad(sum(value.values()), tensors), wanted, strict=True):
        torch.testing.assert_close(found, gradient, atol=1e-9, rtol=1e-9)


def test_mean_equals_supcon_with_one_view_where_every_class_occurs_twice() -> None:
    labels, (logits, vectors) = torch.tensor([0, 1, 0, 1]), batch(4)
    loss = CrossEntropySupConLoss(nn.Linear(1, 1), nn.Identity(), weight=1.0, temperature=0.3)
    value = loss.compute_loss_from_embeddings([logits, vectors], labels)
    other = SupConLoss(nn.Identity(), temperature=0.3).compute_loss_from_embeddings([vectors], labels)
    torch.testing.assert_close(value["supcon"], other, atol=1e-15, rtol=0)
    assert value["ce"] == 0


def test_cls_is_compared_and_the_head_sees_the_sentence_vector(tiny_encoder, sentences) -> None:
    model = SentenceTransformer(modules=[tiny_encoder[0], Pooling(16, "mean")], device="cpu").eval()
    head = LinearHead(16, 3).eval()
    labels = torch.tensor([0, 1, 0, 1])
    features = model.preprocess(sentences(4))
    output = model(dict(features))
    by_cls = CrossEntropySupConLoss(model, head)
    expected = by_cls.compute_loss_from_embeddings([head(output), output["token_embeddings"][:, 0]], labels)
    torch.testing.assert_close(by_cls([features], labels), expected)
    layers = WeightedLayerPooling(16, num_hidden_layers=3)
    mixed = SentenceTransformer(modules=[tiny_encoder[0], layers, tiny_encoder[1]], device="cpu")
    with pytest.raises(InputError, match="a pooling that averages layers replaces"):
        CrossEntropySupConLoss(mixed, head)


def test_few_positives_are_warned_about_once_and_in_training_only(caplog) -> None:
    logits, vectors = batch(6)
    loss = CrossEntropySupConLoss(nn.Linear(1, 1), nn.Identity())
    with torch.no_grad():
        loss.compute_loss_from_embeddings([logits, vectors], torch.tensor([0, 0, 1, 2, 1, 0]))
    assert not caplog.text
    few = torch.tensor([0, 1])
    for _ in range(2):
        loss.compute_loss_from_embeddings([logits[:2], vectors[:2]], few)
    assert caplog.text.count("only 0 % of the anchors of the first batch have a positive") == 1
    caplog.clear()
    enough = CrossEntropySupConLoss(nn.Linear(1, 1), nn.Identity())
    enough.compute_loss_from_embeddings([logits, vectors], torch.tensor([0, 0, 1, 1, 2, 0]))
    assert not caplog.text
