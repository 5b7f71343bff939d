"""Whitening: a linear map after which sentence vectors have mean 0 and unit covariance, or nearly so."""

from __future__ import annotations

import logging

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sentemb._compat import Dense
from sentemb._threads import one_blas_thread
from sentemb.errors import InputError

logger = logging.getLogger(__name__)

Double = npt.NDArray[np.float64]


@one_blas_thread()
def fit_whitening(vectors: npt.ArrayLike, dimensions: int | None = None) -> Dense:
    """Fit BERT-whitening.

    With the mean mu and the covariance U S U^T of the vectors, `(x - mu) W` has unit covariance for W = U
    S^(-1/2). The columns of W are sorted by decreasing variance, so the first columns alone give shorter
    vectors. The transform is one linear layer with the weight W^T and the bias -mu W, which plain
    sentence-transformers loads.

    A direction in which the vectors do not vary beyond float32 rounding is skipped, since its variance
    cannot be scaled to 1. Every encoder that averages the output of a final LayerNorm has such a direction.
    With None, the result may therefore have fewer dimensions than the vectors.

    Args:
        vectors: Vectors of unique sentences, not normalised, of shape (n, dimension).
        dimensions: Number of dimensions to keep; None keeps all in which the vectors vary.

    Returns:
        A native `Dense` without activation.

    Raises:
        InputError: The vectors are too few for their dimension, or vary in fewer dimensions than requested.

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
        raise InputError(
            f"dimensions is {dimensions}, but the vectors have {width} dimensions", f"use 1 to {width}"
        )
    if count <= (dimensions or width):
        raise InputError(
            f"{count} vectors are too few to estimate the covariance of {dimensions or width} dimensions",
            "provide more sentences, or keep fewer dimensions",
        )
    mean = matrix.mean(axis=0)
    deviations, directions = _principal_directions(matrix - mean)
    # What numpy's matrix_rank calls zero, for numbers that were float32.
    rank = int((deviations > deviations[0] * width * np.finfo(np.float32).eps).sum())
    if rank == 0 or (dimensions is not None and dimensions > rank):
        raise InputError(
            f"the vectors vary in {rank} of {width} dimensions, but {dimensions or width} were requested",
            f"keep at most {rank}" if rank else "provide different sentences",
        )
    if dimensions is None and rank < width:
        logger.info("the vectors vary in %d of %d dimensions; these are kept", rank, width)
    kept = dimensions or rank
    weight = directions[:, :kept] / deviations[:kept]  # (width, kept)
    return _dense(weight, -mean @ weight)


@one_blas_thread()
def fit_soft_whitening(vectors: npt.ArrayLike, ridge: float) -> Dense:
    """Fit whitening that stops short: what all vectors share counts for less, and noise is not blown up.

    With the second moments U S U^T of the vectors and their mean variance v, the map is U ((1 + ridge) v / (S
    + ridge v))^(1/2) U^T. A great ridge leaves all directions alike but those that stand out, the vectors'
    mean among them, which is not subtracted. So the map has no bias, commutes with normalisation, keeps
    coordinates near what they were, and may be multiplied into the token vectors of a static model. It takes
    fewer vectors than dimensions too.

    Args:
        vectors: Shape (n, dimension), of documents, normalised where cosines are compared.
        ridge: In units of the mean variance; above 0. Towards 0 it is ZCA whitening.

    Returns:
        A native `Dense` without bias and activation.

    Raises:
        InputError: The vectors do not vary, or the ridge is not above 0.

    Example:
        >>> import numpy as np
        >>> fit_soft_whitening(np.random.default_rng(0).normal(size=(100, 8)), 3.0).out_features
        8

    Reference:
        Diera, Galke and Scherp: Isotropy Matters: Soft-ZCA Whitening of Embeddings for Semantic Code Search.
        2024. https://arxiv.org/abs/2411.17538
    """
    if not ridge > 0:
        raise InputError(f"ridge is {ridge:g}", "use a number above 0")
    matrix = checked_vectors("vectors", vectors)
    centred = matrix - matrix.mean(axis=0)
    variance = float((centred**2).mean())
    if variance <= (np.finfo(np.float32).eps * np.abs(matrix).max(initial=0.0)) ** 2:
        raise InputError("all vectors are equal", "provide vectors of different texts")
    moments, directions = np.linalg.eigh(matrix.T @ matrix / len(matrix))
    factors = np.sqrt((1 + ridge) * variance / (np.maximum(moments, 0.0) + ridge * variance))
    return _dense((directions * factors) @ directions.T)


def checked_vectors(name: str, vectors: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Check vectors that something is fitted on."""
    try:
        matrix = np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a 2-D array of numbers: {error}") from error
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InputError(f"{name} has the shape {matrix.shape}", "pass a 2-D array with one row per sentence")
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if len(bad):
        raise InputError(f"{name} contains NaN or infinity: {len(bad)} rows, the first is row {bad[0]}")
    return matrix


def _principal_directions(centred: Double) -> tuple[Double, Double]:
    """Standard deviations in falling order, and the directions (width, width) that they belong to."""
    variances, directions = np.linalg.eigh(centred.T @ centred / (len(centred) - 1))
    variances, directions = variances[::-1], directions[:, ::-1]
    # An eigenvector's sign is open: with a positive largest entry, every machine gives the same.
    largest = directions[np.abs(directions).argmax(axis=0), np.arange(len(variances))]
    return np.sqrt(np.maximum(variances, 0.0)), directions * np.where(largest < 0, -1.0, 1.0)


def _dense(weight: Double, bias: Double | None = None) -> Dense:
    width, kept = weight.shape
    return Dense(
        width,
        kept,
        bias=bias is not None,
        activation_function=nn.Identity(),
        init_weight=torch.from_numpy(weight.T.astype(np.float32)),
        init_bias=None if bias is None else torch.from_numpy(bias.astype(np.float32)),
    )
