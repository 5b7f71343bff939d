"""Contrast between the two texts of a pair as functions of tensors, beside those of `functional`.

What is said there of precision, gathered rows and `anchors` holds here.

Letters in the shape comments: n pairs, a anchors, d width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sentemb._vectors import cosine_similarity, unit_vectors

_EVERY = slice(None)


def pair_contrast(
    first: Tensor,
    second: Tensor,
    *,
    temperature: float,
    excluded: Tensor,
    opposed: Tensor | None = None,
    anchors: slice = _EVERY,
) -> Tensor:
    """InfoNCE whose denominators lack some second texts, and may have the similarities of further pairs.

    With phi = `exp(cos / temperature)`, y the second texts and O the opposed pairs, the loss of pair i is
    `-log( phi(x_i, y_i) / (sum_{j not excluded} phi(x_i, y_j) + sum_{k in O} phi(x_k, y_k)) )`.

    Args:
        first: x, `(n, d)`.
        second: y, `(n, d)`.
        temperature: Divides the cosine.
        excluded: Where a second text is left out of an anchor's denominator, `(a, n)`; its own never is.
        opposed: O as a mask, `(n,)`; None for none.
        anchors: Pairs whose loss is wanted.

    Returns:
        The loss of each anchor, `(a,)`; at least 0, at most `2 / temperature` plus the log of the number of
        terms in its denominator, and 0 with gradient 0 where that number is 1.
    """
    logits = cosine_similarity(first[anchors], second) / temperature  # (a, n)
    positives = logits.diagonal(anchors.start or 0)  # (a,)
    # The lowest finite number rather than -inf: a row that excludes everything else keeps its gradient.
    lowest = torch.finfo(logits.dtype).min
    logits = logits.masked_fill(excluded & ~own_pair(len(first), anchors, excluded.device), lowest)
    if opposed is not None:
        with torch.autocast(first.device.type, enabled=False):
            pairs = (unit_vectors(first) * unit_vectors(second)).sum(1) / temperature  # (n,)
        pairs = pairs.masked_fill(~opposed, lowest)
        logits = torch.cat([logits, pairs.expand(len(logits), -1)], dim=1)  # (a, 2n)
    return torch.logsumexp(logits, dim=1) - positives


def same_component(components: Tensor, *, anchors: slice = _EVERY) -> Tensor:
    """Where another pair's second text is known to say what an anchor says.

    Args:
        components: Component of both texts of every pair, `(n, 2)`.
        anchors: Pairs whose first texts are the anchors.

    Returns:
        `(a, n)`, False for an anchor's own second text.
    """
    same = components[anchors, :1] == components[:, 1]  # (a, n)
    return same & ~own_pair(len(components), anchors, components.device)


def own_pair(size: int, anchors: slice, device: torch.device) -> Tensor:
    """Where a second text is that of the anchor's own pair.

    Args:
        size: n.
        anchors: Pairs whose first texts are the anchors.
        device: Where to make it.

    Returns:
        `(a, n)`.
    """
    index = torch.arange(size, device=device)
    own: Tensor = index[anchors].unsqueeze(1) == index
    return own
