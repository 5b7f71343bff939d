"""How sentence vectors lie on the unit sphere: alignment and uniformity (Wang and Isola, 2020).

Alignment says how near vectors of one meaning are, uniformity how evenly all vectors are spread; lower is
better for both. An encoder whose vectors all point one way is perfectly aligned and not uniform at all, one
that scatters at random is the reverse: only both together mean something. Everything is computed in float64
on unit vectors; a zero vector, which has no direction, stays zero.

Reference: Wang and Isola: Understanding Contrastive Representation Learning through Alignment and Uniformity
on the Hypersphere. ICML 2020. https://proceedings.mlr.press/v119/wang20k.html
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from sentemb.errors import InputError
from sentemb.evaluation.sts import EncodedSets

Floats = npt.NDArray[np.floating]
Double = npt.NDArray[np.float64]

# Rows of a block: its squared distances are 8 MiB in float64, small enough to stay near the core.
_BLOCK = 1024
# On the 0 to 5 of STS: above 4, as in SimCSE (Gao et al., EMNLP 2021, section 3).
_POSITIVES_FROM = 0.8


class Geometry(NamedTuple):
    """Where the vectors of scored pairs lie.

    Attributes:
        alignment: Mean squared distance of the positive pairs, in [0, 4]; 0 is best.
        uniformity: Log of the mean Gaussian potential of all pairs of sentences, in [-8, 0]; lower is better.
    """

    alignment: float
    uniformity: float


def measure_geometry(encoded: EncodedSets) -> Geometry:
    """Alignment of the pairs that mean the same beside the uniformity of all sentences.

    SimCSE's figure 2 shows both on STS-B. Positives are the pairs in the upper fifth of their set's range of
    scores: those above 4 where it goes from 0 to 5, as there, and another scale needs no threshold of its
    own. A sentence that several pairs share counts once.

    Args:
        encoded: Sets, whose scores differ, and the vectors of their sentences.

    Returns:
        Both figures.

    Raises:
        InputError: Fewer than two different sentences, or a vector that is not finite.
    """
    positives = [_positive(one.gold) for one in encoded.pairs]
    first, second = (
        np.concatenate([rows[side][mask] for rows, mask in zip(encoded.rows, positives, strict=True)])
        for side in (0, 1)
    )
    vectors = encoded.vectors
    return Geometry(alignment(vectors[first], vectors[second]), uniformity(vectors))


def alignment(first: Floats, second: Floats, *, alpha: float = 2.0) -> float:
    """Mean distance of positive pairs to the power `alpha`.

    Args:
        first: Vectors of any length, shape (pairs, dim).
        second: Their partners, shape (pairs, dim).
        alpha: The power; 2 in Wang and Isola's experiments.

    Returns:
        The mean of `|x - y| ** alpha` over unit vectors; 0 where each pair has one direction.

    Raises:
        InputError: The shapes differ, there is no pair, a vector is not finite, or `alpha` is not positive.
    """
    _check_positive("alpha", alpha)
    if first.shape != second.shape:
        raise InputError(
            f"vectors of shape {first.shape} cannot be aligned with {second.shape}", "give one partner each"
        )
    if len(first) == 0:
        raise InputError("alignment needs at least one positive pair", "give pairs that mean the same")
    total = 0.0
    for start in range(0, len(first), _BLOCK):
        rows = slice(start, start + _BLOCK)
        difference = _unit(first[rows]) - _unit(second[rows])  # (block, dim)
        squares = np.einsum("bd,bd->b", difference, difference)  # (block,)
        total += float(np.sum(squares ** (alpha / 2)))
    return total / len(first)


def uniformity(vectors: Floats, *, t: float = 2.0) -> float:
    """Logarithm of the mean Gaussian potential over all unordered pairs of different rows.

    Squared distances come block by block from matrix products, and their exponentials are added in the log
    domain, so neither many sentences nor a large `t` is a problem.

    Args:
        vectors: Vectors of any length, shape (sentences, dim).
        t: Sharpness of the potential; 2 in Wang and Isola's experiments.

    Returns:
        `log mean exp(-t * |x_i - x_j| ** 2)` over i < j and unit vectors; 0 where all have one direction.

    Raises:
        InputError: Fewer than two vectors, a vector that is not finite, or `t` is not positive.
    """
    _check_positive("t", t)
    count = len(vectors)
    if count < 2:
        raise InputError(f"uniformity needs at least two sentences, not {count}", "give more sentences")
    unit = _unit(vectors)
    parts = [
        _log_potential(unit[start : start + _BLOCK], unit[other : other + _BLOCK], t, same=start == other)
        for start in range(0, count, _BLOCK)
        for other in range(start, count, _BLOCK)
    ]
    return float(logsumexp(parts)) - math.log(count * (count - 1) / 2)


def _positive(gold: Double) -> npt.NDArray[np.bool_]:
    low, high = float(gold.min()), float(gold.max())
    return np.asarray(gold > low + _POSITIVES_FROM * (high - low))


def _log_potential(rows: Double, columns: Double, t: float, *, same: bool) -> float:
    """Log of the summed potential of two blocks; of one block with itself, each pair once."""
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


def _unit(vectors: Floats) -> Double:
    double = np.asarray(vectors, dtype=np.float64)
    if not np.isfinite(double).all():
        raise InputError("a vector holds NaN or infinity", "check the encoder's weights")
    norms = np.linalg.norm(double, axis=1, keepdims=True)  # (n, 1)
    unit: Double = np.divide(double, norms, out=np.zeros_like(double), where=norms > 0)
    return unit


def _check_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{name} is {value!r}", "give a positive number")
