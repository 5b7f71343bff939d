from __future__ import annotations

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import nn

from sentemb._compat import WeightedLayerPooling
from sentemb.errors import InputError
from sentemb.losses import CrossEntropyContrastLoss, CrossEntropyLoss, CrossEntropySupConLoss, SupConLoss
from sentemb.modules import LinearHead
from tests.losses import loops
from tests.losses.lacon_loops import cross_entropies


def build(model, **options) -> CrossEntropyLoss:
    torch.manual_seed(5)
    return CrossEntropyLoss(model, LinearHead(16, 3).to(next(model.parameters()).dtype), **options)


def tensors(size: int, *widths: int) -> list[torch.Tensor]:
    """Return logits of three classes, and vectors."""
    torch.manual_seed(0)
    return [torch.randn(size, width, dtype=torch.float64).requires_grad_() for width in (3, *widths)]


@pytest.mark.parametrize("classes", [[1], [0, 2], [0, 2, 1, 2]])
def test_loss_and_gradient_equal_the_loops(encoder64, sentences, classes) -> None:
    loss = build(encoder64).eval()
    features = encoder64.preprocess(sentences(len(classes)))
    weight, bias = loss.head.linear.parameters()
    vectors = encoder64(dict(features))["sentence_embedding"]
    logits = torch.stack([weight @ vector + bias for vector in vectors])
    expected = sum(cross_entropies(logits, classes)) / len(classes)
    loops.assert_equal(loss([features], torch.tensor(classes)), expected, loss.parameters())
    assert "sentence_embedding" not in features


def test_dropout_augmentation_is_the_mean_over_all_views(encoder64, sentences) -> None:
    loss, labels = build(encoder64, dropouts=(0.0, 0.3, 0.3, 0.2)), [0, 2, 1, 2]
    encoder64.train()
    loss.head.eval()
    seen: list[torch.Tensor] = []
    loss.head.register_forward_hook(lambda _, __, logits: seen.append(logits))
    value = loss([encoder64.preprocess(sentences(4))], torch.tensor(labels))
    assert len(seen) == 4
    losses = [one for logits in seen for one in cross_entropies(logits, labels)]
    torch.testing.assert_close(value, sum(losses) / 16, atol=1e-9, rtol=1e-9)
    assert len({loss.item() for loss in losses}) == 16
    assert all(module.p == 0.1 for module in encoder64.modules() if isinstance(module, nn.Dropout))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("labels", [[0, 1, 0, 2, 1], [1, 1, 1], [0, 1, 2], [2], [1, 1]])
def test_supcon_and_its_gradients_equal_the_loops(labels, reduction) -> None:
    loss = CrossEntropySupConLoss(nn.Linear(1, 1), nn.Identity(), reduction=reduction)
    logits, vectors = tensors(len(labels), 5)
    # A singleton's empty sum counts as 0 and stays in the count N.
    terms = loops.supervised(vectors[:, None], labels, temperature=0.3)
    supcon = sum((term for term in terms if term is not None), vectors.sum() * 0)
    expected = {
        "ce": (1 - 0.9) * sum(cross_entropies(logits, labels)) / len(labels),
        "supcon": 0.9 * (supcon / len(labels) if reduction == "mean" else supcon),
    }
    value = loss.compute_loss_from_embeddings([logits, vectors], torch.tensor(labels))
    loops.assert_equal(value, expected, [logits, vectors])


def test_supcon_alone_is_that_of_one_view_where_every_class_occurs_twice() -> None:
    labels, (logits, vectors) = torch.tensor([0, 1, 0, 1]), tensors(4, 5)
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


@pytest.mark.parametrize("form", ["consert", "simcse"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_contrast_and_its_gradients_equal_the_loops(form, size) -> None:
    logits, first, second = tensors(size, 5, 5)
    labels = torch.arange(size) % 3
    loss = CrossEntropyContrastLoss(nn.Linear(1, 1), nn.Identity(), form=form)
    if form == "consert":  # both directions added
        contrast = sum(loops.base(first, second, temperature=0.1)) / size
    else:
        contrast = sum(loops.simcse(first, second, [], temperature=0.1)) / size
    ce = sum(cross_entropies(logits, labels.tolist())) / size
    value = loss.compute_loss_from_embeddings([logits, first, second], labels)
    loops.assert_equal(value, {"ce": ce, "contrast": 0.15 * contrast}, [logits, first, second])


def test_two_views_share_a_forward_and_the_head_sees_the_first(tiny_encoder, sentences) -> None:
    loss = CrossEntropyContrastLoss(tiny_encoder, LinearHead(16, 3, dropout=0.0)).train()
    seen: list[torch.Tensor] = []
    tiny_encoder.register_forward_hook(lambda _, __, output: seen.append(output["sentence_embedding"]))
    labels = torch.tensor([0, 1, 2])
    value = loss([tiny_encoder.preprocess(sentences(3))], labels)
    (vectors,) = seen
    first, second = vectors.chunk(2)
    assert not torch.equal(first, second)
    logits = loss.head.linear(first)
    torch.testing.assert_close(value, loss.compute_loss_from_embeddings([logits, first, second], labels))
