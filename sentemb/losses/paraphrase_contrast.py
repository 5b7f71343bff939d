"""Contrastive learning on pairs with labels: paraphrase or not."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.losses.base import EncoderLoss
from sentemb.losses.functional import own_pair, pair_contrast, same_component
from sentemb.losses.heads import build_head, project

Negatives = Literal["signed", "denominator", "ignored"]


class ParaphraseContrastLoss(EncoderLoss):
    """Contrastive loss of labelled pairs (Chen, Stanford CS224N; its section 4.1).

    With h_i and h'_i the head's outputs for the texts of pair i and phi(x, y) = exp(cos(x, y) / temperature),
    the loss of a pair is InfoNCE over all N second texts of the batch, including those of non-paraphrases::

        loss_i = -log( phi(h_i, h'_i) / sum_j phi(h_i, h'_j) )

    Paraphrases minimise it. For the other pairs, the paper says that the loss "is maximized instead".
    `negatives` offers that and two other readings:

    * `signed`: the mean over all pairs of s_i loss_i, s_i = 1 for a paraphrase and -`negative_weight` for any
      other pair. It is usually below 0, and never below -(2 / temperature + log N) * `negative_weight`. The
      gradient of a maximised term does not vanish until the cosine of the pair is -1; `clamp` stops it at a
      given loss.
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
        negative_weight: Factor of the maximised terms; the paper does not use one, which corresponds to 1.
        clamp: Loss above which a term is no longer maximised; None for no limit, as in the paper.
        head: `two-layer` adds two new linear layers to the encoder's vector. They belong to the loss, so a
            saved model does not contain them (section 4.1). None compares the encoder's vectors directly.
        gather_across_devices: Take in-batch negatives from all processes.

    Attributes:
        statistics: Statistics of the last batch for the log: `false_negatives`, the share of the in-batch
            negatives that are known to be paraphrases; empty without components.

    Raises:
        InputError: An option is out of range, or does not apply to `negatives`.

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
        negative_weight: float = 1.0,
        clamp: float | None = None,
        head: Literal["two-layer"] | None = "two-layer",
        gather_across_devices: bool = True,
    ) -> None:
        super().__init__(model)
        self.temperature = self.check_number("temperature", temperature, low=0)
        self.negatives: Negatives = self.check_choice("negatives", negatives, get_args(Negatives))
        self.negative_weight = self.check_number("negative_weight", negative_weight, low=0, inclusive=True)
        self.clamp = None if clamp is None else self.check_number("clamp", clamp, low=0)
        self.check_choice("head", head, ("two-layer", None))
        if negatives != "signed" and (negative_weight != 1 or clamp is not None):
            raise InputError(
                f"negative_weight and clamp of {type(self).__name__} apply only to negatives='signed'",
                "set negatives='signed', or remove both options",
            )
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
        paraphrase = every_label[:, 0] == 1  # (n,)
        losses = self._losses(rows, paraphrase, every_label[:, 1:], anchors)  # (a,)
        if self.negatives == "signed":
            maximised = losses if self.clamp is None else losses.clamp(max=self.clamp)
            losses = torch.where(paraphrase[anchors], losses, -self.negative_weight * maximised)
            return weight * losses.mean()
        # The mean over the paraphrases of all processes, once DDP has averaged.
        share = len(rows) / paraphrase.sum().clamp_min(1).to(losses.dtype)
        return weight * losses.masked_fill(~paraphrase[anchors], 0).mean() * share

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options for the model card."""
        return {**super().get_config_dict(), "head": None if self.head is None else "two-layer"}

    def _losses(self, rows: Tensor, paraphrase: Tensor, components: Tensor, anchors: slice) -> Tensor:
        """Compute InfoNCE of the local pairs, without excluded second texts, `(a,)`."""
        left_out = torch.zeros_like(own_pair(len(rows), anchors, rows.device))  # (a, n)
        if self.negatives == "ignored":
            left_out = left_out | ~paraphrase
        self.statistics = {}
        if components.shape[1]:
            known = same_component(components, anchors=anchors)  # (a, n)
            self._count(known, left_out, paraphrase, anchors)
            left_out = left_out | known
        return pair_contrast(
            rows[:, 0],
            rows[:, 1],
            temperature=self.temperature,
            excluded=left_out,
            opposed=~paraphrase if self.negatives == "denominator" else None,
            anchors=anchors,
        )

    def _count(self, known: Tensor, left_out: Tensor, paraphrase: Tensor, anchors: slice) -> None:
        """Record the share of the in-batch negatives that `known` excludes."""
        negative = ~left_out & ~own_pair(len(paraphrase), anchors, known.device)  # (a, n)
        if self.negatives != "signed":
            negative = negative & paraphrase[anchors].unsqueeze(1)
        self.statistics["false_negatives"] = (known & negative).sum() / negative.sum().clamp_min(1)

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
