from __future__ import annotations

import pytest
import torch
from torch import nn

from sentemb.losses import CrossEntropyContrastLoss, CrossEntropyLoss, CrossEntropySupConLoss, LossParameters
from sentemb.modules import LinearHead

LABELS = torch.tensor([0, 2, 1, 2])
LOSSES = [CrossEntropyLoss, CrossEntropySupConLoss, CrossEntropyContrastLoss]


def build(model, loss_class=CrossEntropyLoss, **options) -> LossParameters:
    torch.manual_seed(5)
    head = LinearHead(16, 3).to(next(model.parameters()).dtype)
    return loss_class(model, head, **options)


def entropy(logits: torch.Tensor, label: int) -> torch.Tensor:
    return torch.log(sum(torch.exp(logit) for logit in logits)) - logits[label]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_loss_and_gradient_equal_the_loops(encoder64, sentences, size) -> None:
    loss = build(encoder64).eval()
    features = encoder64.preprocess(sentences(size))
    value = loss([features], LABELS[:size])
    weight, bias = loss.head.linear.parameters()
    vectors = encoder64(dict(features))["sentence_embedding"]
    expected = sum(entropy(weight @ vectors[i] + bias, int(LABELS[i])) for i in range(size)) / size
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)
    parameters = [p for name, p in loss.named_parameters() if ".pooler." not in name]
    wanted = torch.autograd.grad(expected, parameters)
    for found, gradient in zip(torch.autograd.grad(value, parameters), wanted, strict=True):
        torch.testing.assert_close(found, gradient, atol=1e-9, rtol=1e-9)
    assert "sentence_embedding" not in features


def test_dropout_augmentation_is_the_mean_over_all_views(encoder64, sentences) -> None:
    loss = build(encoder64, dropouts=(0.0, 0.3, 0.3, 0.2))
    encoder64.train()
    loss.head.eval()
    seen: list[torch.Tensor] = []
    loss.head.register_forward_hook(lambda _, __, logits: seen.append(logits))
    value = loss([encoder64.preprocess(sentences(4))], LABELS)
    assert len(seen) == 4
    losses = [entropy(logits[i], int(LABELS[i])) for logits in seen for i in range(4)]
    torch.testing.assert_close(value, sum(losses) / 16, atol=1e-9, rtol=1e-9)
    assert len({loss.item() for loss in losses}) == 16
    assert all(module.p == 0.1 for module in encoder64.modules() if isinstance(module, nn.Dropout))


@pytest.mark.parametrize("loss_class", LOSSES)
def test_order_of_rows_and_padding_do_not_matter(encoder64, sentences, loss_class) -> None:
    loss = build(encoder64, loss_class).eval()
    texts, order = sentences(4), [2, 0, 3, 1]
    shuffled = [encoder64.preprocess([texts[i] for i in order])]
    padded = {
        name: nn.functional.pad(value, (0, 9)) if isinstance(value, torch.Tensor) else value
        for name, value in encoder64.preprocess(texts).items()
    }
    torch.testing.assert_close(loss([padded], LABELS), loss(shuffled, LABELS[order]), atol=1e-9, rtol=1e-9)
