"""Contrastive learning on pairs with labels: paraphrase or not."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from sentemb._vectors import cosine_similarity, unit_vectors
from sentemb.errors import InputError
from sentemb.losses.base import EncoderLoss, check_choice, check_number
from sentemb.losses.functional import EVERY, first_of, own_pair, without
from sentemb.losses.views import build_head, project

Negatives = Literal["signed", "denominator", "ignored"]


class ParaphraseContrastLoss(EncoderLoss):
    """Contrastive loss of labelled pairs (Chen, Stanford CS224N; its section 4.1).

    With h_i and h'_i the head's outputs for the texts of pair i and phi(x, y) = exp(cos(x, y) / temperature),
    the loss of a pair is InfoNCE over all N second texts of the batch, including those of non-paraphrases::

        loss_i = -log( phi(h_i, h'_i) / sum_j phi(h_i, h'_j) )

    Paraphrases minimise it. For the other pairs, the paper says that the loss "is maximized instead".
    `negatives` offers that and two other readings:

    * `signed`: the mean over all pairs of s_i loss_i, s_i = 1 for a paraphrase and -1 for any other pair. It
      is usually below 0, and never below -(2 / temperature + log N). The gradient of a maximised term does
      not vanish until the cosine of the pair is -1.
    * `denominator`: the mean over the paraphrases alone. The other pairs are negatives in their denominators:
      their second texts like all others, and also the similarity phi(h_k, h'_k) of the pair itself, which
      pushes its two texts apart.
    * `ignored`: the mean over the paraphrases alone, without the other pairs (table 4, "No Negative Pairs").

    A batch can contain paraphrases that are not labelled as a pair. If the labels include the components of
    the graph of paraphrases, these texts are removed from the denominator; `statistics` reports their share
    of the in-batch negatives. A batch without paraphrases has loss 0 with gradient 0 under `denominator` and
    `ignored`; a single pair has loss 0 under `signed` and `ignored`.

    Inputs:
        first text, second text; labels: 1 for a paraphrase, 0 otherwise; or [1 or 0, component of the first
        text, component of the second].

    Args:
        model: The encoder to train.
        temperature: Divides the cosine; 0.05 in the paper (section 5.3).
        negatives: Effect of a pair that is not a paraphrase: `signed`, `denominator` or `ignored`.
        head: `two-layer` adds two new linear layers to the encoder's vector. They belong to the loss, so a
            saved model does not contain them (section 4.1). None compares the encoder's vectors directly.
        gather_across_devices: Take in-batch negatives from all processes.

    Attributes:
        statistics: Statistics of the last batch for the log: `false_negatives`, the share of the in-batch
            negatives that are known to be paraphrases; empty without components.

    Raises:
        InputError: An option is out of range.

    Example:
        >>> loss = ParaphraseContrastLoss(encoder)
        >>> rows = Dataset.from_dict({"first": ["a cat"], "second": ["one cat"], "label": [1]})
        >>> trainer = SentembTrainer(model=encoder, train_dataset=rows, loss=loss)

    Reference:
        Chen: Contrastive Learning for Generalizable Sentence Embeddings. Stanford CS224N default project.
        The objective is that of Gao, Yao and Chen: SimCSE. EMNLP 2021.
        https://aclanthology.org/2021.emnlp-main.552
    """

    references: ClassVar[tuple[str, ...]] = ("chen-contrastive-cs224n", "gao-etal-2021-simcse")
    owned_modules: ClassVar[tuple[str, ...]] = ("head",)

    def __init__(
        self,
        model: nn.Module,
        *,
        temperature: float = 0.05,
        negatives: Negatives = "signed",
        head: Literal["two-layer"] | None = "two-layer",
        gather_across_devices: bool = True,
    ) -> None:
        super().__init__(model)
        self.temperature = check_number(self, "temperature", temperature, low=0)
        self.negatives: Negatives = check_choice(self, "negatives", negatives, get_args(Negatives))
        check_choice(self, "head", head, ("two-layer", None))
        self.gather_across_devices = gather_across_devices
        self.head = None if head is None else build_head(model, head)
        self.statistics: dict[str, Tensor] = {}

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor | None = None) -> Tensor:
        """Compute the loss of first and second texts, each `(b, d)`, with labels `(b,)` or `(b, 3)`."""
        if len(embeddings) != 2:
            raise InputError(
                f"{type(self).__name__} compares two texts, but this batch has {len(embeddings)} text "
                "columns",
                "select the two columns of the pairs",
            )
        vectors = project(self.head, torch.stack(embeddings, dim=1))  # (b, 2, d)
        rows, anchors, weight = self.gather(vectors)
        every_label = self.gather(self._pair_labels(labels, rows=len(vectors)).to(rows.device)).rows
        paraphrase, components = every_label[:, 0] == 1, every_label[:, 1:]  # (n,), (n, 0 or 2)
        own = own_pair(len(rows), anchors, rows.device)  # (a, n)
        excluded = torch.zeros_like(own)
        if self.negatives == "ignored":
            excluded = excluded | ~paraphrase
        self.statistics = {}
        if components.shape[1]:
            # Second texts of other pairs that are known paraphrases of an anchor.
            known = (components[anchors, :1] == components[:, 1]) & ~own  # (a, n)
            negative = ~excluded & ~own  # (a, n)
            if self.negatives != "signed":
                negative = negative & paraphrase[anchors].unsqueeze(1)
            share = (known & negative).sum() / negative.sum().clamp_min(1)
            self.statistics["false_negatives"] = share
            excluded = excluded | known
        losses = pair_contrast(
            rows[:, 0],
            rows[:, 1],
            temperature=self.temperature,
            excluded=excluded & ~own,
            opposed=~paraphrase if self.negatives == "denominator" else None,
            anchors=anchors,
        )  # (a,)
        if self.negatives == "signed":
            return weight * torch.where(paraphrase[anchors], losses, -losses).mean()
        # The mean over the paraphrases of all processes, once DDP has averaged.
        scale = len(rows) / paraphrase.sum().clamp_min(1).to(losses.dtype)
        return weight * losses.masked_fill(~paraphrase[anchors], 0).mean() * scale

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options for the model card."""
        return {**super().get_config_dict(), "head": None if self.head is None else "two-layer"}

    def _pair_labels(self, labels: Tensor | None, *, rows: int) -> Tensor:
        """Return the labels of pairs as rows."""
        name = type(self).__name__
        if labels is None:
            raise InputError(
                f"{name} needs labels",
                "add a column called label to the data, with 1 for a paraphrase and 0 otherwise",
            )
        shaped = labels.unsqueeze(1) if labels.dim() == 1 else labels
        if shaped.dim() != 2 or len(shaped) != rows or shaped.shape[1] not in (1, 3):
            raise InputError(
                f"{name} got labels of shape {tuple(labels.shape)} for {rows} pairs",
                "provide a label of 1 or 0 per pair, optionally followed by the components of its two texts",
            )
        wrong = shaped[(shaped[:, 0] != 0) & (shaped[:, 0] != 1), 0]
        if len(wrong):
            raise InputError(
                f"{name} got the label {wrong[0].item():g}, but labels must be 0 or 1",
                "label paraphrases 1 and all other pairs 0",
            )
        return shaped


def pair_contrast(
    first: Tensor,
    second: Tensor,
    *,
    temperature: float,
    excluded: Tensor,
    opposed: Tensor | None = None,
    anchors: slice = EVERY,
) -> Tensor:
    """InfoNCE that excludes some second texts from the denominators and can add further pairs to them.

    With y the second texts and O the `opposed` pairs, a mask `(n,)`, the loss of pair i is `-log( phi(x_i,
    y_i) / (sum_{j not excluded} phi(x_i, y_j) + sum_{k in O} phi(x_k, y_k)) )`, `(a,)`. `excluded`, `(a, n)`,
    does not exclude an anchor's own second text. A loss is at least 0, at most `2 / temperature` plus the log
    of the number of terms in its denominator, and 0 with gradient 0 where that number is 1.
    """
    logits = cosine_similarity(first[anchors], second) / temperature  # (a, n)
    positives = logits.diagonal(first_of(anchors))  # (a,)
    logits = without(logits, excluded)
    if opposed is not None:
        with torch.autocast(first.device.type, enabled=False):
            pairs = (unit_vectors(first) * unit_vectors(second)).sum(1) / temperature  # (n,)
        logits = torch.cat([logits, without(pairs, ~opposed).expand(len(logits), -1)], dim=1)  # (a, 2n)
    return torch.logsumexp(logits, dim=1) - positives
