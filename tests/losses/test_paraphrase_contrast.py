"""The loss of labelled pairs, compared with loops, for every value of `negatives` and mix of labels."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from sentemb.errors import InputError
from sentemb.losses import ParaphraseContrastLoss
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


def vectors(rows: int, *, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
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
def test_equals_the_loops_with_gradients(tiny_encoder, reading, mix, components) -> None:
    loss = ParaphraseContrastLoss(tiny_encoder, negatives=reading, head=None)
    pairs, labels = vectors(len(MIXES[mix])), labels_of(mix, components=components)
    value = loss.compute_loss_from_embeddings(pairs, labels)
    expected = reference(*pairs, MIXES[mix], COMPONENTS if components else None, reading=reading)
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)
    for found, wanted in zip(
        torch.autograd.grad(value, pairs), torch.autograd.grad(expected, pairs), strict=True
    ):
        torch.testing.assert_close(found, wanted, atol=1e-9, rtol=1e-9)


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


def test_a_pair_that_is_no_paraphrase_is_pushed_apart_unless_ignored(tiny_encoder) -> None:
    other = torch.tensor(MIXES["mixed"]) == 0
    for reading in READINGS:
        first, second = vectors(6, seed=1)
        loss = ParaphraseContrastLoss(tiny_encoder, negatives=reading, head=None)
        loss.compute_loss_from_embeddings([first, second], torch.tensor(MIXES["mixed"])).backward()
        if reading == "ignored":
            assert not first.grad[other].any() and not second.grad[other].any()
            continue
        assert first.grad[other].any(1).all()
        if reading == "denominator":  # whose terms hold the first text of such a pair with its second alone
            before = torch.cosine_similarity(first, second)
            assert (torch.cosine_similarity(first - 0.01 * first.grad, second) < before)[other].all()


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


def test_padding_and_order_change_nothing(encoder64, sentences) -> None:
    loss = ParaphraseContrastLoss(encoder64).double().eval()
    texts, labels = [sentences(6, seed=seed) for seed in (0, 1)], labels_of("mixed", components=True)
    features = [encoder64.preprocess(column) for column in texts]
    padded = [
        {k: torch.nn.functional.pad(v, (0, 9)) if isinstance(v, torch.Tensor) else v for k, v in f.items()}
        for f in features
    ]
    turned = [encoder64.preprocess(column[::-1]) for column in texts]
    value = loss(features, labels)
    torch.testing.assert_close(loss(padded, labels), value, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(loss(turned, labels.flip(0)), value, atol=1e-9, rtol=1e-9)


def test_the_head_is_two_linear_layers_of_the_loss(encoder64, sentences) -> None:
    loss = ParaphraseContrastLoss(encoder64).double().eval()
    features = [encoder64.preprocess(sentences(6, seed=seed)) for seed in (0, 1)]
    plain = [encoder64(dict(column))["sentence_embedding"] for column in features]
    inner, _, outer = loss.head
    heads = [(v @ inner.weight.T + inner.bias).relu() @ outer.weight.T + outer.bias for v in plain]
    expected = reference(*heads, MIXES["mixed"], None, reading="signed")
    value = loss(features, torch.tensor(MIXES["mixed"]))
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)
    assert len(loss.head_state()) == 4


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "needs labels"),
        (torch.tensor([1, 0]), "labels of shape"),
        (torch.ones(3, 2), "labels of shape"),
        (torch.tensor([1.0, 0.5, 0.0]), "got the label 0.5"),
        (torch.tensor([1.0, math.nan, 0.0]), "got the label nan"),
    ],
)
def test_bad_labels_are_refused(tiny_encoder, labels, message) -> None:
    loss = ParaphraseContrastLoss(tiny_encoder, head=None)
    with pytest.raises(InputError, match=message):
        loss.compute_loss_from_embeddings(vectors(3), labels)
