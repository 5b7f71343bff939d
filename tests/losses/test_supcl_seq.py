from __future__ import annotations

import copy

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import nn

from sentemb.errors import InputError
from sentemb.losses import SupCLSeqLoss
from tests.losses import loops
from tests.losses.training import train_steps

LABELS = torch.tensor([0, 1, 0, 2])


def record(model: SentenceTransformer) -> list[tuple[float, torch.Tensor]]:
    """Record dropout probability and sentence vectors of every later forward pass of the model."""
    seen: list[tuple[float, torch.Tensor]] = []

    def look(_: object, __: object, output: dict) -> None:
        (probability,) = {module.p for module in model.modules() if isinstance(module, nn.Dropout)}
        seen.append((probability, output["sentence_embedding"]))

    model.register_forward_hook(look)
    return seen


@pytest.mark.parametrize("labels", [LABELS, torch.tensor([1, 1, 1, 1]), None], ids=["classes", "one", "none"])
def test_loss_and_gradient_equal_the_loops_on_the_listed_views(encoder64, sentences, labels) -> None:
    loss = SupCLSeqLoss(encoder64, dropouts=(0.2, 0.0, 0.1))
    encoder64.train()
    seen = record(encoder64)
    value = loss([encoder64.preprocess(sentences(4))], labels)
    assert [probability for probability, _ in seen] == [0.2, 0.0, 0.1]
    views = torch.stack([vectors for _, vectors in seen], dim=1)
    classes = list(range(4)) if labels is None else labels.tolist()
    expected = loops.mean_of(loops.supervised(views, classes, temperature=0.05))
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)
    parameters = [p for name, p in encoder64.named_parameters() if ".pooler." not in name]
    wanted = torch.autograd.grad(expected, parameters, retain_graph=True)
    for found, gradient in zip(torch.autograd.grad(value, parameters), wanted, strict=True):
        torch.testing.assert_close(found, gradient, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("size", [1, 2])
def test_small_batches(encoder64, sentences, size) -> None:
    loss = SupCLSeqLoss(encoder64)
    encoder64.train()
    seen = record(encoder64)
    value = loss([encoder64.preprocess(sentences(size))], torch.arange(size))
    views = torch.stack([vectors for _, vectors in seen], dim=1)
    expected = loops.mean_of(loops.supervised(views, list(range(size)), temperature=0.05))
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)
    value.backward()


RELEASED = [
    ((0.0, 0.1, 0.2), (0.1, 0.0, 0.0, 0.2), (0.1, 0.0, 0.0, 0.2)),
    ((0.0, 0.05, 0.2), (0.1, 0.0, 0.05, 0.2), (0.1, 0.0, 0.05, 0.2)),
    ((0.1, 0.1), (0.1, 0.1, 0.1), (0.1, 0.1, 0.1)),
    ((0.0, 0.1), (0.1, 0.0, 0.0), (0.0, 0.0, 0.0)),
    ((0.0, 0.1, 0.2, 0.3, 0.4), (0.1, 0.0, 0.0, 0.2, 0.3, 0.4), (0.1, 0.0, 0.0, 0.2, 0.3, 0.4)),
]


@pytest.mark.parametrize(("listed", "first", "second"), RELEASED)
def test_released_uses_the_probabilities_of_the_authors_code(
    tiny_encoder, sentences, listed, first, second
) -> None:
    loss = SupCLSeqLoss(tiny_encoder, dropouts=listed, preset="released")
    tiny_encoder.train()
    features = [tiny_encoder.preprocess(sentences(4))]
    seen = record(tiny_encoder)
    for expected in (first, second, second):
        own = [0.1 if view.dropout is None else view.dropout for view in loss.views_of(features)]
        assert own == list(expected)
    loss = SupCLSeqLoss(tiny_encoder, dropouts=listed, preset="released")
    for expected in (first, second):
        seen.clear()
        loss(features, LABELS)
        # Views of one probability share a forward.
        assert {probability for probability, _ in seen} == set(expected)
    assert all(module.p == 0.1 for module in tiny_encoder.modules() if isinstance(module, nn.Dropout))


def test_released_is_stuck_in_training_steps_only(tiny_encoder, sentences) -> None:
    loss = SupCLSeqLoss(tiny_encoder, dropouts=(0.0, 0.1), preset="released")
    tiny_encoder.eval()
    loss([tiny_encoder.preprocess(sentences(2))], torch.tensor([0, 1]))
    tiny_encoder.train()
    features, resumed = [tiny_encoder.preprocess(sentences(2))], copy.deepcopy(loss)
    for expected in ((None, 0.0, 0.0), (0.0, 0.0, 0.0)):
        resumed.load_head_state(loss.head_state())
        for one in (loss, resumed):
            assert tuple(view.dropout for view in one.views_of(features)) == expected
    assert not SupCLSeqLoss(tiny_encoder).head_state()


def test_released_scales_the_loss(encoder64) -> None:
    torch.manual_seed(0)
    views = torch.randn(4, 3, 16, dtype=torch.float64)
    released = SupCLSeqLoss(encoder64, preset="released")
    expected = 0.05 / 0.07 * loops.mean_of(loops.supervised(views, LABELS.tolist(), temperature=0.05))
    value = released.compute_loss_from_embeddings(list(views.unbind(1)), LABELS)
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)


def test_grades_are_rounded_to_one_decimal_but_not_in_the_released_code(tiny_encoder) -> None:
    torch.manual_seed(0)
    views = list(torch.randn(2, 4, 16).unbind(0))
    grades = torch.tensor([3.21, 3.24, 0.0, 5.0])
    paper, released = SupCLSeqLoss(tiny_encoder), SupCLSeqLoss(tiny_encoder, preset="released")
    rounded = paper.compute_loss_from_embeddings(views, torch.tensor([0, 0, 1, 2]))
    exact = released.compute_loss_from_embeddings(views, torch.tensor([0, 3, 1, 2]))
    assert paper.compute_loss_from_embeddings(views, grades) == rounded
    assert released.compute_loss_from_embeddings(views, grades) == exact


def test_trains_without_labels(tiny_encoder, sentences, tmp_path) -> None:
    loss = SupCLSeqLoss(tiny_encoder, dropouts=(0.1, 0.1))
    train_steps("sentemb", tiny_encoder, loss, {"sentence": sentences(12)}, tmp_path)


def test_bad_batches_are_refused(tiny_encoder, sentences) -> None:
    features = tiny_encoder.preprocess(sentences(3))
    with pytest.raises(InputError, match="needs single texts, but this batch has 2 text columns"):
        SupCLSeqLoss(tiny_encoder)([features, features])
    with pytest.raises(InputError, match="needs labels or a second view"):
        SupCLSeqLoss(tiny_encoder, dropouts=(0.1,))([features])
