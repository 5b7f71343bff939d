"""SimCSE: dropout as the only augmentation, entailment pairs, hard negatives."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from sentemb._compat import Dense
from sentemb.errors import InputError
from sentemb.losses.base import EncoderLoss, check_choice, check_number
from sentemb.losses.functional import info_nce
from sentemb.losses.views import GatheredRows, View, build_head, pooling_names, project, unwrap

logger = logging.getLogger(__name__)

Head = Literal["auto", "train-only", "two-layer"]


class SimCSELoss(EncoderLoss):
    """Contrastive loss of SimCSE, unsupervised and supervised (Gao et al., 2021).

    With z_i the head's output for an anchor, z'_i for its positive and phi(x, y) = exp(cos(x, y) /
    temperature)::

        loss_i = -log( phi(z_i, z'_i) / sum_j [ phi(z_i, z'_j) + phi(z_i, z*_j) ] )

    in one direction, averaged over the batch; the z* terms exist with hard negatives only. With a single text
    column the positive is the same text under another dropout mask: the batch is doubled and encoded in one
    forward pass, in which every row draws its own mask. A batch of one sentence without hard negatives has
    loss 0. Duplicated texts in a batch are negatives of each other, as in the paper.

    Inputs:
        sentence; or anchor, positive; or anchor, positive, hard negative 1, ..., n; labels: none.

    The poolers of the paper map to: `cls` with `head="train-only"` (unsupervised), the encoder's own Dense +
    tanh after CLS with `head=None` (supervised), `cls_before_pooler` and all averages with `head=None`.

    Args:
        model: The encoder to train.
        temperature: Divides the cosine; 0.05 in the paper (section 3).
        head: `train-only` adds a new Linear + tanh to the sentence vector. It belongs to the loss, so a saved
            model never contains it (unsupervised SimCSE). `two-layer` adds two linear layers (Chen, CS224N).
            None compares the encoder's vectors directly. `auto` follows the paper's code: `train-only` if the
            encoder pools by CLS, and None if it averages tokens or has its own Dense layer.
        gather_across_devices: Take in-batch negatives from all processes.

    Raises:
        InputError: An option is out of range, or a head is set for an encoder with its own Dense layer.

    Example:
        >>> encoder = load("bert-base-uncased", pooling="cls", max_length=32)
        >>> loss = SimCSELoss(encoder)
        >>> trainer = SentembTrainer(model=encoder, train_dataset=sentences, loss=loss)

    Reference:
        Gao, Yao and Chen: SimCSE: Simple Contrastive Learning of Sentence Embeddings. EMNLP 2021.
        https://aclanthology.org/2021.emnlp-main.552
    """

    references: ClassVar[tuple[str, ...]] = ("gao-etal-2021-simcse",)
    owned_modules: ClassVar[tuple[str, ...]] = ("head",)
    single_text: ClassVar[bool] = False
    """True if there is one text column; for subclasses."""

    def __init__(
        self,
        model: nn.Module,
        *,
        temperature: float = 0.05,
        head: Head | None = "auto",
        gather_across_devices: bool = True,
    ) -> None:
        super().__init__(model)
        self.temperature = check_number(self, "temperature", temperature, low=0)
        check_choice(self, "head", head, (*get_args(Head), None))
        self.gather_across_devices = gather_across_devices
        has_dense = any(isinstance(module, Dense) for module in unwrap(model).children())
        if head == "auto":
            head = "train-only" if pooling_names(model) == ("cls",) and not has_dense else None
        elif head is not None and has_dense:
            raise InputError(
                f"head={head!r} would be stacked on the existing Dense layer of this encoder", "set head=None"
            )
        self._head_kind = head
        self.head = None if head is None else build_head(model, head)

    def views_of(self, sentence_features: Iterable[dict[str, Any]]) -> list[View]:
        """Return a view of every text column; two views of a single one, under two dropout masks."""
        columns = [self.one_column(sentence_features)] if self.single_text else sentence_features
        views = super().views_of(columns)
        return views * 2 if len(views) == 1 else views

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None = None
    ) -> Tensor | dict[str, Tensor]:
        """Compute the loss of anchors, positives and any number of hard negatives, each `(b, d)`."""
        rows, anchors, weight = self.compared(embeddings)
        first, second, *hard_negatives = rows.unbind(1)  # each (n, d)
        return weight * self.contrast(first, second, hard_negatives, anchors).mean()

    def compared(self, embeddings: list[Tensor]) -> GatheredRows:
        """Project the vectors of all views by the head and gather them, `(n, views, d)`."""
        if len(embeddings) < 2:
            raise InputError(
                f"{type(self).__name__} needs at least two vectors per sentence",
                "provide anchors and positives",
            )
        if self.is_first_step(embeddings[0]) and torch.equal(*embeddings[:2]):
            logger.warning(
                "the two views of every sentence are identical, so %s cannot learn anything: "
                "the encoder does not have dropout or is in evaluation mode. Set a dropout (0.1 in "
                "the paper) in the config.json of the base model, if its architecture supports it, "
                "and call model.train().",
                type(self).__name__,
            )
        return self.gather(project(self.head, torch.stack(embeddings, dim=1)))

    def contrast(self, first: Tensor, second: Tensor, hard_negatives: list[Tensor], anchors: slice) -> Tensor:
        """Compute the loss of every anchor, `(a,)`."""
        return info_nce(
            first, second, temperature=self.temperature, hard_negatives=hard_negatives, anchors=anchors
        )

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options for the model card, with the head that `auto` chose."""
        return {**super().get_config_dict(), "head": self._head_kind}
