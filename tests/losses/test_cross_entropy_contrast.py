from __future__ import annotations

import pytest
import torch
from torch import nn

from sentemb.losses import CrossEntropyContrastLoss
from sentemb.modules import LinearHead
from tests.losses import loops


@pytest.mark.parametrize("form", ["consert", "simcse"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_components_and_gradients_equal_the_loops(form, size) -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(size, width, dtype=torch.float64).requires_grad_() for width in (3, 5, 5)]
    labels = torch.arange(size) % 3
    loss = CrossEntropyContrastLoss(nn.Linear(1, 1), nn.Identity(), form=form)
    value = loss.compute_loss_from_embeddings(tensors, labels)
    logits, first, second = tensors
    if form == "consert":  # both directions added
        contrast = sum(loops.base(first, second, temperature=0.1)) / size
    else:
        contrast = sum(loops.simcse(first, second, [], temperature=0.1)) / size
    ce = sum(-logits[i].log_softmax(0)[labels[i]] for i in range(size)) / size
    expected = {"ce": ce, "contrast": 0.15 * contrast}
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)
    wanted = torch.autograd.grad(sum(expected.values()), tensors)
    for found, gradient in zip(torch.autograd.grad(sum(value.values()), tensors), wanted, strict=True):
        torch.testing.assert_close(found, gradient, atol=1e-9, rtol=1e-9)


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


def test_a_batch_of_one_has_contrast_zero_connected_to_the_graph(tiny_encoder) -> None:
    loss = CrossEntropyContrastLoss(tiny_encoder, LinearHead(16, 2)).train()
    value = loss([tiny_encoder.preprocess(["a cat"])], torch.tensor([1]))
    assert value["contrast"].item() == pytest.approx(0, abs=1e-6)
    value["contrast"].backward()
