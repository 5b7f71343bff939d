"""Reference implementations of LaCon's formulas as loops over texts, labels and heads."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tests.losses.loops import cosine


def instance_centered(
    texts: Tensor, labels: Tensor, classes: list[int], *, heads: int, temperature: float, slices: str
) -> Tensor:
    """Eq. 4: minus one over N in front of the sums over heads and texts."""
    size, total = texts.shape[1] // heads, 0
    for text, own in zip(texts, classes, strict=True):
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            phis = []
            for label in labels:
                if slices == "renormalised":
                    similarity = cosine(text[part], label[part])
                else:
                    lengths = text.pow(2).sum().sqrt() * label.pow(2).sum().sqrt()
                    similarity = sum(x * y for x, y in zip(text[part], label[part], strict=True)) / lengths
                phis.append(torch.exp(similarity / temperature))
            total = total - torch.log(phis[own] / sum(phis))
    return total / len(texts)


def label_centered(
    texts: Tensor, labels: Tensor, classes: list[int], *, temperature: float, denominator: str
) -> Tensor:
    """Eq. 5; a label without negatives is skipped and counted in |P|, where the denominator needs them."""
    total = 0 * texts.sum()
    for label in set(classes):
        phis = [torch.exp(cosine(labels[label], text) / temperature) for text in texts]
        positives = [phi for phi, own in zip(phis, classes, strict=True) if own == label]
        negatives = [phi for phi, own in zip(phis, classes, strict=True) if own != label]
        if not negatives and denominator != "all":
            continue
        for positive in positives:
            extra = {"negatives": [], "infonce": [positive], "all": positives}[denominator]
            total = total - torch.log(positive / sum(negatives + extra))
    return total / len(set(classes))


def dispersion(labels: Tensor) -> Tensor:
    """Eq. 6 over ordered pairs."""
    pairs = [(i, j) for i in range(len(labels)) for j in range(len(labels)) if i != j]
    values = [torch.exp(1 + cosine(labels[i], labels[j])) - 1 for i, j in pairs]
    return sum(values) / len(pairs) if pairs else 0 * labels.sum()


def cross_entropies(logits: Tensor, classes: list[int]) -> list[Tensor]:
    losses = []
    for row, own in zip(logits, classes, strict=True):
        losses.append(math.log(1) - torch.log(torch.exp(row[own]) / sum(torch.exp(value) for value in row)))
    return losses
