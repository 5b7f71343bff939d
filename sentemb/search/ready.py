"""Vectors that the user has already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError


class ReadyVectors:
    """One vector for each document of a call, checked."""

    def __init__(self, vectors: Any, dimension: int) -> None:
        try:
            self._rows: Vectors = np.asarray(vectors, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise InputError(f"the vectors are no matrix of numbers: {error}") from None
        if self._rows.ndim != 2 or self._rows.shape[1] != dimension:
            raise InputError(
                f"the vectors have the shape {self._rows.shape}, the index has {dimension} dimensions",
                f"pass one row of {dimension} numbers for each document",
            )
        bad = np.flatnonzero(~np.isfinite(self._rows).all(axis=1))
        if len(bad):
            raise InputError(f"vector {bad[0]} holds NaN or infinity, {len(bad)} in all")

    def at(self, positions: Sequence[int]) -> Vectors:
        """The vectors (n, dim) of the documents at some places."""
        self.check_count(positions[-1] + 1, at_least=True)
        return self._rows[list(positions)]

    def check_count(self, documents: int, *, at_least: bool = False) -> None:
        """Refuse another number of documents than vectors."""
        if documents > len(self._rows) or (documents < len(self._rows) and not at_least):
            raise InputError(
                f"there are {len(self._rows):,} vectors and {documents:,}{' or more' * at_least} documents",
                "pass one vector for each document",
            )
