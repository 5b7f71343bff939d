"""Rounding of an encoder's vectors to one byte or one bit per dimension, as an index stores them."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor

from sentemb.errors import InputError
from sentemb.modules.files import SentembModule

Rounding = Literal["int8", "binary"]
"""`int8`: 255 levels for each dimension, over the range that it has on some text. `binary`: its sign."""

_LARGEST = 127


class RoundedVectors(SentembModule):
    """Round sentence vectors to one byte or one bit per dimension, and return them as float32.

    Their cosines equal those of the stored codes, so any evaluation shows the quality drop of the codes. Only
    `sentemb.load` can read a saved folder.
    """

    config_keys = ["dimension", "kind"]  # noqa: RUF012
    step: Tensor

    def __init__(self, dimension: int, kind: Rounding) -> None:
        super().__init__()
        if kind not in get_args(Rounding):
            raise InputError(f"unknown rounding {kind!r}", f"choose one of {', '.join(get_args(Rounding))}")
        self.dimension, self.kind = dimension, kind
        self.register_buffer("step", torch.ones(dimension))

    @property
    def bytes(self) -> int:
        """Bytes of a vector's codes."""
        return self.dimension if self.kind == "int8" else -(-self.dimension // 8)

    def fit(self, vectors: Tensor) -> RoundedVectors:
        """Take the range of each dimension from vectors (n, dimension); larger values are clipped."""
        self.step = (vectors.abs().amax(dim=0) / _LARGEST).clamp(min=1e-12)
        return self

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Round `sentence_embedding` (batch, dimension)."""
        vectors = features["sentence_embedding"]
        if self.kind == "int8":
            rounded = (vectors / self.step).round().clamp(-_LARGEST, _LARGEST) * self.step
        else:
            rounded = torch.where(vectors > 0, 1.0, -1.0).to(vectors.dtype)
        features["sentence_embedding"] = rounded
        return features
