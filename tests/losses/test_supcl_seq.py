from __future__ import annotations

import copy

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import nn

from sentemb.errors import InputError
from sentemb.losses import SupCLSeqLoss
from tests.losses import loops

LABELS = torch.tensor([0, 1, 0, 2])


def record(model: SentenceTransformer) -> list[tuple[float, torch.Tensor]]:
    """Record dropout probability and sentence vectors of every later forward pass of the model."""
    seen: list[tuple[float, torch.Tensor]] = []

    def look(_: object, __: object, output: dict) -> None:
        (probability,) = {module.p for module in model.modules() if isinstance(module, nn.Dropout)}
        seen.append((probability, output["sentence_embedding"]))

    model.register_forward_hook(look)
    return seen


@pytest.mark.parametrize("labels", [[0, 1, 0, 2], [1, 1, 1, 1], None, [0], [0, 1]])
def test_loss_and_gradient_equal_the_loops_on_the_listed_views(encoder64, sentences, labels) -> None:
    size = 4 if labels is None else len(labels)
    loss = SupCLSeqLoss(encoder64, dropouts=(0.2, 0.0, 0.1))
    encoder64.train()
    seen = record(encoder64)
    value = loss([encoder64.preprocess(sentences(size))], None if labels is None else torch.tensor(labels))
    assert [probability for probability, _ in seen] == [0.2, 0.0, 0.1]
    views = torch.stack([vectors for _, vectors in seen], dim=1)
    classes = list(range(4)) if labels is None else labels
    expected = loops.mean_of(loops.supervised(views, classes, temperature=0.05))
    loops.assert_equal(value, expected, encoder64.parameters())


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


def test_released_scales_the_loss_and_does_not_round_grades(tiny_encoder) -> None:
    torch.manual_seed(0)
    views = list(torch.randn(3, 4, 16, dtype=torch.float64).unbind(0))
    paper, released = SupCLSeqLoss(tiny_encoder), SupCLSeqLoss(tiny_encoder, preset="released")
    for grades, rounded, exact in (
        (LABELS, LABELS.tolist(), LABELS.tolist()),
        (torch.tensor([3.21, 3.24, 0.0, 5.0]), [0, 0, 1, 2], [0, 3, 1, 2]),
    ):
        for loss, classes, factor in ((paper, rounded, 1), (released, exact, 0.05 / 0.07)):
            value = loss.compute_loss_from_embeddings(views, grades)
            expected = loops.mean_of(loops.supervised(torch.stack(views, 1), classes, temperature=0.05))
            torch.testing.assert_close(value, factor * expected, atol=1e-9, rtol=1e-9)


def test_one_view_without_labels_is_refused(tiny_encoder, sentences) -> None:
    with pytest.raises(InputError, match="needs labels or a second view"):
        SupCLSeqLoss(tiny_encoder, dropouts=(0.1,))([tiny_encoder.preprocess(sentences(3))])
