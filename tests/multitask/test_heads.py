"""Heads and losses of the tasks, against their formulas."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from sentemb.errors import InputError
from sentemb.multitask.model import Sharing, TaskHeads, task_loss

WIDTH = 6


def heads_of(sharing: Sharing) -> TaskHeads:
    torch.manual_seed(1)
    return TaskHeads(WIDTH, 5, sharing=sharing).double().eval()


def vectors(rows: int = 4, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layers(module: nn.Module) -> list[nn.Linear]:
    return [layer for layer in module.modules() if isinstance(layer, nn.Linear)]


@pytest.mark.parametrize(
    ("sharing", "names"),
    [
        ("separate", (("paraphrase", "similarity"), ("paraphrase", "similarity"))),
        ("first-layer", (("pair",), ("paraphrase", "similarity"))),
        ("full", (("pair",), ("pair",))),
        ("none", ((), ())),
    ],
)
def test_sharing_decides_which_layers_there_are(
    sharing: Sharing, names: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    heads = heads_of(sharing)
    assert (tuple(heads.first), tuple(heads.second)) == names
    again = TaskHeads(**heads.config()).double().eval()
    again.load_state_dict(heads.state_dict())
    assert torch.equal(again("sentiment", vectors()), heads("sentiment", vectors()))


def test_the_default_head_by_its_formulas() -> None:
    heads = heads_of("first-layer")
    first, second = vectors(), vectors(seed=1)
    one, two = layers(heads.sentiment)
    assert torch.allclose(heads("sentiment", first), two(torch.relu(one(first))))
    (hidden,) = layers(heads.first)

    def transformed(task: str, one: torch.Tensor) -> torch.Tensor:
        (last,) = layers(heads.second[task])
        return last(torch.relu(hidden(one)))

    assert heads.bilinear is not None
    weight, bias = heads.bilinear.weight[0], heads.bilinear.bias[0]
    t1, t2 = transformed("paraphrase", first), transformed("paraphrase", second)
    for row, logit in enumerate(heads("paraphrase", first, second)):
        assert logit.item() == pytest.approx((t1[row] @ weight @ t2[row] + bias).item())
    t1, t2 = transformed("similarity", first), transformed("similarity", second)
    for row, cosine in enumerate(heads("similarity", first, second)):
        expected = t1[row] @ t2[row] / (t1[row].norm() * t2[row].norm())
        assert cosine.item() == pytest.approx(expected.item())


def test_without_layers_both_pair_tasks_are_the_cosine() -> None:
    heads = heads_of("none")
    first, second = vectors(), vectors(seed=1)
    assert torch.equal(heads("paraphrase", first, second), heads("similarity", first, second))
    assert torch.allclose(heads("similarity", first, second), torch.cosine_similarity(first, second))
    assert len(list(heads.parameters())) == 2  # sentiment's linear layer


def test_dropout_comes_before_every_linear_layer() -> None:
    heads = TaskHeads(WIDTH)
    for block in (heads.sentiment, *heads.first.values(), *heads.second.values()):
        kinds = [type(layer) for layer in block]
        places = [index for index, kind in enumerate(kinds) if kind is nn.Linear]
        assert all(kinds[index - 1] is nn.Dropout and block[index - 1].p == 0.3 for index in places)


def test_a_zero_vector_has_cosine_and_gradient_zero() -> None:
    zero = torch.zeros(1, WIDTH, requires_grad=True)
    cosine = TaskHeads(WIDTH, sharing="none")("similarity", zero, torch.ones(1, WIDTH))
    cosine.sum().backward()
    assert cosine.item() == 0
    assert zero.grad is not None
    assert not zero.grad.any()


def test_losses_in_loops() -> None:
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.tensor([4, 0, 2])
    terms = [
        -math.log(math.exp(row[label]) / sum(math.exp(one) for one in row))
        for row, label in zip(logits.tolist(), labels.tolist(), strict=True)
    ]
    assert task_loss("sentiment", logits, labels).item() == pytest.approx(sum(terms) / 3)
    nominal = task_loss("sentiment", logits, labels, nominal_rows=16).item()
    assert nominal == pytest.approx(sum(terms) / 16)

    logit, duplicate = torch.tensor([0.3, -2.0], dtype=torch.float64), torch.tensor([1, 1])
    expected = sum(math.log(1 + math.exp(-one)) for one in logit.tolist()) / 2
    assert task_loss("paraphrase", logit, duplicate).item() == pytest.approx(expected)

    cosines, scores = torch.tensor([0.5, -0.2], dtype=torch.float64), torch.tensor([4.0, 1.0])
    pairs = zip(cosines.tolist(), scores.tolist(), strict=True)
    expected = sum((cosine - score / 5) ** 2 for cosine, score in pairs) / 2
    assert task_loss("similarity", cosines, scores).item() == pytest.approx(expected)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InputError, match="unknown sharing of the task heads: half"):
        TaskHeads(WIDTH, sharing="half")
    with pytest.raises(InputError, match="dropout of a classification head"):
        TaskHeads(WIDTH, dropout=1)
    with pytest.raises(InputError, match="7 dimensions"):
        TaskHeads(WIDTH)("sentiment", torch.ones(1, 7))
