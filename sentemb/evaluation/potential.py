"""Unit vectors and the Gaussian potential between them, block by block."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sentemb.errors import InputError

Floats = npt.NDArray[np.floating]
Double = npt.NDArray[np.float64]

BLOCK = 1024
"""Rows of a block: its squared distances are 8 MiB in float64, small enough to stay near the core."""


def unit_vectors(vectors: Floats) -> Double:
    """Vectors at length 1, in float64."""
    double = np.asarray(vectors, dtype=np.float64)
    if not np.isfinite(double).all():
        raise InputError("a vector holds NaN or infinity", "check the encoder's weights")
    norms = np.linalg.norm(double, axis=1, keepdims=True)  # (n, 1)
    unit: Double = np.divide(double, norms, out=np.zeros_like(double), where=norms > 0)
    return unit


def log_potential(rows: Double, columns: Double, t: float, *, same: bool) -> float:
    """Log of the summed Gaussian potential of all pairs of rows and columns."""
    parts = [
        _log_potential(
            rows[start : start + BLOCK], columns[other : other + BLOCK], t, same=same and start == other
        )
        for start in range(0, len(rows), BLOCK)
        for other in range(start if same else 0, len(columns), BLOCK)
    ]
    return float(np.logaddexp.reduce(parts))


def _log_potential(rows: Double, columns: Double, t: float, *, same: bool) -> float:
    squares = np.einsum("rd,rd->r", rows, rows)[:, None] + np.einsum("cd,cd->c", columns, columns)
    squares -= 2 * (rows @ columns.T)  # (rows, columns)
    # Equal vectors come out a rounding error below zero.
    logits = np.minimum(-t * squares, 0.0)  # (rows, columns)
    if same:
        logits[np.tril_indices(len(rows))] = -np.inf
    highest = float(logits.max())
    if highest == -np.inf:  # a last block of one row has no pair with itself
        return -math.inf
    return highest + math.log(float(np.exp(logits - highest).sum()))
