"""SimCSE++: negatives without dropout noise, and contrast between dimensions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from sentemb._vectors import cosine_similarity, full_precision, pair_cosines
from sentemb.losses.base import check_choice, check_number
from sentemb.losses.functional import first_of
from sentemb.losses.simcse import Head, SimCSELoss
from sentemb.losses.views import View

_LEAK = math.log(1e-45)  # what the authors' code adds to the logit of an excluded pair


class SimCSEPlusPlusLoss(SimCSELoss):
    """The two additions of SimCSE++ to SimCSE (Xu et al., 2023).

    A sentence is encoded three times: z and z' under dropout, z° without. With s the cosine, T the
    temperature, r the positive weight, b the batch size, and C the correlation of the dimensions of z and z',
    each normalized over the batch (biased variance, no learned scale)::

        p_i          = r s(z_i, z'_i) / T
        contrast_i   = -p_i + log( exp(p_i) + sum_{j != i} exp(s(z°_i, z°_j) / T) )
        dimensions_k = -C_kk / t + log sum_l exp(C_kl / t)
        loss         = mean_i contrast_i + w mean_k dimensions_k

    The first term takes the noise of dropout out of the negatives, with gradient through z°. The second is
    one-directional: its anchors are the dimensions of the first view. A batch of one sentence has loss 0.

    Inputs:
        sentence; labels: none.

    Args:
        model: The encoder to train; it needs dropout.
        temperature: T; 0.05 as in SimCSE.
        off_dropout: Compute the negatives without dropout. False leaves SimCSE's term, without a third pass.
        positive_weight: r, applied to both places of the positive. None is the paper's: 1 with both
            additions, 0.9 with negatives without dropout alone.
        dimension_weight: w, 0.1 in the paper; 0 leaves the second term out.
        dimension_temperature: t, 5 in the paper.
        head: The head of `SimCSELoss`.
        gather_across_devices: Take negatives, and the batch of the normalization, from all processes.
        preset: `released` follows the authors' code where it differs from the paper. Both additions together
            are plain SimCSE, since their script enables neither. Without the second term, the own column is
            masked by adding log(1e-45), so that it leaks at temperatures below about 0.02. The second term
            alone has t = 10.

    Returns of a step:
        `contrast` and, unless its weight is 0, the weighted `dimensions`.

    Raises:
        InputError: An option is out of range, or a head is set for an encoder with its own Dense layer.

    Example:
        >>> encoder = load("bert-base-uncased", pooling="cls", max_length=32)
        >>> trainer = SentembTrainer(model=encoder, train_dataset=sentences, loss=SimCSEPlusPlusLoss(encoder))

    Reference:
        Xu, Shao, Chen and Liu: SimCSE++: Improving Contrastive Learning for Sentence Embeddings from Two
        Perspectives. EMNLP 2023. https://arxiv.org/abs/2305.13192
    """

    references: ClassVar[tuple[str, ...]] = ("xu-etal-2023-simcse", "gao-etal-2021-simcse")
    single_text: ClassVar[bool] = True

    def __init__(
        self,
        model: nn.Module,
        *,
        temperature: float = 0.05,
        off_dropout: bool = True,
        positive_weight: float | None = None,
        dimension_weight: float = 0.1,
        dimension_temperature: float = 5.0,
        head: Head | None = "auto",
        gather_across_devices: bool = True,
        preset: Literal["released"] | None = None,
    ) -> None:
        super().__init__(
            model, temperature=temperature, head=head, gather_across_devices=gather_across_devices
        )
        self.preset = check_choice(self, "preset", preset, ("released", None))
        self.off_dropout = check_choice(self, "off_dropout", off_dropout, (True, False))
        check_number(self, "dimension_weight", dimension_weight, low=0, inclusive=True)
        check_number(self, "dimension_temperature", dimension_temperature, low=0)
        if preset == "released":
            if off_dropout and dimension_weight:
                self.off_dropout, dimension_weight = False, 0.0
            elif dimension_weight:
                dimension_temperature = 10.0
        if positive_weight is None:
            positive_weight = 0.9 if self.off_dropout and not dimension_weight else 1.0
        self.positive_weight = check_number(self, "positive_weight", positive_weight, low=0)
        self.dimension_weight, self.dimension_temperature = dimension_weight, dimension_temperature

    def views_of(self, sentence_features: Iterable[dict[str, Any]]) -> list[View]:
        """Return two views under dropout, and one without unless it is not needed."""
        views = super().views_of(sentence_features)
        return [*views, View(views[0].features, dropout=0.0)] if self.off_dropout else views

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Compute the weighted terms of two or three views, each `(b, d)`."""
        rows, anchors, weight = self.compared(embeddings)
        first, second, *clean = rows.unbind(1)  # each (n, d)
        if clean:
            contrast = off_dropout_contrast(
                first,
                second,
                *clean,
                temperature=self.temperature,
                positive_weight=self.positive_weight,
                anchors=anchors,
                leaks=self.preset == "released",
            )
        else:
            contrast = self.contrast(first, second, [], anchors)
        terms = {"contrast": weight * contrast.mean()}
        if self.dimension_weight:
            # Every process computes this term of the whole batch; their mean is the term itself.
            dimensions = dimension_contrast(first, second, temperature=self.dimension_temperature)
            terms["dimensions"] = self.dimension_weight * dimensions.mean()
        return terms


def off_dropout_contrast(
    first: Tensor,
    second: Tensor,
    clean: Tensor,
    *,
    temperature: float,
    positive_weight: float,
    anchors: slice,
    leaks: bool = False,
) -> Tensor:
    """Contrast two views, with negatives from a third without dropout, each `(n, d)`; returns `(a,)`.

    With `leaks`, the own column of the third view stays in the denominator, with log(1e-45) added.
    """
    positive = positive_weight * pair_cosines(first[anchors], second[anchors]) / temperature  # (a,)
    logits = cosine_similarity(clean[anchors], clean) / temperature  # (a, n)
    start = first_of(anchors)
    if leaks:
        own = logits.diagonal(start) + _LEAK
        logits = torch.cat([logits.diagonal_scatter(own, start), positive.unsqueeze(1)], dim=1)
    else:
        logits = logits.diagonal_scatter(positive, start)
    return torch.logsumexp(logits, dim=1) - positive


def dimension_contrast(first: Tensor, second: Tensor, *, temperature: float) -> Tensor:
    """Contrast the dimensions of two views, each `(n, d)`, over the batch; returns `(d,)`.

    A batch of one row has no variance, and loss 0.
    """
    if len(first) < 2:
        return (first + second).sum(0) * 0
    with torch.autocast(first.device.type, enabled=False):
        one, other = (
            nn.functional.batch_norm(full_precision(view), None, None, training=True, eps=1e-5)
            for view in (first, second)
        )
        logits = one.T @ other / (len(first) * temperature)  # (d, d)
    return torch.logsumexp(logits, dim=1) - logits.diagonal()
