from __future__ import annotations

import pytest
import torch

from sentemb.losses import SupConLoss
from tests.losses import loops

LABELS = {
    "two classes": [0, 1, 0, 1, 1, 0],
    "with singletons": [0, 1, 0, 2, 3, 0],
    "one class": [5, 5, 5],
    "one pair": [1, 1],
    "all different": [0, 1, 2],
    "a batch of one": [7],
    "grades": [0.2, 4.8, 0.2, 3.0],
}


def vectors(rows: int, views: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(rows, views, 5, dtype=torch.float64).requires_grad_()


def value_of(views: torch.Tensor, labels, **options) -> torch.Tensor:
    labels = None if labels is None else torch.tensor(labels)
    loss = SupConLoss(torch.nn.Identity(), **options)
    return loss.compute_loss_from_embeddings(list(views.unbind(1)), labels)


@pytest.mark.parametrize("views", [1, 2, 3])
@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_loss_and_gradient_equal_the_loops(labels, views) -> None:
    rows = vectors(len(labels), views)
    expected = loops.mean_of(loops.supervised(rows, labels, temperature=0.2))
    value = value_of(rows, labels, temperature=0.2)
    loops.assert_equal(value, 0 * rows.sum() if expected is None else expected, [rows])


def test_without_labels_each_row_is_a_class() -> None:
    rows = vectors(4, 3)
    torch.testing.assert_close(value_of(rows, None), value_of(rows, [3, 1, 0, 2]), atol=1e-12, rtol=0)


@pytest.mark.parametrize(("temperature", "factor"), [(0.07, 1.0), (0.05, 0.05 / 0.07)])
def test_released_counts_anchors_without_positives_and_scales(temperature, factor) -> None:
    rows = vectors(6, 1)
    losses = loops.supervised(rows, LABELS["with singletons"], temperature=temperature)
    expected = factor * sum(loss for loss in losses if loss is not None) / 6
    value = value_of(rows, LABELS["with singletons"], temperature=temperature, preset="released")
    loops.assert_equal(value, expected, [rows])


def test_duplicated_vectors_and_zero_vectors_stay_finite() -> None:
    rows = torch.zeros(4, 1, 5, dtype=torch.float64).requires_grad_()
    with torch.no_grad():
        rows[2:] = 1.0
    value = value_of(rows, [0, 1, 0, 1])
    value.backward()
    assert value.isfinite()
    assert rows.grad.isfinite().all()


def test_labels_in_a_column_of_their_own_are_taken() -> None:
    rows = vectors(3, 1)
    assert value_of(rows, [[1], [1], [2]]) == value_of(rows, [1, 1, 2])


def test_text_columns_are_views(encoder64, sentences) -> None:
    labels = torch.tensor([0, 1, 0, 2])
    features = [encoder64.preprocess(sentences(4, seed=seed)) for seed in (0, 1)]
    views = torch.stack([encoder64(dict(f))["sentence_embedding"] for f in features], dim=1)
    expected = loops.mean_of(loops.supervised(views, labels.tolist(), temperature=0.07))
    loops.assert_equal(SupConLoss(encoder64)(features, labels), expected, encoder64.parameters())
