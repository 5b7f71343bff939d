"""Reference implementations: the papers' formulas as loops over sentences, independent of the package."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

Value = Tensor | dict[str, Tensor]


def assert_equal(value: Value, expected: Value, inputs: Iterable[Tensor], *, tolerance: float = 1e-9) -> None:
    """Compare a loss or its components with those of loops, and the gradients; an unused input has zeros."""
    close = {"atol": tolerance, "rtol": tolerance}
    torch.testing.assert_close(value, expected, **close)
    inputs = [one for one in inputs if one.requires_grad]
    pair = [sum(one.values()) if isinstance(one, dict) else one for one in (value, expected)]
    found, wanted = (
        torch.autograd.grad(one, inputs, retain_graph=True, allow_unused=True, materialize_grads=True)
        for one in pair
    )
    torch.testing.assert_close(found, wanted, **close)


def cosine(first: Tensor, second: Tensor) -> Tensor:
    return (first * second).sum() / (first.pow(2).sum().sqrt() * second.pow(2).sum().sqrt())


def phi(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    return torch.exp(cosine(first, second) / temperature)


def simcse(first, second, hard, *, temperature: float) -> list[Tensor]:
    losses = []
    for i in range(len(first)):
        total = 0
        for j in range(len(first)):
            total = total + phi(first[i], second[j], temperature)
            for column in hard:
                total = total + phi(first[i], column[j], temperature)
        losses.append(-torch.log(phi(first[i], second[i], temperature) / total))
    return losses


def base(u, v, *, temperature: float, released: bool = False) -> list[Tensor]:
    vectors, b = [*u, *v], len(u)
    losses = []
    for m in range(2 * b):
        partner = m + b if m < b else m - b
        total = sum(phi(vectors[m], vectors[n], temperature) for n in range(2 * b) if n != m)
        losses.append(-torch.log(phi(vectors[m], vectors[partner], temperature) / total))
    return [2 * loss for loss in losses] if released else losses


def opt1(u, v, *, temperature: float, released: bool = False) -> list[Tensor]:
    losses = []
    for i in range(len(u)):
        total = sum(phi(u[i], u[j], temperature) for j in range(len(u)) if j != i)
        total = total + sum(phi(u[i], v[j], temperature) for j in range(len(u)))
        losses.append(-torch.log(phi(u[i], v[i], temperature) / total))
    return losses


def opt2(u, v, *, temperature: float, released: bool = False) -> list[Tensor]:
    losses = []
    for i in range(len(u)):
        dropped = (1 if i == 0 else 0) if released else None
        total = sum(phi(u[i], v[j], temperature) for j in range(len(u)) if j != dropped)
        losses.append(-torch.log(phi(u[i], v[i], temperature) / total))
    return losses


def opt3(u, v, *, temperature: float, released: bool = False) -> list[Tensor]:
    losses = []
    for i in range(len(u)):
        others = sum(
            phi(u[i], v[m][n], temperature) for m in range(len(u)) if m != i for n in range(v.shape[1])
        )
        for k in range(v.shape[1]):
            positive = phi(u[i], v[i][k], temperature)
            losses.append(-torch.log(positive / (positive + others)))
    return losses


def supervised(views, labels, *, temperature: float) -> list[Tensor | None]:
    """Return one loss per anchor, None without positives; `views` is `(n, l, d)`."""
    places = [(row, view) for row in range(views.shape[0]) for view in range(views.shape[1])]
    losses = []
    for row, view in places:
        anchor = views[row][view]
        others = [place for place in places if place != (row, view)]
        positives = [place for place in others if labels[place[0]] == labels[row]]
        total = sum(phi(anchor, views[j][k], temperature) for j, k in others)
        logs = [torch.log(phi(anchor, views[j][k], temperature) / total) for j, k in positives]
        losses.append(-sum(logs) / len(logs) if logs else None)
    return losses


def mean_of(losses: list[Tensor | None]) -> Tensor | None:
    """Return the mean of the values that are not None; None without any."""
    known = [loss for loss in losses if loss is not None]
    return sum(known) / len(known) if known else None


OBJECTIVES = {"base": base, "opt1": opt1, "opt2": opt2, "opt3": opt3}


def pooled(hidden: Tensor, length: int, pooling: str) -> Tensor:
    """Pool a sentence's hidden state `(t, d)` over its first `length` tokens."""
    tokens = [hidden[position] for position in range(length)]
    if pooling == "mean":
        return sum(tokens) / length
    best = tokens[0]
    for token in tokens[1:]:
        best = torch.where(token > best, token, best)
    return best


def project(vector: Tensor, head: nn.Sequential | None) -> Tensor:
    if head is None:
        return vector
    for linear in (head[0], head[2]):
        vector = linear.weight @ vector + linear.bias
        vector = vector * 0.5 * (1 + torch.erf(vector / 2**0.5))  # the exact GELU
    return vector


def drift(trained: nn.Module, reference: nn.Module) -> Tensor:
    fixed = dict(reference.named_parameters())
    return sum((p - fixed[name].detach()).pow(2).sum() for name, p in trained.named_parameters())
