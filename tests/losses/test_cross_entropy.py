from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from sentemb.errors import InputError
from sentemb.losses import CrossEntropyContrastLoss, CrossEntropyLoss, CrossEntropySupConLoss, LossParameters
from sentemb.modules import LinearHead
from tests.losses.training import TRAINERS, train_steps

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


@pytest.mark.parametrize("loss_class", LOSSES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_finite(tiny_encoder, sentences, loss_class, dtype) -> None:
    loss = build(tiny_encoder, loss_class).train()
    with torch.autocast("cpu", dtype):
        value = loss([tiny_encoder.preprocess(sentences(4))], LABELS)
    value = sum(value.values()) if isinstance(value, dict) else value
    value.backward()
    assert value.isfinite()
    assert value.dtype == torch.float32
    assert all(p.grad.isfinite().all() for p in loss.parameters() if p.grad is not None)


@pytest.mark.parametrize(
    ("loss_class", "trainer"),
    [*((CrossEntropyLoss, trainer) for trainer in TRAINERS), *((other, "sentemb") for other in LOSSES[1:])],
)
def test_trains_the_encoder_and_the_head(
    tiny_encoder, sentences, tmp_path: Path, loss_class, trainer
) -> None:
    loss = build(tiny_encoder, loss_class)
    before = loss.head.linear.weight.clone()
    data = {"sentence": sentences(12), "label": [0, 1, 2] * 4}
    train_steps(trainer, tiny_encoder, loss, data, tmp_path)
    assert not torch.equal(loss.head.linear.weight, before)


@pytest.mark.parametrize("loss_class", LOSSES)
def test_the_loss_owns_its_head(tiny_encoder, loss_class) -> None:
    loss = build(tiny_encoder, loss_class)
    assert list(loss.owned_parameters()) == list(loss.head.parameters())
    assert loss.head_state().keys() == {"head.linear.weight", "head.linear.bias"}


@pytest.mark.parametrize("loss_class", LOSSES)
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "needs labels; add a column called label to the data"),
        (torch.tensor([0, 1, 2, 3]), r"got the label 3, but the head has the classes 0 to 2"),
        (torch.tensor([0, -1, 2, 1]), "got the label -1"),
        (torch.tensor([0.0, 1.0, 2.0, 1.0]), "integer labels"),
        (torch.tensor([0, 1]), r"got labels of shape \(2,\) for 4 rows"),
    ],
)
def test_bad_labels_are_refused(tiny_encoder, sentences, loss_class, labels, message) -> None:
    with pytest.raises(InputError, match=message):
        build(tiny_encoder, loss_class)([tiny_encoder.preprocess(sentences(4))], labels)


@pytest.mark.parametrize("loss_class", LOSSES)
def test_two_text_columns_and_a_missing_head_are_refused(tiny_encoder, sentences, loss_class) -> None:
    features = tiny_encoder.preprocess(sentences(4))
    with pytest.raises(InputError, match=f"{loss_class.__name__} needs single texts"):
        build(tiny_encoder, loss_class)([features, features], LABELS)
    with pytest.raises(
        InputError, match=r"must be a torch\.nn\.Module, but got 3; use a head such as LinearHead"
    ):
        loss_class(tiny_encoder, 3)


def test_bad_dropouts_are_refused(tiny_encoder) -> None:
    with pytest.raises(InputError, match="dropouts of CrossEntropyLoss"):
        build(tiny_encoder, dropouts=(2.0,))


def test_model_card_gets_options_and_citation(tiny_encoder) -> None:
    loss = build(tiny_encoder, dropouts=(0.0, 0.1))
    assert loss.get_config_dict() == {"head": "LinearHead", "dropouts": (0.0, 0.1)}
    assert "N19-1423" in loss.citation
