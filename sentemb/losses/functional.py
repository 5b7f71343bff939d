"""Objectives that several losses share, as functions of tensors, without a model or reduction.

Every function takes the vectors of the whole batch, gathered from all processes, and the slice `anchors` of
the rows whose loss is computed; the other rows are candidates only. Vectors do not need to be normalised.
Half precision is computed in float32, float64 stays float64, and autocast is disabled inside.
`temperature` divides the cosine, and phi is `exp(cos / temperature)`. The functions of a single objective,
which are in its file, do the same.

Degenerate batches: an anchor without negatives, or without positives, has loss 0 with gradient 0, still
connected to the graph; duplicated texts stay negatives of each other, as in the papers; a zero vector has
cosine 0 with everything and receives no gradient.

Letters in the shapes: n sentences (or pairs), a anchors, l views of a sentence, c labels, m heads, d width, t
tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sentemb._vectors import cosine_similarity

EVERY = slice(None)


def info_nce(
    first: Tensor,
    second: Tensor,
    *,
    temperature: float,
    hard_negatives: Sequence[Tensor] = (),
    anchors: slice = EVERY,
) -> Tensor:
    """One-directional InfoNCE: `-log(phi(x_i, y_i) / sum_j phi(x_i, y_j))`, `(a,)`.

    `first` holds the anchors' vectors x, `second` the positives y. Hard negatives z, each `(n, d)`, join
    every denominator.
    """
    candidates = torch.cat([second, *hard_negatives])  # ((1 + columns) * n, d)
    logits = cosine_similarity(first[anchors], candidates) / temperature  # (a, (1 + columns) * n)
    return torch.logsumexp(logits, dim=1) - logits.diagonal(first_of(anchors))


def nt_xent(first: Tensor, second: Tensor, *, temperature: float, anchors: slice = EVERY) -> Tensor:
    """NT-Xent over the 2n vectors of both sides (SG-BERT's L_base; Chen et al., 2020, Eq. 1).

    Every vector is an anchor once; its partner is the positive, the other 2n - 2 are negatives. Returns the
    losses of the anchors of `first`, then of `second`, `(2a,)`.
    """
    own = own_pair(len(first), anchors, first.device)  # (a, n)
    nobody = torch.zeros_like(own)
    itself = torch.cat([torch.cat([own, nobody], dim=1), torch.cat([nobody, own], dim=1)])  # (2a, 2n)
    rows = torch.cat([first[anchors], second[anchors]])  # (2a, d)
    logits = cosine_similarity(rows, torch.cat([first, second])) / temperature  # (2a, 2n)
    upper, lower = logits.chunk(2)  # each (a, 2n)
    start = first_of(anchors)
    positives = torch.cat([upper.diagonal(len(first) + start), lower.diagonal(start)])  # (2a,)
    return torch.logsumexp(without(logits, itself), dim=1) - positives


def supervised_contrastive(
    vectors: Tensor, labels: Tensor, *, temperature: float, anchors: slice = EVERY
) -> tuple[Tensor, Tensor]:
    """Supervised contrastive loss with the mean over positives outside the log (Khosla et al., 2020, Eq. 2).

    `vectors` are l views of n rows, `(n, l, d)`, and share the row's class in `labels`, `(n,)`. With P(x) the
    other vectors of x's class, the loss of an anchor x is the mean over y in P(x) of `-log( phi(x, y) /
    sum_{z != x} phi(x, z) )`, and 0 where P(x) is empty. Returns the losses, `(a, l)`, and which of all rows
    have positives, `(n,)`.
    """
    index = torch.arange(vectors[..., 0].numel(), device=vectors.device).view(vectors.shape[:2])  # (n, l)
    chosen = index[anchors]  # (a, l)
    candidates = vectors.flatten(0, 1)  # (n * l, d)
    logits = cosine_similarity(candidates[chosen.flatten()], candidates) / temperature  # (a * l, n * l)
    itself = chosen.view(-1, 1) == index.view(1, -1)  # (a * l, n * l)
    classes = labels.repeat_interleave(vectors.shape[1])  # (n * l,)
    positive = (classes[chosen].view(-1, 1) == classes) & ~itself  # (a * l, n * l)
    count = positive.sum(1)  # (a * l,)
    similarity = logits.masked_fill(~positive, 0).sum(1) / count.clamp_min(1)  # (a * l,)
    losses = torch.logsumexp(without(logits, itself), dim=1) - similarity  # (a * l,)
    losses = losses.masked_fill(count == 0, 0).view(chosen.shape)
    of_class = vectors.shape[1] * (labels.unsqueeze(1) == labels).sum(1)  # (n,), the vector itself included
    return losses, of_class > 1


def own_pair(size: int, anchors: slice, device: torch.device) -> Tensor:
    """Return a mask that is True where a column is the anchor's own row, `(a, n)`."""
    index = torch.arange(size, device=device)
    own: Tensor = index[anchors].unsqueeze(1) == index
    return own


def first_of(anchors: slice) -> int:
    """Return the row of the first anchor, where the diagonal of the anchors' own entries starts."""
    return anchors.start or 0


def without(logits: Tensor, excluded: Tensor) -> Tensor:
    """Exclude entries from a denominator."""
    # The lowest finite number rather than -inf: a row that excludes everything keeps a finite gradient.
    return logits.masked_fill(excluded, torch.finfo(logits.dtype).min)
