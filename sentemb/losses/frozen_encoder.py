"""BERT_F, the frozen encoder of self-guidance: the views of its layers, their cache, the distance to it."""

from __future__ import annotations

import copy
import hashlib
import inspect
import logging
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sentemb._compat import Transformer
from sentemb._vectors import full_precision
from sentemb.errors import InputError

logger = logging.getLogger(__name__)

ViewPooling = Literal["max", "mean"]


class FrozenEncoder(nn.Module):
    """BERT_F: a copy of the transformer that never trains and pools each of its layers into a view.

    Without `dropout` it stays in evaluation mode even if `train()` is called on it or on the loss that holds
    it, so its views depend on the text alone. The copy is a plain transformers model: the trainer would
    replace a SentenceTransformer with the model in training.
    """

    def __init__(
        self,
        transformer: nn.Module,
        *,
        layers: tuple[int, int | None] = (0, None),
        pooling: ViewPooling = "max",
        dropout: bool = False,
    ) -> None:
        super().__init__()
        config = transformer.config.get_text_config()  # type: ignore[union-attr, operator]
        self.width = int(config.hidden_size)  # of the hidden states
        states = int(config.num_hidden_layers) + 1
        self.layers = range(0)
        if isinstance(layers, list | tuple) and len(layers) == 2:
            start, end = layers[0], states if layers[1] is None else layers[1]
            if isinstance(start, int) and isinstance(end, int) and 0 <= start < end <= states:
                self.layers = range(start, end)
        if not self.layers:
            raise InputError(
                f"layers {layers!r} are outside the hidden states 0 to {states - 1} of this encoder",
                f"set layers to (first, end) with 0 <= first < end <= {states}",
            )
        self.pooling: ViewPooling = pooling
        self.dropout = dropout
        self.transformer = copy.deepcopy(transformer).requires_grad_(False)
        self._inputs = frozenset(inspect.signature(transformer.forward).parameters)
        self.train(transformer.training)

    def train(self, mode: bool = True) -> FrozenEncoder:
        """Stay in evaluation mode, unless built with `dropout=True`."""
        super().train(mode and self.dropout)
        return self

    @torch.no_grad()
    def forward(self, features: dict[str, Any]) -> Tensor:
        """Compute the views of a batch."""
        inputs = {name: value for name, value in features.items() if name in self._inputs}
        # Views are computed in the encoder's own precision, so that cached and fresh views agree.
        with torch.autocast(features["input_ids"].device.type, enabled=False):
            output = self.transformer(**inputs, output_hidden_states=True, return_dict=True)
        mask = features["attention_mask"]  # (b, t)
        pooled = [pool_tokens(output.hidden_states[k], mask, pooling=self.pooling) for k in self.layers]
        return torch.stack(pooled, dim=1)  # (b, l, d)


def pool_tokens(hidden: Tensor, mask: Tensor, *, pooling: ViewPooling) -> Tensor:
    """Pool `(n, t, d)` over every position whose mask is 1: `[CLS]` and `[SEP]` count and padding does not.

    Returns `(n, d)` in float32, or in float64 if `hidden` is float64; rows without tokens are zero.
    """
    hidden = full_precision(hidden)
    attended = mask.bool().unsqueeze(2)  # (n, t, 1)
    if pooling == "mean":
        return hidden.masked_fill(~attended, 0).sum(1) / attended.sum(1).clamp_min(1)  # (n, d)
    pooled = hidden.masked_fill(~attended, -torch.inf).amax(1)  # (n, d)
    return pooled.masked_fill(~attended.any(1), 0)


def fingerprint(module: nn.Module) -> Tensor:
    """Compute a checksum of all parameters and buffers that hidden states depend on.

    A pooler is skipped because hidden states do not depend on it. If a checkpoint lacks a pooler, its weights
    are random, and runs with different seeds would appear to have different frozen encoders.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        if name.startswith("pooler."):
            continue
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return torch.frombuffer(bytearray(digest.digest()), dtype=torch.uint8)


def embeddings_module(transformer: nn.Module) -> nn.Module:
    """Return the whole embedding module of a transformer, including its LayerNorm.

    BERT, RoBERTa, MPNet, DistilBERT, ELECTRA, ALBERT, DeBERTa and ModernBERT keep token, position and segment
    tables and the LayerNorm in a module called `embeddings`. Elsewhere the token table alone is returned.
    """
    table: nn.Module = transformer.get_input_embeddings()  # type: ignore[operator]
    for name, module in transformer.named_modules():
        if name.rsplit(".", 1)[-1] == "embeddings" and any(child is table for child in module.modules()):
            embeddings: nn.Module = module
            return embeddings
    return table


def freeze_outside_layers(module: Transformer) -> None:
    """Freeze the embeddings, and a pooler head that the sentence vector does not use.

    The pooler gets no gradient from the sentence vector, and DDP rejects a gradient that the weight
    regulariser alone would send it. An existing optimiser skips parameters without a gradient.
    """
    frozen = [embeddings_module(module.model)]
    pooler = getattr(module.model, "pooler", None)
    if pooler is not None and module.module_output_name == "token_embeddings":
        frozen.append(pooler)
    for part in frozen:
        for parameter in part.parameters():
            parameter.requires_grad_(False)
            parameter.grad = None


class ViewCache:
    """A cache of views on disk with a size limit, keyed by token ids.

    The views are kept in an unnamed temporary file that the system removes with the process; memory holds 16
    bytes and a row number per sentence. Sentences beyond the limit, or after the disk is full, are computed
    every time, so the cache affects only the speed. Several losses with the same frozen encoder, layers and
    pooling can share a cache, for example the runs of several seeds.

    Args:
        max_bytes: Maximum number of bytes on disk. The 13 views of a 12-layer encoder of width 768 take 40 kB
            per sentence.

    Example:
        >>> cache = ViewCache(max_bytes=2 << 30)
        >>> losses = [SelfGuidedLoss(copy.deepcopy(encoder), view_cache=cache) for seed in (1, 2, 3)]
    """

    def __init__(self, *, max_bytes: int = 4 << 30) -> None:
        if max_bytes < 1:
            raise InputError(f"max_bytes of ViewCache is {max_bytes}", "set it to a positive number of bytes")
        self.max_bytes = max_bytes
        self.full = False
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - lives with the cache
        weakref.finalize(self, self._file.close)
        self._rows: dict[bytes, int] = {}
        self._owner: str | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def bind(self, encoder: FrozenEncoder) -> None:
        """Bind the cache to an encoder, layer range and pooling; raise InputError if it has others."""
        checksum = bytes(fingerprint(encoder.transformer).tolist()).hex()
        owner = f"{checksum} {encoder.layers} {encoder.pooling}"
        if self._owner not in (None, owner):
            raise InputError(
                "this ViewCache contains the views of another encoder, layer range or pooling",
                "use a separate cache for each combination",
            )
        self._owner = owner

    def views(self, features: dict[str, Any], compute: Callable[[dict[str, Any]], Tensor]) -> Tensor:
        """Return the views of a batch, `(b, l, d)`, and compute those that are not cached."""
        keys = batch_keys(features)
        first_row: dict[bytes, int] = {}  # of each sentence that is not cached: duplicates are computed once
        for row, key in enumerate(keys):
            if key not in self._rows:
                first_row.setdefault(key, row)
        fresh: dict[bytes, NDArray[Any]] = {}
        if first_row:
            computed = compute(_select(features, list(first_row.values())))  # (misses, l, d)
            fresh = dict(zip(first_row, np.ascontiguousarray(computed.cpu().numpy()), strict=True))
            self._shape, self._dtype = computed.shape[1:], fresh[next(iter(fresh))].dtype
        views = np.empty((len(keys), *self._shape), dtype=self._dtype)  # (b, l, d)
        for view, key in zip(views, keys, strict=True):
            if key in fresh:
                view[:] = fresh[key]
            else:
                self._file.seek(self._rows[key] * view.nbytes)
                self._file.readinto(view)
        self._store(fresh)
        return torch.from_numpy(views).to(features["input_ids"].device)

    def _store(self, fresh: Mapping[bytes, NDArray[Any]]) -> None:
        for key, view in fresh.items():
            if self.full:
                return
            reason = ""
            try:
                if (len(self) + 1) * view.nbytes > self.max_bytes:
                    reason = f"its limit of {self.max_bytes:,} bytes is reached"
                else:
                    self._file.seek(len(self) * view.nbytes)
                    reason = "" if self._file.write(view.data) == view.nbytes else "the disk is full"
            except OSError as error:
                reason = str(error)
            if not reason:
                self._rows[key] = len(self)
                continue
            self.full = True
            logger.warning(
                "the view cache is full after %d sentences: %s. Views of further sentences are computed "
                "in every step. To cache them too, set TMPDIR to another folder, or a higher max_bytes on "
                "the ViewCache.",
                len(self),
                reason,
            )


def batch_keys(features: dict[str, Any]) -> list[bytes]:
    """Return one key per sentence, from its tokens without padding."""
    mask = features["attention_mask"].cpu().numpy().astype(bool)  # (b, t)
    # The mask itself and the segment ids are part of the key: they change what the encoder computes.
    names = [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in features]
    tables = [np.ascontiguousarray(features[name].cpu().numpy()) for name in names]
    ends = mask.shape[1] - np.argmax(mask[:, ::-1], axis=1)  # one past the last token
    keys = []
    for row, end in enumerate(ends):
        digest = hashlib.blake2b(digest_size=16)
        for table in tables:
            digest.update(table[row, :end].tobytes())
        keys.append(digest.digest())
    return keys


def _select(features: dict[str, Any], rows: list[int]) -> dict[str, Any]:
    """Select rows of a batch, without the padding columns that only the other rows need."""
    size = features["input_ids"].shape
    mask = features["attention_mask"][rows]  # (rows, t)
    width = int(mask.any(0).nonzero().max()) + 1
    selected = {}
    for name, value in features.items():
        if isinstance(value, Tensor) and value.shape[:1] == size[:1]:
            value = value[rows]
            if value.shape[1:2] == size[1:2]:
                value = value[:, :width]
        selected[name] = value
    return selected


def squared_distance(parameters: Sequence[Tensor], references: Sequence[Tensor]) -> Tensor:
    """Compute L_reg of SG-BERT: the sum of `(theta_T - theta_F)^2`, not its mean or root (footnote 5).

    The gradient `2 (theta_T - theta_F)` is implemented directly instead of by autograd, so a difference of
    the size of the model is not kept between forward and backward. It passes through the parameters' own
    autograd nodes, so gradient accumulation, loss scaling and DDP treat it like any other gradient. At
    `theta_T = theta_F` it is exactly zero.
    """
    if not parameters:
        return torch.zeros(())
    apply: Callable[..., Tensor] = _SquaredDistance.apply
    return apply(tuple(references), *parameters)


class _SquaredDistance(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, references: tuple[Tensor, ...], *parameters: Tensor) -> Tensor:
        ctx.references = references
        ctx.save_for_backward(*parameters)  # references to the parameters, not copies
        # Parameter by parameter: the peak is one difference, not one model.
        parts = []
        for parameter, reference in zip(parameters, references, strict=True):
            difference = _difference(parameter, reference).flatten()
            parts.append(torch.dot(difference, difference))
        return torch.stack(parts).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        factor = 2 * upstream[0]
        gradients: list[Tensor | None] = [None]
        for parameter, reference in zip(ctx.saved_tensors, ctx.references, strict=True):
            gradients.append(_difference(parameter, reference).mul_(factor).to(parameter.dtype))
        return tuple(gradients)


def _difference(parameter: Tensor, reference: Tensor) -> Tensor:
    return full_precision(parameter) - full_precision(reference)
