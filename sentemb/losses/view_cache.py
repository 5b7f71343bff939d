"""Views of the frozen encoder, computed once per unique sentence."""

from __future__ import annotations

import hashlib
import logging
import tempfile
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sentemb.errors import InputError

logger = logging.getLogger(__name__)


class ViewCache:
    """A cache of views on disk with a size limit, keyed by token ids.

    The views are kept in an unnamed temporary file that the system removes with the process; memory holds 16
    bytes and a row number per sentence. Sentences beyond the limit, or after the disk is full, are computed
    every time, so the cache affects only the speed. Several losses with the same frozen encoder, layers and
    pooling can share a cache, for example the runs of several seeds.

    Args:
        max_bytes: Maximum number of bytes on disk. The 13 views of a 12-layer encoder of width 768 take 40 kB
            per sentence.
        folder: Folder of the file; None means the system's temporary folder.

    Example:
        >>> cache = ViewCache(max_bytes=2 << 30)
        >>> losses = [SelfGuidedLoss(copy.deepcopy(encoder), view_cache=cache) for seed in (1, 2, 3)]
    """

    def __init__(self, *, max_bytes: int = 4 << 30, folder: Path | None = None) -> None:
        if max_bytes < 1:
            raise InputError(f"max_bytes of ViewCache is {max_bytes}", "set it to a positive number of bytes")
        self.max_bytes = max_bytes
        try:
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - lives with the cache
        except OSError as error:
            raise InputError(
                f"cannot create a view cache in {folder or 'the temporary folder'}: {error}"
            ) from error
        weakref.finalize(self, self._file.close)
        self._rows: dict[bytes, int] = {}
        self._row_shape: tuple[int, ...] = ()
        self._row_dtype = np.dtype(np.float32)
        self._owner: str | None = None
        self._full = False

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def full(self) -> bool:
        """Return whether the cache does not accept more sentences."""
        return self._full

    def bind(self, owner: str) -> None:
        """Bind the cache to an encoder, layer range and pooling; raise InputError if it has others."""
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
        stored = [row for row, key in enumerate(keys) if key not in first_row]
        if not first_row:
            return self._read(keys).to(features["input_ids"].device)
        fresh = compute(_select(features, list(first_row.values())))  # (misses, l, d)
        place = {key: index for index, key in enumerate(first_row)}
        views = fresh.new_empty((len(keys), *fresh.shape[1:]))  # (b, l, d)
        computed = [row for row, key in enumerate(keys) if key in first_row]
        views[computed] = fresh[[place[keys[row]] for row in computed]]
        if stored:
            views[stored] = self._read([keys[row] for row in stored]).to(fresh)
        self._store(list(first_row), fresh)
        return views

    def _read(self, keys: Sequence[bytes]) -> Tensor:
        rows = np.empty((len(keys), *self._row_shape), dtype=self._row_dtype)  # (b, l, d)
        for row, key in zip(rows, keys, strict=True):
            self._file.seek(self._rows[key] * row.nbytes)
            self._file.readinto(row)
        return torch.from_numpy(rows)

    def _store(self, keys: Sequence[bytes], views: Tensor) -> None:
        if self._full:
            return
        rows = np.ascontiguousarray(views.cpu().numpy())  # (misses, l, d)
        self._row_shape, self._row_dtype = rows.shape[1:], rows.dtype
        for key, row in zip(keys, rows, strict=True):
            if (len(self) + 1) * row.nbytes > self.max_bytes:
                self._stop(f"its limit of {self.max_bytes:,} bytes is reached")
                return
            try:
                self._file.seek(len(self) * row.nbytes)
                complete = self._file.write(row.data) == row.nbytes
            except OSError as error:
                self._stop(str(error))
                return
            if not complete:
                self._stop("the disk is full")
                return
            self._rows[key] = len(self._rows)

    def _stop(self, reason: str) -> None:
        self._full = True
        logger.warning(
            "the view cache is full after %d sentences: %s. Views of further sentences are computed "
            "in every step. To cache them too, set another folder or a higher max_bytes on the "
            "ViewCache.",
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
