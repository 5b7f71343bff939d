from __future__ import annotations

import pytest
import torch

from sentemb.errors import InputError
from sentemb.losses import CrossEntropyLoss, LeamLoss
from sentemb.modules import LabelHead, LeamHead, LsanHead
from tests.losses.lacon_loops import cross_entropies
from tests.losses.training import train_steps


def build(model, classes: int = 3) -> LeamLoss:
    torch.manual_seed(0)
    return LeamLoss(model, LeamHead(16, classes, hidden=8)).to(next(model.parameters()).dtype)


@pytest.mark.parametrize("classes", [[0, 2, 2, 0, 1], [1], [2, 2]])
def test_both_terms_and_gradients_equal_the_loops(encoder64, sentences, classes) -> None:
    loss = build(encoder64).eval()
    features = encoder64.preprocess(sentences(len(classes)))
    found = loss([features], torch.tensor(classes))
    texts = cross_entropies(loss.head(encoder64(dict(features))), classes)
    labels = cross_entropies(loss.head.classifier(loss.head.label_vectors), [0, 1, 2])
    wanted = {"ce": sum(texts) / len(texts), "label_ce": sum(labels) / 3}
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, atol=1e-9, rtol=1e-9)
    parameters = [*loss.owned_parameters(), encoder64[0].model.encoder.layer[0].output.dense.weight]
    pair = [torch.autograd.grad(sum(values.values()), parameters) for values in (found, wanted)]
    for one, other in zip(*pair, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


def test_one_class_has_loss_zero(tiny_encoder, sentences) -> None:
    loss = build(tiny_encoder, classes=1)
    found = loss([tiny_encoder.preprocess(sentences(3))], torch.zeros(3, dtype=torch.long))
    assert all(value.item() == 0 for value in found.values())


def test_bad_heads_and_labels_are_one_line(tiny_encoder, sentences) -> None:
    with pytest.raises(InputError, match="LabelHead does not support; use a LeamHead"):
        LeamLoss(tiny_encoder, LabelHead(16, 2))
    with pytest.raises(InputError, match="LeamLoss got the label 3, but the head has the classes 0 to 2"):
        build(tiny_encoder)([tiny_encoder.preprocess(sentences(2))], torch.tensor([0, 3]))


def test_label_vectors_that_do_not_learn_are_saved_and_shared_all_the_same(tiny_encoder, sentences) -> None:
    loss = CrossEntropyLoss(tiny_encoder, LsanHead(16, 3))
    assert "head.label_vectors" in loss.head_state()
    assert loss.head.label_vectors in set(loss.owned_parameters())
    before = loss.head.label_vectors.clone()
    optimizer = torch.optim.AdamW(loss.parameters(), weight_decay=0.1)
    loss([tiny_encoder.preprocess(sentences(3))], torch.tensor([0, 1, 2])).backward()
    optimizer.step()
    assert torch.equal(loss.head.label_vectors, before)


@pytest.mark.parametrize("trainer", ["upstream", "sentemb"])
@pytest.mark.parametrize("method", ["leam", "lsan"])
def test_training_reduces_the_loss(tiny_encoder, sentences, tmp_path, trainer, method) -> None:
    torch.manual_seed(0)
    loss = build(tiny_encoder) if method == "leam" else CrossEntropyLoss(tiny_encoder, LsanHead(16, 3))
    with torch.no_grad():
        for parameter in loss.owned_parameters():
            parameter.mul_(10)  # a dozen steps are not enough for a head that starts small
    rows = {"sentence": sentences(8), "label": [0, 1] * 4}
    features, labels = tiny_encoder.preprocess(rows["sentence"]), torch.tensor(rows["label"])

    def value() -> float:
        found = loss.eval()([features], labels)
        return sum(found.values()).item() if isinstance(found, dict) else found.item()

    before = value()
    train_steps(trainer, tiny_encoder, loss, rows, tmp_path, steps=12)
    assert value() < before - 0.05
