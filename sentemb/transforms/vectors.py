"""Vectors that something can be fitted on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sentemb.errors import InputError


def checked_vectors(name: str, vectors: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Check an array of vectors."""
    try:
        matrix = np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is no array of numbers: {error}") from error
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InputError(f"{name} has the shape {matrix.shape}", "give one row per sentence")
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if len(bad):
        raise InputError(f"row {bad[0]} of {name} holds NaN or infinity, {len(bad)} rows in all")
    return matrix
