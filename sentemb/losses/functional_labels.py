"""Objectives between texts and label vectors as functions of tensors, beside those of `functional`.

What is said there of precision, gathered rows and `anchors` holds here. All costs grow with texts times
labels: nothing here compares texts with texts.

Letters in the shape comments: n texts, a anchors, c labels, m heads, d width.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from sentemb._vectors import cosine_similarity, unit_vectors

Denominator = Literal["negatives", "infonce", "all"]
Slices = Literal["renormalised", "global"]

_EVERY = slice(None)


def head_similarities(
    vectors: Tensor, label_vectors: Tensor, *, heads: int, slices: Slices = "renormalised"
) -> Tensor:
    """Similarity of every text with every label in each of m equal slices of the dimensions (LaCon, Eq. 4).

    Args:
        vectors: H, `(n, d)`.
        label_vectors: L, `(c, d)`.
        heads: m, a divisor of d.
        slices: `renormalised` is the cosine of two slices; `global` the dot product of slices of vectors of
            length 1, so that the heads add up to the cosine of the whole vectors.

    Returns:
        `(m, n, c)`.
    """
    with torch.autocast(vectors.device.type, enabled=False):
        texts = _slices(vectors, heads, slices)  # (m, n, d / m)
        labels = _slices(label_vectors, heads, slices)  # (m, c, d / m)
        return texts @ labels.mT  # (m, n, c)


def label_centered(
    vectors: Tensor,
    label_vectors: Tensor,
    labels: Tensor,
    *,
    temperature: float,
    denominator: Denominator = "negatives",
    anchors: slice = _EVERY,
) -> Tensor:
    """The label-centered term of every text (LaCon, Eq. 5): its label is the anchor, the text a positive.

    With p the label of text a, A(p) the texts of that label, B(p) all others and phi(p, b) =
    `exp(cos(L_p, H_b) / temperature)`, the term is `-log(phi(p, a) / Z)`, where Z by `denominator` is

    * `negatives`: the sum of phi over B(p), as Eq. 5 is printed; the term may be negative,
    * `infonce`: that plus phi(p, a),
    * `all`: the sum of phi over all texts.

    Args:
        vectors: H, `(n, d)`.
        label_vectors: L, `(c, d)`.
        labels: Label of each text, from 0, `(n,)`.
        temperature: Divides the cosine.
        denominator: Which Z.
        anchors: Texts whose term is wanted.

    Returns:
        `(a,)`; except for `all`, 0 with gradient 0 where B(p) is empty.
    """
    logits = cosine_similarity(label_vectors, vectors) / temperature  # (c, n)
    index = torch.arange(len(vectors), device=vectors.device)  # (n,)
    own = labels[anchors]  # (a,)
    positives = logits[own, index[anchors]]  # (a,)
    if denominator == "all":
        return torch.logsumexp(logits, dim=1)[own] - positives
    positive = torch.arange(len(label_vectors), device=labels.device).unsqueeze(1) == labels  # (c, n)
    # The lowest finite number rather than -inf: a batch of one label keeps a finite gradient.
    others = logits.masked_fill(positive, torch.finfo(logits.dtype).min)  # (c, n)
    negatives = torch.logsumexp(others, dim=1)[own]  # (a,)
    if denominator == "infonce":
        negatives = torch.logaddexp(negatives, positives)  # (a,)
    terms: Tensor = (negatives - positives).masked_fill(positive.all(1)[own], 0)
    return terms


def label_dispersion(label_vectors: Tensor) -> Tensor:
    """The label embedding regularizer (LaCon, Eq. 6): mean of `exp(1 + cos(L_i, L_j)) - 1` over i != j.

    Args:
        label_vectors: L, `(c, d)`.

    Returns:
        A scalar from 0 to e^2 - 1; 0 with gradient 0 for a single label.
    """
    similarity = cosine_similarity(label_vectors, label_vectors)  # (c, c)
    count = len(label_vectors)
    itself = torch.eye(count, dtype=torch.bool, device=similarity.device)  # (c, c)
    values = torch.expm1(1 + similarity).masked_fill(itself, 0)  # (c, c)
    return values.sum() / max(1, count * (count - 1))


def _slices(vectors: Tensor, heads: int, slices: Slices) -> Tensor:
    if slices == "global":
        vectors = unit_vectors(vectors)
    parts = vectors.reshape(len(vectors), heads, -1).transpose(0, 1)  # (m, n, d / m)
    return parts if slices == "global" else unit_vectors(parts)
