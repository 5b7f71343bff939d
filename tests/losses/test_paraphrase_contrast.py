"""The loss of labelled pairs, compared with loops, for every value of `negatives` and mix of labels."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from sentemb.errors import InputError
from sentemb.losses import ParaphraseContrastLoss
from tests.losses import loops
from tests.losses.loops import phi

T = 0.05
READINGS = ("signed", "denominator", "ignored")
# 3 of 7 is not a binary fraction: a share rounded to float32 would show in float64.
MIXES = {
    "mixed": [1, 0, 1, 1, 0, 0],
    "3 of 7": [1, 0, 1, 1, 0, 0, 0],
    "all 1": [1] * 6,
    "all 0": [0] * 6,
    "one 1": [1],
    "one 0": [0],
}
COMPONENTS = [[5, 5], [5, 9], [2, 2], [5, 5], [9, 2], [7, 7], [8, 8]]


def reference(first, second, labels, components, *, reading: str) -> Tensor:
    """Compute the loss pair by pair; `components` may be None."""
    counted = []
    for i in range(len(first)):
        if reading != "signed" and not labels[i]:
            continue
        total = torch.zeros((), dtype=first.dtype)
        for j in range(len(first)):
            known = components is not None and components[i][0] == components[j][1]
            if j != i and (known or (reading == "ignored" and not labels[j])):
                continue
            total = total + phi(first[i], second[j], T)
        if reading == "denominator":
            for k in range(len(first)):
                total = total if labels[k] else total + phi(first[k], second[k], T)
        loss = torch.log(total) - torch.log(phi(first[i], second[i], T))
        if not labels[i]:
            loss = -loss
        counted.append(loss)
    return sum(counted) / len(counted) if counted else 0 * (first.sum() + second.sum())


def vectors(rows: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shape = (rows, 7)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(2)]


def labels_of(mix: str, *, components: bool) -> Tensor:
    labels = MIXES[mix]
    if not components:
        return torch.tensor(labels)
    return torch.tensor([[label, *ids] for label, ids in zip(labels, COMPONENTS, strict=False)])


@pytest.mark.parametrize("components", [False, True], ids=["plain", "components"])
@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("reading", READINGS)
def test_loss_and_gradients_equal_the_loops(tiny_encoder, reading, mix, components) -> None:
    loss = ParaphraseContrastLoss(tiny_encoder, negatives=reading, head=None)
    pairs, labels = vectors(len(MIXES[mix])), labels_of(mix, components=components)
    value = loss.compute_loss_from_embeddings(pairs, labels)
    expected = reference(*pairs, MIXES[mix], COMPONENTS if components else None, reading=reading)
    loops.assert_equal(value, expected, pairs)


@pytest.mark.parametrize("reading", READINGS)
def test_the_worst_vectors_keep_the_loss_within_its_bounds(tiny_encoder, reading) -> None:
    loss = ParaphraseContrastLoss(tiny_encoder, negatives=reading, head=None)
    same = torch.ones(64, 4)
    opposite = torch.cat([-same[:32], same[:32]])
    bound = 2 / T + math.log(2 * 64)
    for second in (same, -same, opposite, torch.zeros_like(same)):
        for labels in (torch.zeros(64), torch.ones(64), torch.arange(64) % 2):
            first = same.clone().requires_grad_()
            value = loss.compute_loss_from_embeddings([first, second], labels)
            value.backward()
            assert value.isfinite() and abs(value.item()) <= bound + 1e-3
            assert first.grad.isfinite().all()


def test_share_of_false_negatives(tiny_encoder) -> None:
    """Anchors 0, 1 and 3 belong to component 5, whose second texts are those of pairs 0 and 3."""
    found = {}
    for reading in READINGS:
        loss = ParaphraseContrastLoss(tiny_encoder, negatives=reading, head=None)
        loss.compute_loss_from_embeddings(vectors(6), labels_of("mixed", components=True))
        found[reading] = loss.statistics["false_negatives"].item()
    # Signed: 0 meets 3, 1 meets 0 and 3, 3 meets 0, 2 meets 4, 4 meets 1, of 30 in-batch negatives.
    assert found["signed"] == pytest.approx(6 / 30)
    assert found["denominator"] == pytest.approx(3 / 15)  # of anchors 0, 2, 3: three, of five each
    assert found["ignored"] == pytest.approx(2 / 6)  # and of two each
    loss.compute_loss_from_embeddings(vectors(6), labels_of("mixed", components=False))
    assert loss.statistics == {}


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.ones(3, 2), "labels of shape"),
        (torch.tensor([1.0, 0.5, 0.0]), "got the label 0.5"),
        (torch.tensor([1.0, math.nan, 0.0]), "got the label nan"),
    ],
)
def test_bad_labels_are_refused(tiny_encoder, labels, message) -> None:
    loss = ParaphraseContrastLoss(tiny_encoder, head=None)
    with pytest.raises(InputError, match=message):
        loss.compute_loss_from_embeddings(vectors(3), labels)
