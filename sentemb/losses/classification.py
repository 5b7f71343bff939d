"""What the losses on labelled texts share: one text column, labels, a look at positives, cross-entropy."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from sentemb._compat import WeightedLayerPooling
from sentemb.errors import InputError
from sentemb.losses._options import check_choice
from sentemb.losses.encoder import unwrap

logger = logging.getLogger(__name__)

Representation = Literal["sentence", "cls"]
"""`sentence` is the encoder's vector, `cls` the last hidden state of the first token whatever the pooling."""


def head_on_device(head: object, model: nn.Module, *, loss: str) -> nn.Module:
    """A classification head, where the encoder is."""
    if not isinstance(head, nn.Module):
        raise InputError(
            f"{loss} was given {head!r} as its classification head",
            "give one such as LinearHead(model.get_embedding_dimension(), classes)",
        )
    return head.to(next(model.parameters()).device)


def text_column(sentence_features: Iterable[dict[str, Any]], *, loss: str) -> dict[str, Any]:
    """The only text column of a batch."""
    columns = list(sentence_features)
    if len(columns) != 1:
        raise InputError(
            f"{loss} labels single texts, this batch has {len(columns)} text columns",
            "keep one column, or join the two texts of a pair in one column",
        )
    return dict(columns[0])


def check_representation(model: nn.Module, representation: object, *, loss: str) -> None:
    """Refuse an unknown representation, or CLS where the pooling leaves no last hidden state."""
    check_choice(loss, "representation", representation, get_args(Representation))
    mixed = any(isinstance(module, WeightedLayerPooling) for module in unwrap(model).children())
    if representation == "cls" and mixed:
        raise InputError(
            f"{loss} cannot take the CLS vector of an encoder whose pooling averages layers",
            "pass representation='sentence', or build the encoder with pooling='cls'",
        )


def represent(output: dict[str, Any], representation: Representation, *, loss: str) -> Tensor:
    """The vectors that are compared."""
    vectors: Tensor = output["sentence_embedding"]  # (b, d)
    if representation == "sentence":
        return vectors
    hidden = output.get("token_embeddings")
    if not isinstance(hidden, Tensor) or len(hidden) != len(vectors):
        raise InputError(
            f"{loss} finds no hidden states of padded texts to take the CLS vector from",
            "pass representation='sentence', or set model[0].unpad_inputs = False if it is True",
        )
    return hidden[:, 0]


def row_labels(labels: Tensor | None, *, rows: int, loss: str) -> Tensor:
    """One label per row of the batch."""
    if labels is None:
        raise InputError(f"{loss} needs labels", "give the data a column called label")
    if labels.numel() != rows:
        raise InputError(
            f"{loss} needs one label per row, {rows} rows came with labels of shape {tuple(labels.shape)}"
        )
    return labels.view(rows)


class PositivesCheck:
    """Warns once, in the first training step, when batches leave most anchors without a positive."""

    def __init__(self) -> None:
        self._done = False

    def __call__(self, losses: Tensor, has_positive: Tensor) -> None:
        """Look at a batch."""
        if self._done or not losses.requires_grad:
            return
        self._done = True
        share = has_positive.float().mean().item()
        if share < 0.5:
            logger.warning(
                "Only %.0f %% of the anchors of the first batch have a positive, and only those take part in "
                "the contrastive loss. Raise the batch size, or set batch_sampler to 'group_by_label'.",
                100 * share,
            )


def cross_entropy(logits: Tensor, labels: Tensor | None, *, loss: str) -> Tensor:
    """Cross-entropy of every row, in float32 or float64."""
    labels = row_labels(labels, rows=len(logits), loss=loss)
    if labels.is_floating_point():
        raise InputError(f"{loss} has labels that are no whole numbers", "number the classes from 0")
    # On an accelerator a wrong label would end the process without naming it.
    wrong = labels[(labels < 0) | (labels >= logits.shape[1])]
    if len(wrong):
        raise InputError(
            f"{loss} met the label {int(wrong[0])}, the head has classes 0 to {logits.shape[1] - 1}",
            "number the classes from 0 and build the head with as many",
        )
    precise = logits if logits.dtype == torch.float64 else logits.float()
    return nn.functional.cross_entropy(precise, labels.long(), reduction="none")
