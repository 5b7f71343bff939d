"""SimCSE: dropout as the only augmentation, entailment pairs, hard negatives."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from sentemb._compat import Dense
from sentemb.errors import InputError
from sentemb.losses.base import EncoderLoss
from sentemb.losses.encoder import pooling_names, transformer_module, unwrap
from sentemb.losses.functional import info_nce
from sentemb.losses.heads import build_head, project
from sentemb.losses.masked_language import MaskedLanguageHead
from sentemb.losses.views import View

logger = logging.getLogger(__name__)

Head = Literal["auto", "train-only", "two-layer"]


class SimCSELoss(EncoderLoss):
    """Contrastive loss of SimCSE, unsupervised and supervised (Gao et al., 2021).

    With z_i the head's output for an anchor, z'_i for its positive and phi(x, y) = exp(cos(x, y) /
    temperature)::

        loss_i = -log( phi(z_i, z'_i) / sum_j [ phi(z_i, z'_j) + exp(w * 1[i = j]) * phi(z_i, z*_j) ] )

    in one direction, averaged over the batch; the z* terms exist with hard negatives only. With a single text
    column the positive is the same text under another dropout mask: the batch is doubled and encoded in one
    forward pass, in which every row draws its own mask. A batch of one sentence without hard negatives has
    loss 0. Duplicated texts in a batch are negatives of each other, as in the paper.

    Inputs:
        sentence; or anchor, positive; or anchor, positive, hard negative 1, ..., n; labels: none.

    With several processes and unequal last batches, the mean equals that of a single process. The poolers of
    the paper map to: `cls` with `head="train-only"` (unsupervised), the encoder's own Dense + tanh after CLS
    with `head=None` (supervised), `cls_before_pooler` and all averages with `head=None`.

    Args:
        model: The encoder to train.
        temperature: Divides the cosine; 0.05 in the paper (section 3).
        head: `train-only` adds a new Linear + tanh to the sentence vector. It belongs to the loss, so a saved
            model never contains it (unsupervised SimCSE). `two-layer` adds two linear layers (Chen, CS224N).
            None compares the encoder's vectors directly. `auto` follows the paper's code: `train-only` if the
            encoder pools by CLS, and None if it averages tokens or has its own Dense layer.
        hard_negative_weight: w above, added to the logit of an anchor's own hard negatives; 0 in the released
            code.
        mlm_weight: Factor of the auxiliary masked-language-model term. 0 disables it, as in most experiments
            of the paper; the others use 0.1. The term masks 15 % of the tokens of every text in a separate
            forward pass and needs a base model saved with its pretrained masked-language-model head.
        gather_across_devices: Take in-batch negatives from all processes.

    Raises:
        InputError: An option is out of range, `train-only` is set for an encoder with its own Dense layer, or
            `mlm_weight` is set without a pretrained head.

    Example:
        >>> encoder = load("bert-base-uncased", pooling="cls", max_length=32)
        >>> loss = SimCSELoss(encoder)
        >>> trainer = SentembTrainer(model=encoder, train_dataset=sentences, loss=loss)

    Reference:
        Gao, Yao and Chen: SimCSE: Simple Contrastive Learning of Sentence Embeddings. EMNLP 2021.
        https://aclanthology.org/2021.emnlp-main.552
    """

    references: ClassVar[tuple[str, ...]] = ("gao-etal-2021-simcse",)
    owned_modules: ClassVar[tuple[str, ...]] = ("head", "masked_language")

    def __init__(
        self,
        model: nn.Module,
        *,
        temperature: float = 0.05,
        head: Head | None = "auto",
        hard_negative_weight: float = 0.0,
        mlm_weight: float = 0.0,
        gather_across_devices: bool = True,
    ) -> None:
        super().__init__(model)
        self.temperature = self.check_number("temperature", temperature, low=0)
        self.check_choice("head", head, (*get_args(Head), None))
        self.hard_negative_weight = self.check_number(
            "hard_negative_weight", hard_negative_weight, low=-math.inf
        )
        self.mlm_weight = self.check_number("mlm_weight", mlm_weight, low=0, inclusive=True)
        self.gather_across_devices = gather_across_devices
        self._head_kind = _resolve_head(model, head)
        self.head = None if self._head_kind is None else build_head(model, self._head_kind)
        self.masked_language: MaskedLanguageHead | None = None
        if mlm_weight > 0:
            self.masked_language = MaskedLanguageHead(transformer_module(model, loss=type(self).__name__))
        self._dropout_views = False
        self._views_checked = False

    def forward(
        self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None
    ) -> Tensor | dict[str, Tensor]:
        """Return a scalar; with `mlm_weight` the weighted components `contrast` and `mlm`."""
        columns = list(sentence_features)
        contrast = super().forward(columns, labels)
        if self.masked_language is None or isinstance(contrast, dict):
            return contrast
        masked = self._masked_language_loss(self.masked_language, self.views_of(columns))
        return {"contrast": contrast, "mlm": self.mlm_weight * masked}

    def views_of(self, sentence_features: Iterable[dict[str, Any]]) -> list[View]:
        """Return a view of every text column; two views of a single one, under two dropout masks."""
        views = super().views_of(sentence_features)
        self._dropout_views = len(views) == 1
        return views * 2 if self._dropout_views else views

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor | None = None) -> Tensor:
        """Compute the loss of anchors, positives and any number of hard negatives, each `(b, d)`."""
        if len(embeddings) < 2:
            raise InputError(
                f"{type(self).__name__} needs at least two vectors per sentence",
                "provide anchors and positives",
            )
        if self._dropout_views:
            self._check_views_differ(*embeddings[:2])
        vectors = project(self.head, torch.stack(embeddings, dim=1))  # (b, columns, d)
        rows, anchors, weight = self.gather(vectors)
        first, second, *hard_negatives = rows.unbind(1)  # each (n, d)
        losses = info_nce(
            first,
            second,
            temperature=self.temperature,
            hard_negatives=hard_negatives,
            hard_negative_weight=self.hard_negative_weight,
            anchors=anchors,
        )
        return weight * losses.mean()

    def why_not_cached(self) -> str | None:
        """Return the reason if the loss has a masked-language-model term, which does not compare vectors."""
        if self.masked_language is None:
            return None
        return "its masked-language-model term (mlm_weight) is not computed from the vectors"

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options for the model card, with the head that `auto` chose."""
        return {**super().get_config_dict(), "head": self._head_kind}

    def _masked_language_loss(self, head: MaskedLanguageHead, views: list[View]) -> Tensor:
        """Compute the mean over the masked positions of all columns; each view has its own mask."""
        # Only the transformer: poolings over layers overwrite the token vectors.
        transformer = transformer_module(self.model, loss=type(self).__name__)
        losses = []
        for view in views:
            masked, labels = head.mask(view.features)
            losses.append(head(transformer(masked)["token_embeddings"], labels))
        every = torch.cat(losses)  # (m,)
        return every.sum() / max(1, len(every))

    def _check_views_differ(self, first: Tensor, second: Tensor) -> None:
        """Warn once, in the first training step, if two views of a text do not differ."""
        if self._views_checked or not first.requires_grad:
            return
        self._views_checked = True
        if torch.equal(first, second):
            logger.warning(
                "the two views of every sentence are identical, so SimCSELoss cannot learn anything: "
                "the encoder does not have dropout or is in evaluation mode. Set a dropout (0.1 in "
                "the paper) in the config.json of the base model, if its architecture supports it, "
                "and call model.train()."
            )


def _resolve_head(model: nn.Module, head: Head | None) -> Literal["train-only", "two-layer"] | None:
    has_dense = any(isinstance(module, Dense) for module in unwrap(model).children())
    if head == "auto":
        return "train-only" if pooling_names(model) == ("cls",) and not has_dense else None
    if head is not None and has_dense:
        raise InputError(
            f"head={head!r} would be stacked on the existing Dense layer of this encoder", "set head=None"
        )
    return head
