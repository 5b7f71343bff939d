"""Gradient caching (Gao et al., 2021): train any loss on batches that do not fit into memory."""

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

_TOGETHER = (StaticEmbedding, nn.BatchNorm1d, nn.SyncBatchNorm)  # modules that depend on the whole batch
_SETTING = "sentemb"  # key of a column: settings of its mini-batches in both passes


class GradientCache(CachedLossMixin, nn.Module):
    """Gradient cache of Gao et al. (2021): the same loss with the memory of a mini-batch.

    The batch is encoded in mini-batches without a graph. The gradient of the loss with respect to the
    compared vectors is computed and cached. Then every mini-batch is encoded again, with the same dropout
    masks and precision, to backpropagate that gradient through the encoder. This costs about one more forward
    pass. The components of a loss are summed.

    A head runs in mini-batches like the encoder. Weights that the loss itself uses, such as label vectors,
    get their gradient from the whole batch. A mini-batch holds texts of similar length to reduce padding; the
    loss sees the rows in their original order.

    Args:
        loss: Any loss of sentemb except the self-guided ones, or a custom loss that derives from
            `EncoderLoss`. It keeps its weights, also in checkpoints.
        mini_batch_size: Rows to encode at a time; 32 as in sentence-transformers' cached losses.

    Raises:
        InputError: The size is not a positive integer, or the loss, its encoder or its head cannot process a
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
    _widths: dict[int, list[int]]  # of the tensors that `embeddings_of` returns for each view
    _places: list[Tensor | None]  # of each view's rows in encoding order, None if unchanged
    _direct: list[tuple[nn.Parameter, Tensor]]  # weights used by the loss itself, with their gradients

    def __init__(self, loss: nn.Module, *, mini_batch_size: int = 32) -> None:
        super().__init__()
        name = type(loss).__name__
        if not isinstance(loss, EncoderLoss):
            raise InputError(
                f"GradientCache cannot wrap {name} because it is not a loss of sentemb",
                "derive it from sentemb.losses.EncoderLoss, or use a Cached loss of sentence-transformers",
            )
        if loss.why_not_cached is not None:
            raise InputError(
                f"{name} does not support a gradient cache: {loss.why_not_cached}",
                f"use {name} without GradientCache, with smaller batches",
            )
        if together := [type(part).__name__ for part in loss.modules() if isinstance(part, _TOGETHER)]:
            raise InputError(
                f"GradientCache encodes a batch in parts, but {together[0]} needs all its texts at once",
                f"use {name} without GradientCache, which encodes the batch as a whole",
            )
        check_number(self, "mini_batch_size", mini_batch_size, low=1, inclusive=True, whole=True)
        self.model, self.loss, self.mini_batch_size = loss.model, loss, mini_batch_size

    def forward(self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None) -> Tensor:
        """Compute the loss of a batch as a scalar, whose backward pass encodes the batch again."""
        self._direct = []
        loss = self.forward_cached(self.arrange(self.loss.views_of(sentence_features)), labels)  # type: ignore[operator]
        direct, self._direct = self._direct, []
        parameters, gradients = zip(*direct, strict=True) if direct else ((), ())
        connected: Tensor = _KnownGradients.apply(loss, gradients, *parameters)  # type: ignore[no-untyped-call]
        return connected

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options for the model card: those of the loss, its name, and the mini-batch size."""
        options = self.loss.get_config_dict()
        return {"loss": type(self.loss).__name__, **options, "mini_batch_size": self.mini_batch_size}

    @property
    def citation(self) -> str:
        """BibTeX entries of the papers."""
        return f"{self.loss.citation}\n{bibtex('gao-etal-2021-scaling')}"

    def arrange(self, views: Sequence[View]) -> list[dict[str, Any]]:
        """Sort each column by length and add its dropout probability and the current precision."""
        device = next(self.model.parameters()).device.type
        enabled, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
        self._places, self._widths, arranged = [], {}, []
        for number, (column, dropout) in enumerate(views):
            order = _by_length(column, self.mini_batch_size)
            self._places.append(None if order is None else order.argsort())
            rows = {
                name: value[order] if order is not None and isinstance(value, Tensor) else value
                for name, value in column.items()
            }
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
        """Encode some rows of a column; called by upstream."""
        features = slice_minibatch(sentence_feature, begin, end)
        view, dropout, enabled, dtype = features.pop(_SETTING)
        # The pass with a graph must not reuse weights that autocast cast without one.
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
        """Compute the loss of the whole batch; called by upstream."""
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
        # Autocast would also apply to a backward pass inside it, including the products of the cosines.
        with torch.autocast(loss.device.type, enabled=False):
            gradients = torch.autograd.grad(loss, [*compared, *own], allow_unused=True)
        for row, gradient in zip(compared, gradients[: len(compared)], strict=True):
            row.grad = gradient
        pairs = zip(own, gradients[len(compared) :], strict=True)
        self._direct = [(parameter, gradient) for parameter, gradient in pairs if gradient is not None]
        return loss.detach()  # type: ignore[no-any-return]


def cached(loss: nn.Module, mini_batch_size: int | None) -> nn.Module:
    """Wrap a loss in a gradient cache.

    Args:
        loss: The loss.
        mini_batch_size: Rows to encode at a time; None encodes a batch as a whole.

    Returns:
        The loss itself, or its `GradientCache`.

    Raises:
        InputError: The size is not a positive integer, or the loss cannot process a batch in parts.

    Example:
        >>> loss = cached(SimCSELoss(load("bert-mini", pooling="cls")), 32)
        >>> type(loss).__name__
        'GradientCache'
    """
    return loss if mini_batch_size is None else GradientCache(loss, mini_batch_size=mini_batch_size)


class _Setting(NamedTuple):
    """Settings that a column is encoded with in both passes."""

    view: int
    dropout: float | None
    autocast: bool
    dtype: torch.dtype


def _by_length(column: dict[str, Any], mini_batch_size: int) -> Tensor | None:
    """Return the row order from the longest text to the shortest; None if the order does not change."""
    mask = column.get("attention_mask")
    if not isinstance(mask, Tensor) or mask.ndim != 2 or len(mask) <= mini_batch_size:
        return None
    tensors = [value for value in column.values() if isinstance(value, Tensor)]
    if any(value.ndim == 0 or len(value) != len(mask) for value in tensors):
        return None  # image patches or texts flattened into one row have other lengths
    return mask.sum(1).argsort(descending=True, stable=True)


class _KnownGradients(torch.autograd.Function):
    """Pass a loss through; the backward pass gives weights precomputed gradients times the incoming one.

    Gradients written to the weights directly would miss the factors by which the trainer multiplies the loss:
    that of gradient accumulation and the loss scale of float16.
    """

    @staticmethod
    def forward(context: Any, loss: Tensor, gradients: tuple[Tensor, ...], *_: nn.Parameter) -> Tensor:
        context.gradients = gradients
        return loss.clone()

    @staticmethod
    def backward(context: Any, *arriving: Tensor) -> tuple[Tensor | None, ...]:
        (factor,) = arriving
        return factor, None, *(factor * gradient for gradient in context.gradients)
