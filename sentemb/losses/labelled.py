"""Base class of classification losses, and functions shared by losses on labels."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from sentemb._compat import WeightedLayerPooling
from sentemb.errors import InputError
from sentemb.losses.base import EncoderLoss
from sentemb.losses.encoder import unwrap
from sentemb.losses.views import View

logger = logging.getLogger(__name__)

Representation = Literal["sentence", "cls"]
"""`sentence` is the encoder's vector, `cls` the last hidden state of the first token with any pooling."""

Reduction = Literal["mean", "sum"]


class ClassificationLoss(EncoderLoss):
    """Base class of losses on single texts with class numbers; the loss owns the classification head.

    Args:
        model: The encoder to train.
        head: Maps the encoder's output to logits.

    Raises:
        InputError: The head is not a `torch.nn.Module`.
    """

    owned_modules: ClassVar[tuple[str, ...]] = ("head",)

    def __init__(self, model: nn.Module, head: nn.Module) -> None:
        super().__init__(model)
        if not isinstance(head, nn.Module):
            raise InputError(
                f"the classification head of {type(self).__name__} must be a torch.nn.Module, but got "
                f"{head!r}",
                "use a head such as LinearHead(model.get_embedding_dimension(), classes)",
            )
        self.head: Any = head.to(next(model.parameters()).device)

    def views_of(self, sentence_features: Iterable[dict[str, Any]]) -> list[View]:
        """Return a view of the only text column."""
        return [View(self.one_column(sentence_features))]

    def embeddings_of(self, output: dict[str, Any], view: int) -> list[Tensor]:
        """Return the head's logits, `(b, classes)`."""
        return [self.head(output)]

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options for the model card, with the class of the head."""
        return {"head": type(self.head).__name__, **super().get_config_dict()}

    def cross_entropy(self, logits: Tensor, labels: Tensor | None) -> Tensor:
        """Compute the cross-entropy of every row, `(b,)`, in float32 or float64."""
        name = type(self).__name__
        labels = self.row_labels(labels, rows=len(logits))
        if labels.is_floating_point():
            raise InputError(f"{name} needs integer labels", "number the classes from 0")
        # On an accelerator a wrong label would kill the process without naming the label.
        wrong = labels[(labels < 0) | (labels >= logits.shape[1])]
        if len(wrong):
            raise InputError(
                f"{name} got the label {int(wrong[0])}, but the head has the classes 0 to "
                f"{logits.shape[1] - 1}",
                "number the classes from 0, and build the head with the same number of classes",
            )
        precise = logits if logits.dtype == torch.float64 else logits.float()
        return nn.functional.cross_entropy(precise, labels.long(), reduction="none")


def check_representation(loss: EncoderLoss, representation: Representation) -> Representation:
    """Return the representation; raise InputError if it is unknown or the pooling does not support it."""
    loss.check_choice("representation", representation, get_args(Representation))
    mixed = any(isinstance(module, WeightedLayerPooling) for module in unwrap(loss.model).children())
    if representation == "cls" and mixed:
        raise InputError(
            f"{type(loss).__name__} with representation='cls' does not support a pooling that "
            "averages layers",
            "set representation='sentence', or build the encoder with pooling='cls'",
        )
    return representation


def represent(loss: EncoderLoss, output: dict[str, Any], representation: Representation) -> Tensor:
    """Return the vectors to compare, `(b, d)`."""
    vectors: Tensor = output["sentence_embedding"]  # (b, d)
    if representation == "sentence":
        return vectors
    hidden = output.get("token_embeddings")
    if not isinstance(hidden, Tensor) or len(hidden) != len(vectors):
        raise InputError(
            f"{type(loss).__name__} with representation='cls' needs the hidden states of padded texts",
            "set representation='sentence', or set model[0].unpad_inputs = False",
        )
    return hidden[:, 0]


class PositivesCheck:
    """Warn once, in the first training step, if most anchors do not have a positive."""

    def __init__(self) -> None:
        self._done = False

    def __call__(self, losses: Tensor, has_positive: Tensor) -> None:
        """Check a batch, if none was checked before."""
        if self._done or not losses.requires_grad:
            return
        self._done = True
        share = has_positive.float().mean().item()
        if share < 0.5:
            logger.warning(
                "only %.0f %% of the anchors of the first batch have a positive, and the contrastive "
                "loss ignores the others. Increase the batch size, or set batch_sampler to "
                "'group_by_label'.",
                100 * share,
            )
