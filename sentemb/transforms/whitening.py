"""Whitening: a linear map after which sentence vectors have mean 0 and unit covariance."""

from __future__ import annotations

import logging

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sentemb._compat import Dense
from sentemb.errors import InputError

logger = logging.getLogger(__name__)

Double = npt.NDArray[np.float64]


def fit_whitening(vectors: npt.ArrayLike, dimensions: int | None = None) -> Dense:
    """Fit BERT-whitening.

    With the mean mu and the covariance U S U^T of the vectors, `(x - mu) W` has unit covariance for W = U
    S^(-1/2), whose columns are in the order of falling variance; the first of them alone make shorter
    vectors. It is one linear layer with the weight W^T and the bias -mu W, which plain sentence-transformers
    loads.

    A direction in which the vectors do not vary beyond float32 rounding has no scale of its own and is left
    out: every encoder that averages the output of a last LayerNorm has one. So None may give a dimension
    less than the vectors have.

    Args:
        vectors: Shape (n, dimension), of unique sentences and not normalised.
        dimensions: How many to keep; None keeps all in which the vectors vary.

    Returns:
        A native `Dense` without activation.

    Raises:
        InputError: The vectors are too few for their dimension, or vary in fewer dimensions than asked for.

    Example:
        >>> import numpy as np
        >>> fit_whitening(np.random.default_rng(0).normal(size=(100, 8)), 4).out_features
        4

    Reference:
        Su, Cao, Liu and Ou: Whitening Sentence Representations for Better Semantics and Faster Retrieval.
        2021. https://arxiv.org/abs/2103.15316
    """
    matrix = checked_vectors("vectors", vectors)
    count, width = matrix.shape
    if dimensions is not None and not 1 <= dimensions <= width:
        raise InputError(f"{dimensions} of {width} dimensions cannot be kept", f"give 1 to {width}")
    if count <= (dimensions or width):
        raise InputError(
            f"{count} vectors do not say how {dimensions or width} dimensions vary",
            "give more sentences, or keep fewer dimensions",
        )
    mean = matrix.mean(axis=0)
    deviations, directions = _principal_directions(matrix - mean)
    # What numpy's matrix_rank calls zero, for numbers that were float32.
    rank = int((deviations > deviations[0] * width * np.finfo(np.float32).eps).sum())
    if rank == 0 or (dimensions is not None and dimensions > rank):
        raise InputError(
            f"the vectors vary in {rank} of {width} dimensions, not in {dimensions or width}",
            f"keep at most {rank}" if rank else "give unique sentences",
        )
    if dimensions is None and rank < width:
        logger.info("the vectors vary in %d of %d dimensions, which are kept", rank, width)
    kept = dimensions or rank
    weight = directions[:, :kept] / deviations[:kept]  # (width, kept)
    return _dense(weight, -mean @ weight)


def checked_vectors(name: str, vectors: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Check vectors that something is fitted on."""
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


def _principal_directions(centred: Double) -> tuple[Double, Double]:
    """Standard deviations in falling order, and the directions (width, width) that they belong to."""
    variances, directions = np.linalg.eigh(centred.T @ centred / (len(centred) - 1))
    variances, directions = variances[::-1], directions[:, ::-1]
    # An eigenvector's sign is open: with a positive largest entry, every machine gives the same.
    largest = directions[np.abs(directions).argmax(axis=0), np.arange(len(variances))]
    return np.sqrt(np.maximum(variances, 0.0)), directions * np.where(largest < 0, -1.0, 1.0)


def _dense(weight: Double, bias: Double) -> Dense:
    width, kept = weight.shape
    return Dense(
        width,
        kept,
        activation_function=nn.Identity(),
        init_weight=torch.from_numpy(weight.T.astype(np.float32)),
        init_bias=torch.from_numpy(bias.astype(np.float32)),
    )
