"""Gradient caching (Gao et al., 2021): losses of batches that do not fit into memory."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from sentemb._compat import CachedLossMixin, RandContext, StaticEmbedding, slice_minibatch
from sentemb.errors import InputError
from sentemb.losses._options import check_number
from sentemb.losses.owned import OwnedWeights

_AUTOCAST = "autocast"  # key of a column: the precision that it was encoded in first
_TOGETHER = (StaticEmbedding, nn.BatchNorm1d, nn.SyncBatchNorm)  # what treats the texts of a batch together


class GradientCache(CachedLossMixin, OwnedWeights):
    """What makes a cached loss of a loss, by sentence-transformers' gradient cache.

    The batch is encoded in mini-batches without a graph, the loss sends its gradient to what it compares,
    and every mini-batch is encoded again, under the same dropout and in the same precision, to take that
    gradient into the encoder. Memory is that of one mini-batch, time about that of one more forward.

    A cached loss derives from this class and from the loss, in this order. The loss has, besides
    `compute_loss_from_embeddings`, `embeddings_of(output)`: the arguments of the former, each `(b, ...)`, for
    what the encoder returned. A head that is part of the latter works in mini-batches as the encoder does,
    whatever it makes of a text's tokens. A mini-batch holds texts of similar length, so that little of it is
    padding; the loss sees the rows in their own order. Weights that the former uses directly, such as label
    vectors, get their gradient from the whole batch, in the backward pass of the returned loss like all
    others.
    """

    model: nn.Module
    _widths: list[int]  # of what `embeddings_of` gives
    _places: list[Tensor | None]  # of each column's rows among those encoded, None where both are the same
    _direct: list[tuple[nn.Parameter, Tensor]]  # weights used by the loss itself, with their gradients

    def encode_in(self, mini_batch_size: int) -> None:
        """Set the size of a mini-batch."""
        name = type(self).__name__
        check_number(name, "mini_batch_size", mini_batch_size, low=1, inclusive=True, whole=True)
        together = next((type(part).__name__ for part in self.modules() if isinstance(part, _TOGETHER)), None)
        if together is not None:
            raise InputError(
                f"{name} encodes a batch in parts, but {together} treats its texts together",
                f"take {name.removeprefix('Cached')}, which encodes the batch as a whole",
            )
        self.mini_batch_size = mini_batch_size

    def cached_loss(self, columns: Iterable[dict[str, Any]], labels: Tensor | None) -> Tensor:
        """Loss of a batch."""
        self._direct = []
        loss = self.forward_cached(self.arrange(columns), labels)  # type: ignore[operator]
        direct, self._direct = self._direct, []
        parameters, gradients = zip(*direct, strict=True) if direct else ((), ())
        connected: Tensor = _KnownGradients.apply(loss, gradients, *parameters)  # type: ignore[no-untyped-call]
        return connected

    def arrange(self, columns: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """The columns as they are encoded: by length, each with the precision of now."""
        device = next(self.model.parameters()).device.type
        precision = (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
        self._places, arranged = [], []
        for column in columns:
            order = _by_length(column, self.mini_batch_size)
            self._places.append(None if order is None else order.argsort())
            rows = column if order is None else _take(column, order)
            arranged.append({**rows, _AUTOCAST: precision})
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
        """Encode some rows of a column."""
        features = slice_minibatch(sentence_feature, begin, end)
        device = next(self.model.parameters()).device.type
        enabled, dtype = features.pop(_AUTOCAST)
        # Weights that autocast has cast without a graph must not be found again by the pass with one.
        precision = torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=False)
        with random_state or nullcontext(), nullcontext() if with_grad else torch.no_grad(), precision:
            before = RandContext(*features.values()) if copy_random_state else None
            parts = self.embeddings_of(self.model(features))  # type: ignore[operator]
        self._widths = [part.shape[1] for part in parts]
        return torch.cat(parts, dim=1), before

    def calculate_loss(
        self, reps: list[list[Tensor]], labels: Tensor | None = None, *, with_backward: bool = False
    ) -> Tensor:
        """Loss of the whole batch."""
        columns = [
            torch.cat(column) if places is None else torch.cat(column)[places]
            for column, places in zip(reps, self._places, strict=True)
        ]
        parts = [part for column in columns for part in torch.split(column, self._widths, dim=1)]
        value: Any = self.compute_loss_from_embeddings(parts, labels)  # type: ignore[operator]
        if isinstance(value, dict):
            value = sum(value.values())
        loss: Tensor = value
        if not with_backward:
            return loss
        rows, own = [row for column in reps for row in column], list(self.owned_parameters())
        # Autocast would reach into a backward pass that runs inside of it, down to the cosines' products.
        with torch.autocast(loss.device.type, enabled=False):
            gradients = torch.autograd.grad(loss, [*rows, *own], allow_unused=True)
        for row, gradient in zip(rows, gradients[: len(rows)], strict=True):
            row.grad = gradient
        pairs = zip(own, gradients[len(rows) :], strict=True)
        self._direct = [(parameter, gradient) for parameter, gradient in pairs if gradient is not None]
        return loss.detach()

    def get_config_dict(self) -> dict[str, Any]:
        """Options for the model card."""
        return {**super().get_config_dict(), "mini_batch_size": self.mini_batch_size}

    @property
    def citation(self) -> str:
        """BibTeX of the papers."""
        return f"""{super().citation}
@inproceedings{{gao-etal-2021-scaling,
    title = "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup",
    author = "Gao, Luyu and Zhang, Yunyi and Han, Jiawei and Callan, Jamie",
    booktitle = "Proceedings of the 6th Workshop on Representation Learning for NLP (RepL4NLP-2021)",
    year = "2021",
    publisher = "Association for Computational Linguistics",
    url = "https://aclanthology.org/2021.repl4nlp-1.31",
    pages = "316--321",
}}
"""


class SentenceGradientCache(GradientCache):
    """The gradient cache of a loss that compares sentence vectors."""

    def forward(self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None) -> Tensor:
        """Loss of a batch."""
        return self.cached_loss(sentence_features, labels)

    def embeddings_of(self, output: dict[str, Any]) -> list[Tensor]:
        """What is compared."""
        return [output["sentence_embedding"]]


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
