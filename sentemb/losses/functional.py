"""Objectives as functions of tensors, without a model, device calls or reduction.

Every function takes the vectors of the whole batch, gathered from all processes, and the slice `anchors` of
the rows whose loss is computed; the other rows are candidates only. Vectors do not need to be normalised.
Half precision is computed in float32, float64 stays float64, and autocast is disabled inside.
`temperature` divides the cosine, and phi is `exp(cos / temperature)`.

Degenerate batches: an anchor without negatives, or without positives, has loss 0 with gradient 0, still
connected to the graph; duplicated texts stay negatives of each other, as in the papers; a zero vector has
cosine 0 with everything and receives no gradient.

Letters in the shapes: n sentences (or pairs), a anchors, l views of a sentence, c labels, m heads, d width, t
tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from sentemb._vectors import cosine_similarity, full_precision, unit_vectors

ViewPooling = Literal["max", "mean"]
Denominator = Literal["negatives", "infonce", "all"]
Slices = Literal["renormalised", "global"]

_EVERY = slice(None)


# Sentences and their views


def info_nce(
    first: Tensor,
    second: Tensor,
    *,
    temperature: float,
    hard_negatives: Sequence[Tensor] = (),
    hard_negative_weight: float = 0.0,
    anchors: slice = _EVERY,
) -> Tensor:
    """One-directional InfoNCE: `-log(phi(x_i, y_i) / sum_j phi(x_i, y_j))`, `(a,)`.

    `first` holds the anchors' vectors x, `second` the positives y. Hard negatives z, each `(n, d)`, join
    every denominator. `hard_negative_weight` is added to the logit of an anchor's own hard negatives after
    the division by the temperature, which multiplies `phi(x_i, z_i)` by `exp(hard_negative_weight)` (SimCSE,
    Eq. 8).
    """
    own = own_pair(len(first), anchors, first.device)  # (a, n)
    candidates = torch.cat([second, *hard_negatives])  # ((1 + columns) * n, d)
    logits = cosine_similarity(first[anchors], candidates) / temperature  # (a, (1 + columns) * n)
    if hard_negatives and hard_negative_weight:
        weighted = [torch.zeros_like(own), *[own] * len(hard_negatives)]
        logits = logits + hard_negative_weight * torch.cat(weighted, dim=1)
    return torch.logsumexp(logits, dim=1) - logits.diagonal(_start(anchors))


def nt_xent(first: Tensor, second: Tensor, *, temperature: float, anchors: slice = _EVERY) -> Tensor:
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
    positives = torch.cat(
        [upper.diagonal(len(first) + _start(anchors)), lower.diagonal(_start(anchors))]
    )  # (2a,)
    return torch.logsumexp(_without(logits, itself), dim=1) - positives


def self_guided_opt1(
    sentences: Tensor, views: Tensor, *, temperature: float, anchors: slice = _EVERY
) -> Tensor:
    """L_opt1 of SG-BERT, `(a,)`: sentence vectors u are the only anchors, with one view v of each.

    Negatives are the other sentences' vectors and views.
    """
    own = own_pair(len(sentences), anchors, sentences.device)  # (a, n)
    logits = cosine_similarity(sentences[anchors], torch.cat([sentences, views])) / temperature  # (a, 2n)
    itself = torch.cat([own, torch.zeros_like(own)], dim=1)  # (a, 2n)
    positives = logits.diagonal(len(sentences) + _start(anchors))  # (a,)
    return torch.logsumexp(_without(logits, itself), dim=1) - positives


def self_guided_opt2(
    sentences: Tensor, views: Tensor, *, temperature: float, drop_one: bool = False, anchors: slice = _EVERY
) -> Tensor:
    """L_opt2 of SG-BERT, `(a,)`: negatives are the other sentences' views only.

    `drop_one` skips one negative per anchor, as the authors' code does: view 1 for anchor 0, and view 0 for
    all other anchors.
    """
    if not drop_one or len(sentences) < 2:
        return info_nce(sentences, views, temperature=temperature, anchors=anchors)
    own = own_pair(len(sentences), anchors, sentences.device)  # (a, n)
    logits = cosine_similarity(sentences[anchors], views) / temperature  # (a, n)
    dropped = torch.zeros_like(own)
    dropped[:, 0] = ~own[:, 0]
    dropped[:, 1] = own[:, 0]
    return torch.logsumexp(_without(logits, dropped), dim=1) - logits.diagonal(_start(anchors))


def self_guided_opt3(
    sentences: Tensor, views: Tensor, *, temperature: float, anchors: slice = _EVERY
) -> Tensor:
    """L_opt3 of SG-BERT, the objective of SG-OPT: each of a sentence's views `(n, l, d)` is a positive once.

    Negatives are all views of all other sentences; the other views of the same sentence are ignored. All
    positives of an anchor share their negatives, so one `(a, n * l)` similarity matrix is enough. Returns the
    loss of each anchor with each of its views, `(a, l)`.
    """
    own = own_pair(len(sentences), anchors, sentences.device)  # (a, n)
    logits = cosine_similarity(sentences[anchors], views.flatten(0, 1)) / temperature  # (a, n * l)
    logits = logits.view(len(logits), *views.shape[:2])  # (a, n, l)
    positives = logits.diagonal(_start(anchors)).T  # (a, l)
    negatives = torch.logsumexp(_without(logits, own.unsqueeze(2)).flatten(1), dim=1, keepdim=True)  # (a, 1)
    losses: Tensor = torch.logaddexp(positives, negatives) - positives
    return losses


# Classes


def supervised_contrastive(
    vectors: Tensor,
    labels: Tensor,
    *,
    temperature: float,
    first_view_only: bool = False,
    anchors: slice = _EVERY,
) -> Tensor:
    """Supervised contrastive loss with the mean over positives outside the log (Khosla et al., 2020, Eq. 2).

    `vectors` are l views of n rows, `(n, l, d)`, and share the row's class in `labels`, `(n,)`. With P(x) the
    other vectors of x's class, the loss of an anchor x is the mean over y in P(x) of `-log( phi(x, y) /
    sum_{z != x} phi(x, z) )`, and 0 where `positives_per_anchor` is 0. With `first_view_only`, view 0 of a
    row is its only anchor; candidates are still all views. Returns `(a, l)`, or `(a, 1)` with
    `first_view_only`.
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
    """Count the positives of each view of a row, `(n,)`: the views of its class except itself."""
    return views * (labels.unsqueeze(1) == labels).sum(1) - 1


# Labelled pairs


def pair_contrast(
    first: Tensor,
    second: Tensor,
    *,
    temperature: float,
    excluded: Tensor,
    opposed: Tensor | None = None,
    anchors: slice = _EVERY,
) -> Tensor:
    """InfoNCE that excludes some second texts from the denominators and can add further pairs to them.

    With y the second texts and O the `opposed` pairs, a mask `(n,)`, the loss of pair i is `-log( phi(x_i,
    y_i) / (sum_{j not excluded} phi(x_i, y_j) + sum_{k in O} phi(x_k, y_k)) )`, `(a,)`. `excluded`, `(a, n)`,
    never excludes an anchor's own second text. A loss is at least 0, at most `2 / temperature` plus the log
    of the number of terms in its denominator, and 0 with gradient 0 where that number is 1.
    """
    logits = cosine_similarity(first[anchors], second) / temperature  # (a, n)
    positives = logits.diagonal(_start(anchors))  # (a,)
    logits = _without(logits, excluded & ~own_pair(len(first), anchors, excluded.device))
    if opposed is not None:
        with torch.autocast(first.device.type, enabled=False):
            pairs = (unit_vectors(first) * unit_vectors(second)).sum(1) / temperature  # (n,)
        logits = torch.cat([logits, _without(pairs, ~opposed).expand(len(logits), -1)], dim=1)  # (a, 2n)
    return torch.logsumexp(logits, dim=1) - positives


def same_component(components: Tensor, *, anchors: slice = _EVERY) -> Tensor:
    """Mask the second texts of other pairs that are known paraphrases of an anchor, `(a, n)`.

    `components` holds the components of both texts of every pair, `(n, 2)`. An anchor's own second text is
    never masked.
    """
    same = components[anchors, :1] == components[:, 1]  # (a, n)
    return same & ~own_pair(len(components), anchors, components.device)


def own_pair(size: int, anchors: slice, device: torch.device) -> Tensor:
    """Return a mask that is True where a column is the anchor's own row, `(a, n)`."""
    index = torch.arange(size, device=device)
    own: Tensor = index[anchors].unsqueeze(1) == index
    return own


# Texts and label vectors: the cost is texts times labels, since texts are not compared with each other


def head_similarities(
    vectors: Tensor, label_vectors: Tensor, *, heads: int, slices: Slices = "renormalised"
) -> Tensor:
    """Similarity of every text with every label in each of m equal slices of the dimensions (LaCon, Eq. 4).

    `renormalised` is the cosine of two slices. `global` is the dot product of slices of vectors of length 1,
    so the heads add up to the cosine of the whole vectors. Returns `(m, n, c)` from `(n, d)` and `(c, d)`.
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

    With p the label of text a, A(p) the texts of that label, B(p) all others and phi(p, b) of L_p and H_b,
    the term is `-log(phi(p, a) / Z)`, `(a,)`, where Z by `denominator` is

    * `negatives`: the sum of phi over B(p), as Eq. 5 is printed; the term may be negative,
    * `infonce`: that plus phi(p, a),
    * `all`: the sum of phi over all texts.

    Except for `all`, it is 0 with gradient 0 where B(p) is empty.
    """
    logits = cosine_similarity(label_vectors, vectors) / temperature  # (c, n)
    index = torch.arange(len(vectors), device=vectors.device)  # (n,)
    own = labels[anchors]  # (a,)
    positives = logits[own, index[anchors]]  # (a,)
    if denominator == "all":
        return torch.logsumexp(logits, dim=1)[own] - positives
    positive = torch.arange(len(label_vectors), device=labels.device).unsqueeze(1) == labels  # (c, n)
    negatives = torch.logsumexp(_without(logits, positive), dim=1)[own]  # (a,)
    if denominator == "infonce":
        negatives = torch.logaddexp(negatives, positives)  # (a,)
    terms: Tensor = (negatives - positives).masked_fill(positive.all(1)[own], 0)
    return terms


def label_dispersion(label_vectors: Tensor) -> Tensor:
    """The label embedding regularizer (LaCon, Eq. 6): mean of `exp(1 + cos(L_i, L_j)) - 1` over i != j.

    A scalar from 0 to e^2 - 1; 0 with gradient 0 for a single label.
    """
    similarity = cosine_similarity(label_vectors, label_vectors)  # (c, c)
    count = len(label_vectors)
    itself = torch.eye(count, dtype=torch.bool, device=similarity.device)  # (c, c)
    values = torch.expm1(1 + similarity).masked_fill(itself, 0)  # (c, c)
    return values.sum() / max(1, count * (count - 1))


# Tokens


def pool_tokens(hidden: Tensor, mask: Tensor, *, pooling: ViewPooling) -> Tensor:
    """Pool `(n, t, d)` over every position whose mask is 1: `[CLS]` and `[SEP]` count and padding does not.

    Returns `(n, d)` in float32, or in float64 if `hidden` is float64; rows without tokens are zero.
    """
    hidden = full_precision(hidden)
    attended = mask.bool().unsqueeze(2)  # (n, t, 1)
    if pooling == "mean":
        return hidden.masked_fill(~attended, 0).sum(1) / attended.sum(1).clamp_min(1)  # (n, d)
    pooled = hidden.masked_fill(~attended, -torch.inf).amax(1)  # (n, d)
    return pooled.masked_fill(~attended.any(1), 0)


def _start(anchors: slice) -> int:
    """Return the column of the first anchor's own sentence, where the diagonal of own entries starts."""
    return anchors.start or 0


def _without(logits: Tensor, excluded: Tensor) -> Tensor:
    # The lowest finite number rather than -inf: a row that excludes everything keeps a finite gradient.
    return logits.masked_fill(excluded, torch.finfo(logits.dtype).min)


def _slices(vectors: Tensor, heads: int, slices: Slices) -> Tensor:
    if slices == "global":
        vectors = unit_vectors(vectors)
    parts = vectors.reshape(len(vectors), heads, -1).transpose(0, 1)  # (m, n, d / m)
    return parts if slices == "global" else unit_vectors(parts)
