from __future__ import annotations

import pytest
import torch

from sentemb.errors import InputError
from sentemb.losses import CrossEntropyLoss, LeamLoss
from sentemb.modules import LabelHead, LeamHead, LsanHead
from tests.losses import loops
from tests.losses.lacon_loops import cross_entropies


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
    loops.assert_equal(found, wanted, loss.parameters())


def test_one_class_has_loss_zero(tiny_encoder, sentences) -> None:
    loss = build(tiny_encoder, classes=1)
    found = loss([tiny_encoder.preprocess(sentences(3))], torch.zeros(3, dtype=torch.long))
    assert all(value.item() == 0 for value in found.values())


def test_a_head_without_a_window_is_refused(tiny_encoder) -> None:
    with pytest.raises(InputError, match="LabelHead does not support; use a LeamHead"):
        LeamLoss(tiny_encoder, LabelHead(16, 2))


def test_label_vectors_that_do_not_learn_are_saved_and_shared_all_the_same(tiny_encoder, sentences) -> None:
    loss = CrossEntropyLoss(tiny_encoder, LsanHead(16, 3))
    assert "head.label_vectors" in loss.head_state()
    assert loss.head.label_vectors in set(loss.owned_parameters())
    before = loss.head.label_vectors.clone()
    optimizer = torch.optim.AdamW(loss.parameters(), weight_decay=0.1)
    loss([tiny_encoder.preprocess(sentences(3))], torch.tensor([0, 1, 2])).backward()
    optimizer.step()
    assert torch.equal(loss.head.label_vectors, before)
