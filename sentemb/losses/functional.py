"""The objectives as functions of tensors: no model, no device calls, no reduction.

Every function takes the vectors of the whole batch (under several processes: of all of them, gathered) and
the slice `anchors` of the rows whose loss is wanted; the other rows are candidates only. Vectors need no
normalisation. Half precision is computed in float32, float64 stays float64, autocast is switched off inside.

Degenerate batches: an anchor without negatives, or without positives, has loss 0 with gradient 0, still
connected to the graph; duplicated texts stay negatives of each other, as in the papers; a zero vector has
cosine 0 with everything and receives no gradient.

Letters in the shape comments: n sentences, a anchors, l views of a sentence, c hard-negative columns, d
width, t tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from sentemb._vectors import cosine_similarity, full_precision

ViewPooling = Literal["max", "mean"]

_EVERY = slice(None)


def info_nce(
    first: Tensor,
    second: Tensor,
    *,
    temperature: float,
    hard_negatives: Sequence[Tensor] = (),
    hard_negative_weight: float = 0.0,
    anchors: slice = _EVERY,
) -> Tensor:
    """One-directional InfoNCE: `-log(phi(x_i, y_i) / sum_j phi(x_i, y_j))`, phi = `exp(cos / temperature)`.

    Hard negatives `z` join every denominator; an anchor's own get `hard_negative_weight` added to their logit
    after the division by the temperature, which multiplies `phi(x_i, z_i)` by `exp(hard_negative_weight)`
    (SimCSE, Eq. 8).

    Args:
        first: The anchors' vectors x, `(n, d)`.
        second: The positives y, `(n, d)`.
        temperature: Divides the cosine.
        hard_negatives: Any number of tensors z, each `(n, d)`.
        hard_negative_weight: Logit weight of an anchor's own hard negatives; 0 weighs them like all others.
        anchors: Rows of `first` whose loss is wanted.

    Returns:
        The loss of each anchor, `(a,)`.
    """
    own = _own(first, anchors)  # (a, n)
    candidates = torch.cat([second, *hard_negatives])  # ((1 + c) * n, d)
    logits = cosine_similarity(first[anchors], candidates) / temperature  # (a, (1 + c) * n)
    if hard_negatives and hard_negative_weight:
        weighted = [torch.zeros_like(own), *[own] * len(hard_negatives)]
        logits = logits + hard_negative_weight * torch.cat(weighted, dim=1)  # (a, (1 + c) * n)
    return torch.logsumexp(logits, dim=1) - logits.diagonal(_start(anchors))


def nt_xent(first: Tensor, second: Tensor, *, temperature: float, anchors: slice = _EVERY) -> Tensor:
    """NT-Xent over the 2n vectors of both sides (SG-BERT's L_base; Chen et al., 2020, Eq. 1).

    Every vector is an anchor once; its partner is the positive, the other 2n - 2 are negatives.

    Args:
        first: `(n, d)`.
        second: The partners, `(n, d)`.
        temperature: Divides the cosine.
        anchors: Rows, of both sides, whose loss is wanted.

    Returns:
        The losses of the anchors of `first`, then of `second`, `(2a,)`.
    """
    own = _own(first, anchors)  # (a, n)
    nobody = torch.zeros_like(own)
    itself = torch.cat([torch.cat([own, nobody], dim=1), torch.cat([nobody, own], dim=1)])  # (2a, 2n)
    rows = torch.cat([first[anchors], second[anchors]])  # (2a, d)
    logits = cosine_similarity(rows, torch.cat([first, second])) / temperature  # (2a, 2n)
    upper, lower = logits.chunk(2)  # each (a, 2n)
    positives = torch.cat(
        [upper.diagonal(len(first) + _start(anchors)), lower.diagonal(_start(anchors))]
    )  # (2a,)
    return torch.logsumexp(_without(logits, itself), dim=1) - positives


def self_guided_opt1(
    sentences: Tensor, views: Tensor, *, temperature: float, anchors: slice = _EVERY
) -> Tensor:
    """L_opt1 of SG-BERT: sentence vectors are the only anchors; negatives are the others' vectors and views.

    Args:
        sentences: u, `(n, d)`.
        views: v, one view per sentence, `(n, d)`.
        temperature: Divides the cosine.
        anchors: Rows whose loss is wanted.

    Returns:
        The loss of each anchor, `(a,)`.
    """
    own = _own(sentences, anchors)  # (a, n)
    logits = cosine_similarity(sentences[anchors], torch.cat([sentences, views])) / temperature  # (a, 2n)
    itself = torch.cat([own, torch.zeros_like(own)], dim=1)  # (a, 2n)
    positives = logits.diagonal(len(sentences) + _start(anchors))  # (a,)
    return torch.logsumexp(_without(logits, itself), dim=1) - positives


def self_guided_opt2(
    sentences: Tensor, views: Tensor, *, temperature: float, drop_one: bool = False, anchors: slice = _EVERY
) -> Tensor:
    """L_opt2 of SG-BERT: negatives are the other sentences' views only.

    Args:
        sentences: u, `(n, d)`.
        views: v, one view per sentence, `(n, d)`.
        temperature: Divides the cosine.
        drop_one: Leave out one negative per anchor as the authors' code does: view 1 for anchor 0, view 0 for
            every other.
        anchors: Rows whose loss is wanted.

    Returns:
        The loss of each anchor, `(a,)`.
    """
    if not drop_one or len(sentences) < 2:
        return info_nce(sentences, views, temperature=temperature, anchors=anchors)
    own = _own(sentences, anchors)  # (a, n)
    logits = cosine_similarity(sentences[anchors], views) / temperature  # (a, n)
    dropped = torch.zeros_like(own)
    dropped[:, 0] = ~own[:, 0]
    dropped[:, 1] = own[:, 0]
    return torch.logsumexp(_without(logits, dropped), dim=1) - logits.diagonal(_start(anchors))


def self_guided_opt3(
    sentences: Tensor, views: Tensor, *, temperature: float, anchors: slice = _EVERY
) -> Tensor:
    """L_opt3 of SG-BERT, the objective of SG-OPT: each of a sentence's views is a positive once.

    Negatives are all views of all other sentences; the other views of the same sentence are on neither side.
    All positives of an anchor share their negatives, so one `(a, n * l)` similarity matrix holds everything.

    Args:
        sentences: u, `(n, d)`.
        views: v, `(n, l, d)`.
        temperature: Divides the cosine.
        anchors: Rows whose loss is wanted.

    Returns:
        The loss of each anchor with each of its views, `(a, l)`.
    """
    own = _own(sentences, anchors)  # (a, n)
    logits = cosine_similarity(sentences[anchors], views.flatten(0, 1)) / temperature  # (a, n * l)
    logits = logits.view(len(logits), *views.shape[:2])  # (a, n, l)
    positives = logits.diagonal(_start(anchors)).T  # (a, l)
    negatives = torch.logsumexp(_without(logits, own.unsqueeze(2)).flatten(1), dim=1, keepdim=True)  # (a, 1)
    losses: Tensor = torch.logaddexp(positives, negatives) - positives
    return losses


def supervised_contrastive(
    vectors: Tensor,
    labels: Tensor,
    *,
    temperature: float,
    first_view_only: bool = False,
    anchors: slice = _EVERY,
) -> Tensor:
    """Supervised contrastive loss with the mean over positives outside the log (Khosla et al., 2020, Eq. 2).

    With P(x) the other vectors of x's class, the loss of an anchor x is the mean over y in P(x) of
    `-log( phi(x, y) / sum_{z != x} phi(x, z) )`. Views of a row share its label.

    Args:
        vectors: l views of n rows, `(n, l, d)`.
        labels: Class of each row, `(n,)`.
        temperature: Divides the cosine.
        first_view_only: Take view 0 of a row as its only anchor; candidates are all views all the same.
        anchors: Rows whose loss is wanted.

    Returns:
        The loss of each anchor, `(a, l)`, or `(a, 1)` with `first_view_only`; 0 with gradient 0 where
        `positives_per_anchor` is 0.
    """
    index = torch.arange(vectors[..., 0].numel(), device=vectors.device).view(vectors.shape[:2])  # (n, l)
    chosen = index[anchors, :1] if first_view_only else index[anchors]  # (a, l)
    candidates = vectors.flatten(0, 1)  # (n * l, d)
    logits = cosine_similarity(candidates[chosen.flatten()], candidates) / temperature  # (a * l, n * l)
    itself = chosen.view(-1, 1) == index.view(1, -1)  # (a * l, n * l)
    classes = labels.repeat_interleave(vectors.shape[1])  # (n * l,)
    positive = (classes[chosen].view(-1, 1) == classes) & ~itself  # (a * l, n * l)
    count = positive.sum(1)  # (a * l,)
    similarity = logits.masked_fill(~positive, 0).sum(1) / count.clamp_min(1)  # (a * l,)
    losses = torch.logsumexp(_without(logits, itself), dim=1) - similarity  # (a * l,)
    return losses.masked_fill(count == 0, 0).view(chosen.shape)


def positives_per_anchor(labels: Tensor, *, views: int) -> Tensor:
    """How many positives each view of a row has: the views of its class, itself excepted.

    Args:
        labels: Class of each row, `(n,)`.
        views: Views per row.

    Returns:
        `(n,)`.
    """
    return views * (labels.unsqueeze(1) == labels).sum(1) - 1


def pool_tokens(hidden: Tensor, mask: Tensor, *, pooling: ViewPooling) -> Tensor:
    """Pool over every position whose attention mask is 1, so `[CLS]` and `[SEP]` count and padding does not.

    Args:
        hidden: Token vectors, `(n, t, d)`.
        mask: Attention mask, `(n, t)`.
        pooling: `max` or `mean`.

    Returns:
        `(n, d)` in float32, or in float64 when `hidden` is; zero where a row has no token at all.
    """
    hidden = full_precision(hidden)
    inside = mask.bool().unsqueeze(2)  # (n, t, 1)
    if pooling == "mean":
        return hidden.masked_fill(~inside, 0).sum(1) / inside.sum(1).clamp_min(1)  # (n, d)
    pooled = hidden.masked_fill(~inside, -torch.inf).amax(1)  # (n, d)
    return pooled.masked_fill(~inside.any(1), 0)


def _own(vectors: Tensor, anchors: slice) -> Tensor:
    """True where a column is the anchor's own sentence, `(a, n)`."""
    index = torch.arange(len(vectors), device=vectors.device)
    own: Tensor = index[anchors].unsqueeze(1) == index
    return own


def _start(anchors: slice) -> int:
    """Column of the first anchor's own sentence: own entries lie on the diagonal from there."""
    return anchors.start or 0


def _without(logits: Tensor, excluded: Tensor) -> Tensor:
    # The lowest finite number rather than -inf: a row that excludes everything keeps a finite gradient.
    return logits.masked_fill(excluded, torch.finfo(logits.dtype).min)
