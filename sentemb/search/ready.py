"""Vectors that the user has already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError

_SEVERAL = {"document": "documents", "query": "queries"}


class ReadyVectors:
    """One vector for each document or query of a call, checked."""

    def __init__(self, vectors: Any, dimension: int, what: Literal["document", "query"] = "document") -> None:
        self._what = what
        try:
            given = np.asarray(vectors)
            self._rows: Vectors = given.real.astype(np.float32, copy=False)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"vectors must be a 2-D array of numbers; got a {type(vectors).__name__}: {error}"
            ) from None
        if np.iscomplexobj(given):
            raise InputError("vectors must be real numbers, not complex", "pass real numbers")
        if self._rows.ndim != 2 or self._rows.shape[1] != dimension:
            raise InputError(
                f"the vectors have the shape {self._rows.shape}, but the index has {dimension} dimensions",
                f"pass one row of {dimension} numbers for each {what}",
            )
        bad = np.flatnonzero(~np.isfinite(self._rows).all(axis=1))
        if len(bad):
            raise InputError(f"vector {bad[0]} contains NaN or infinity ({len(bad)} such vectors in total)")

    def at(self, positions: Sequence[int]) -> Vectors:
        """The vectors (n, dim) of the documents at some places."""
        self.check_count(positions[-1] + 1, at_least=True)
        return self._rows[list(positions)]

    def check_count(self, count: int, *, at_least: bool = False) -> None:
        """Refuse another number of documents or queries than vectors."""
        if count > len(self._rows) or (count < len(self._rows) and not at_least):
            given = f"{count:,}{' or more' * at_least} {_SEVERAL[self._what]}"
            raise InputError(
                f"there are {len(self._rows):,} vectors for {given}",
                f"pass one vector for each {self._what}",
            )
