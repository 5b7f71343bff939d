from __future__ import annotations

import logging

import pytest
import torch

from sentemb.errors import InputError
from sentemb.losses import SupConLoss
from tests.losses import loops
from tests.losses.training import train_steps

LABELS = {
    "two classes": [0, 1, 0, 1, 1, 0],
    "with singletons": [0, 1, 0, 2, 3, 0],
    "one class": [5, 5, 5],
    "one pair": [1, 1],
    "all different": [0, 1, 2],
    "a batch of one": [7],
    "grades": [0.2, 4.8, 0.2, 3.0],
}


def vectors(rows: int, views: int, *, seed: int = 0, dtype=torch.float64) -> torch.Tensor:
    torch.manual_seed(seed)
    return torch.randn(rows, views, 5, dtype=dtype).requires_grad_()


def value_of(views: torch.Tensor, labels, **options) -> torch.Tensor:
    labels = None if labels is None else torch.tensor(labels)
    loss = SupConLoss(torch.nn.Identity(), **options)
    return loss.compute_loss_from_embeddings(list(views.unbind(1)), labels)


@pytest.mark.parametrize("views", [1, 2, 3])
@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_loss_and_gradient_equal_the_loops(labels, views) -> None:
    rows = vectors(len(labels), views)
    value = value_of(rows, labels, temperature=0.2)
    (found,) = torch.autograd.grad(value, rows)
    expected = loops.mean_of(loops.supervised(rows, labels, temperature=0.2))
    if expected is None:
        assert value == 0
        assert not found.any()
        return
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)
    (wanted,) = torch.autograd.grad(expected, rows)
    torch.testing.assert_close(found, wanted, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("views", [2, 3])
def test_without_labels_each_row_is_a_class(views) -> None:
    rows = vectors(4, views)
    torch.testing.assert_close(value_of(rows, None), value_of(rows, [3, 1, 0, 2]), atol=1e-12, rtol=0)


@pytest.mark.parametrize(("temperature", "factor"), [(0.07, 1.0), (0.05, 0.05 / 0.07)])
def test_released_counts_anchors_without_positives_and_scales(temperature, factor) -> None:
    rows = vectors(6, 1)
    losses = loops.supervised(rows, LABELS["with singletons"], temperature=temperature)
    expected = factor * sum(loss for loss in losses if loss is not None) / 6
    value = value_of(rows, LABELS["with singletons"], temperature=temperature, preset="released")
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)


def test_gradcheck() -> None:
    rows = vectors(4, 2)
    assert torch.autograd.gradcheck(lambda views: value_of(views, [0, 1, 0, 2], temperature=0.5), (rows,))


def test_order_of_rows_and_views_does_not_matter() -> None:
    rows, labels = vectors(6, 3), torch.tensor(LABELS["with singletons"])
    order, views = torch.randperm(6), torch.randperm(3)
    shuffled = value_of(rows[order][:, views], labels[order].tolist())
    torch.testing.assert_close(value_of(rows, labels.tolist()), shuffled, atol=1e-12, rtol=0)


def test_duplicated_vectors_and_zero_vectors_stay_finite() -> None:
    rows = torch.zeros(4, 1, 5, dtype=torch.float64).requires_grad_()
    with torch.no_grad():
        rows[2:] = 1.0
    value = value_of(rows, [0, 1, 0, 1])
    value.backward()
    assert value.isfinite()
    assert rows.grad.isfinite().all()


def test_one_text_under_two_labels_is_a_negative() -> None:
    torch.manual_seed(0)
    same, other = torch.randn(2, 5)
    views = torch.stack([same, same, other])[:, None]
    expected = loops.mean_of(loops.supervised(views, [0, 1, 0], temperature=0.07))
    torch.testing.assert_close(value_of(views, [0, 1, 0]), expected)


def test_labels_in_a_column_of_their_own_are_taken() -> None:
    rows = vectors(3, 1)
    assert value_of(rows, [[1], [1], [2]]) == value_of(rows, [1, 1, 2])


def test_text_columns_are_views_and_padding_does_not_matter(encoder64, sentences) -> None:
    loss = SupConLoss(encoder64).eval()
    labels = torch.tensor([0, 1, 0, 2])
    features = [encoder64.preprocess(sentences(4, seed=seed)) for seed in (0, 1)]
    views = torch.stack([encoder64(dict(f))["sentence_embedding"] for f in features], dim=1)
    expected = loops.mean_of(loops.supervised(views, labels.tolist(), temperature=0.07))
    torch.testing.assert_close(loss(features, labels), expected, atol=1e-9, rtol=1e-9)
    padded = [
        {k: torch.nn.functional.pad(v, (0, 9)) if isinstance(v, torch.Tensor) else v for k, v in f.items()}
        for f in features
    ]
    torch.testing.assert_close(loss(padded, labels), expected, atol=1e-9, rtol=1e-9)
    assert "sentence_embedding" not in features[0]


def test_few_positives_are_warned_about_once_and_in_training_only(tiny_encoder, sentences, caplog) -> None:
    loss = SupConLoss(tiny_encoder)
    features = [tiny_encoder.preprocess(sentences(6))]
    with caplog.at_level(logging.WARNING):
        with torch.no_grad():
            loss(features, torch.arange(6))
        assert not caplog.text
        for _ in range(2):
            loss(features, torch.tensor([0, 0, 1, 2, 3, 4]))
    assert caplog.text.count("only 33 % of the anchors") == 1
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        SupConLoss(tiny_encoder)(features, torch.tensor([0, 0, 1, 1, 3, 4]))
    assert not caplog.text


def test_trains_on_views_without_labels(tiny_encoder, sentences, tmp_path) -> None:
    data = {"first": sentences(12), "second": sentences(12, seed=1)}
    train_steps("sentemb", tiny_encoder, SupConLoss(tiny_encoder), data, tmp_path)


@pytest.mark.parametrize(
    ("labels", "message"),
    [(None, "needs labels or a second view"), ([0, 1], "got labels of shape")],
)
def test_bad_labels_are_refused(labels, message) -> None:
    with pytest.raises(InputError, match=message):
        value_of(vectors(3, 1), labels)
