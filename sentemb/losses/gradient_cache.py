"""Gradient caching (Gao et al., 2021): any loss on batches that do not fit into memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sentemb._compat import CachedLossMixin, RandContext, StaticEmbedding, slice_minibatch
from sentemb.errors import InputError
from sentemb.losses.base import EncoderLoss, bibtex, check_number
from sentemb.losses.views import View, dropout_probability

_TOGETHER = (StaticEmbedding, nn.BatchNorm1d, nn.SyncBatchNorm)  # what treats the texts of a batch together
_SETTING = "sentemb"  # key of a column: how its mini-batches are encoded, in the first pass and in the second


class GradientCache(CachedLossMixin, nn.Module):
    """A loss with the gradient cache of Gao et al. (2021): the same loss in the memory of a mini-batch.

    The batch is encoded in mini-batches without a graph, the loss sends its gradient to what it compares, and
    every mini-batch is encoded again, under the same dropout and in the same precision, to take that gradient
    into the encoder. Time is about that of one more forward. The components of a loss are added up.

    A head works in mini-batches as the encoder does, whatever it makes of a text's tokens. Weights that the
    loss itself uses, such as label vectors, get their gradient from the whole batch. A mini-batch holds texts
    of similar length, so that little of it is padding; the loss sees the rows in their own order.

    Inputs:
        Those of the loss.

    Args:
        loss: Any loss of sentemb but the self-guided ones, or one of your own that derives from
            `EncoderLoss`. Its weights stay its own, in checkpoints too.
        mini_batch_size: Rows that are encoded at a time; 32 as in sentence-transformers' cached losses.

    Raises:
        InputError: The size is no whole number from 1, or the loss, its encoder or its head cannot take a
            batch in parts.

    Example:
        >>> loss = GradientCache(SimCSELoss(encoder), mini_batch_size=64)  # in batches of 4096, say
        >>> trainer = SentembTrainer(model=encoder, train_dataset=sentences, loss=loss)

    Reference:
        Gao et al.: Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup. RepL4NLP 2021.
        https://aclanthology.org/2021.repl4nlp-1.31
    """

    model: Any
    loss: EncoderLoss
    _widths: dict[int, list[int]]  # of what `embeddings_of` gives for each view
    _places: list[Tensor | None]  # of each view's rows among those encoded, None where both are the same
    _direct: list[tuple[nn.Parameter, Tensor]]  # weights used by the loss itself, with their gradients

    def __init__(self, loss: nn.Module, *, mini_batch_size: int = 32) -> None:
        super().__init__()
        checked = check_cacheable(loss)
        check_number("GradientCache", "mini_batch_size", mini_batch_size, low=1, inclusive=True, whole=True)
        self.model = checked.model
        self.loss = checked
        self.mini_batch_size = mini_batch_size

    def forward(self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None) -> Tensor:
        """Loss of a batch as one scalar, whose backward pass encodes the batch again."""
        self._direct = []
        loss = self.forward_cached(self.arrange(self.loss.views_of(sentence_features)), labels)  # type: ignore[operator]
        direct, self._direct = self._direct, []
        parameters, gradients = zip(*direct, strict=True) if direct else ((), ())
        connected: Tensor = _KnownGradients.apply(loss, gradients, *parameters)  # type: ignore[no-untyped-call]
        return connected

    def get_config_dict(self) -> dict[str, Any]:
        """Options for the model card: those of the loss, its name, and the size of a mini-batch."""
        options = self.loss.get_config_dict()
        return {"loss": type(self.loss).__name__, **options, "mini_batch_size": self.mini_batch_size}

    @property
    def citation(self) -> str:
        """BibTeX of the papers."""
        return f"{self.loss.citation}\n{bibtex('gao-etal-2021-scaling')}"

    def arrange(self, views: Sequence[View]) -> list[dict[str, Any]]:
        """The columns as they are encoded: by length, each with its dropout and the precision of now."""
        device = next(self.model.parameters()).device.type
        enabled, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
        self._places, self._widths, arranged = [], {}, []
        for number, (column, dropout) in enumerate(views):
            order = _by_length(column, self.mini_batch_size)
            self._places.append(None if order is None else order.argsort())
            rows = column if order is None else _take(column, order)
            arranged.append({**rows, _SETTING: _Setting(number, dropout, enabled, dtype)})
        return arranged

    def embed_minibatch(
        self,
        sentence_feature: dict[str, Any],
        begin: int,
        end: int,
        with_grad: bool,
        copy_random_state: bool,
        random_state: RandContext | None = None,
    ) -> tuple[Tensor, RandContext | None]:
        """Encode some rows of a column, as upstream asks for it."""
        features = slice_minibatch(sentence_feature, begin, end)
        view, dropout, enabled, dtype = features.pop(_SETTING)
        # Weights that autocast has cast without a graph must not be found again by the pass with one.
        device = next(self.model.parameters()).device.type
        precision = torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=False)
        graph = nullcontext() if with_grad else torch.no_grad()
        with dropout_probability(self.model, dropout), random_state or nullcontext(), graph, precision:
            before = RandContext(*features.values()) if copy_random_state else None
            parts = self.loss.embeddings_of(self.model(features), view)
        self._widths[view] = [part.shape[1] for part in parts]
        return torch.cat(parts, dim=1), before

    def calculate_loss(
        self, reps: list[list[Tensor]], labels: Tensor | None = None, *, with_backward: bool = False
    ) -> Tensor:
        """Loss of the whole batch, as upstream asks for it."""
        parts: list[Tensor] = []
        for view, (column, places) in enumerate(zip(reps, self._places, strict=True)):
            rows = torch.cat(column) if places is None else torch.cat(column)[places]
            widths = self._widths[view]
            parts += torch.split(rows, widths, dim=1) if len(widths) > 1 else [rows]
        value: Any = self.loss.compute_loss_from_embeddings(parts, labels)
        loss: Any = sum(value.values()) if isinstance(value, dict) else value
        if not with_backward:
            return loss  # type: ignore[no-any-return]
        compared, own = [row for column in reps for row in column], list(self.loss.owned_parameters())
        # Autocast would reach into a backward pass that runs inside of it, down to the cosines' products.
        with torch.autocast(loss.device.type, enabled=False):
            gradients = torch.autograd.grad(loss, [*compared, *own], allow_unused=True)
        for row, gradient in zip(compared, gradients[: len(compared)], strict=True):
            row.grad = gradient
        pairs = zip(own, gradients[len(compared) :], strict=True)
        self._direct = [(parameter, gradient) for parameter, gradient in pairs if gradient is not None]
        return loss.detach()  # type: ignore[no-any-return]


def cached(loss: nn.Module, mini_batch_size: int | None) -> nn.Module:
    """Put a gradient cache around a loss.

    Args:
        loss: The loss.
        mini_batch_size: Rows that are encoded at a time; None encodes a batch as a whole.

    Returns:
        The loss itself, or its `GradientCache`.

    Raises:
        InputError: The size is no whole number from 1, or the loss cannot take a batch in parts.

    Example:
        >>> loss = cached(SimCSELoss(load("bert-mini", pooling="cls")), 32)
        >>> type(loss).__name__
        'GradientCache'
    """
    return loss if mini_batch_size is None else GradientCache(loss, mini_batch_size=mini_batch_size)


def check_cacheable(loss: nn.Module) -> EncoderLoss:
    """Refuse a loss, an encoder or a head that cannot take a batch in parts."""
    name = type(loss).__name__
    if not isinstance(loss, EncoderLoss):
        raise InputError(
            f"GradientCache cannot wrap {name} because it is not a loss of sentemb",
            "derive it from sentemb.losses.EncoderLoss, or use a Cached loss of sentence-transformers",
        )
    if (reason := loss.why_not_cached()) is not None:
        raise InputError(
            f"{name} does not support a gradient cache: {reason}",
            f"use {name} without GradientCache, with smaller batches",
        )
    together = next((type(part).__name__ for part in loss.modules() if isinstance(part, _TOGETHER)), None)
    if together is not None:
        raise InputError(
            f"GradientCache encodes a batch in parts, but {together} needs all its texts at once",
            f"use {name} without GradientCache, which encodes the batch as a whole",
        )
    return loss


class _Setting(NamedTuple):
    """How a column is encoded in both passes."""

    view: int
    dropout: float | None
    autocast: bool
    dtype: torch.dtype


def _by_length(column: dict[str, Any], mini_batch_size: int) -> Tensor | None:
    """The rows of a column from the longest text to the shortest; None where they stay as they are."""
    mask = column.get("attention_mask")
    if not isinstance(mask, Tensor) or mask.ndim != 2 or len(mask) <= mini_batch_size:
        return None
    tensors = [value for value in column.values() if isinstance(value, Tensor)]
    if any(value.ndim == 0 or len(value) != len(mask) for value in tensors):
        return None  # the parts of an image or of texts in one row go by other numbers
    return mask.sum(1).argsort(descending=True, stable=True)


def _take(column: dict[str, Any], rows: Tensor) -> dict[str, Any]:
    return {name: value[rows] if isinstance(value, Tensor) else value for name, value in column.items()}


class _KnownGradients(torch.autograd.Function):
    """Hands a loss on. Backward, weights get gradients known by then, times the one that arrives.

    Written into the weights at once they would miss what the trainer multiplies the loss by: the share of a
    step that gradient accumulation gives it, and the factor of float16.
    """

    @staticmethod
    def forward(context: Any, loss: Tensor, gradients: tuple[Tensor, ...], *_: nn.Parameter) -> Tensor:
        context.gradients = gradients
        return loss.clone()

    @staticmethod
    def backward(context: Any, *arriving: Tensor) -> tuple[Tensor | None, ...]:
        (factor,) = arriving
        return factor, None, *(factor * gradient for gradient in context.gradients)
