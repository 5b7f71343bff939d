"""Whitening is the formula, leaves out what does not vary, and is native."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sentemb.errors import InputError
from sentemb.transforms import fit_whitening


def correlated(count: int, width: int, *, rank: int | None = None, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(rank or width, width)) * np.linspace(3, 0.1, rank or width)[:, None]
    return (rng.normal(size=(count, rank or width)) @ mixing + rng.normal(size=width) * 5).astype(np.float32)


def apply(dense: torch.nn.Module, vectors: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return dense({"sentence_embedding": torch.from_numpy(vectors)})["sentence_embedding"].numpy()


@pytest.mark.parametrize("dimensions", [None, 12, 5, 1])
def test_mean_zero_and_unit_covariance_in_the_order_of_variance(dimensions: int | None) -> None:
    vectors = correlated(500, 12)
    dense = fit_whitening(vectors, dimensions)
    whitened = apply(dense, vectors)
    kept = dimensions or 12
    assert whitened.shape == (500, kept) == (500, dense.get_embedding_dimension())
    np.testing.assert_allclose(whitened.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(np.cov(whitened.T).reshape(kept, kept), np.eye(kept), atol=1e-3)


def test_the_papers_svd_gives_the_same_cosines() -> None:
    vectors = correlated(300, 10)
    mean = vectors.mean(axis=0, keepdims=True)
    u, s, _ = np.linalg.svd(np.cov(vectors.T.astype(np.float64)))
    expected = (vectors - mean) @ (u / np.sqrt(s))[:, :4]
    whitened = apply(fit_whitening(vectors, 4), vectors)

    def cosines(matrix: np.ndarray) -> np.ndarray:
        unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
        return unit @ unit.T

    np.testing.assert_allclose(cosines(whitened), cosines(expected), atol=1e-3)


def test_directions_without_variance_are_left_out() -> None:
    vectors = correlated(400, 16, rank=13)
    dense = fit_whitening(vectors)
    assert dense.out_features == 13
    np.testing.assert_allclose(np.cov(apply(dense, vectors).T), np.eye(13), atol=1e-2)
    with pytest.raises(
        InputError, match="vary in 13 of 16 dimensions, but 14 were requested; keep at most 13"
    ):
        fit_whitening(vectors, 14)


def test_a_mean_far_away_costs_no_precision() -> None:
    vectors = correlated(300, 6) + np.float32(500)
    np.testing.assert_allclose(np.cov(apply(fit_whitening(vectors), vectors).T), np.eye(6), atol=1e-2)


@pytest.mark.parametrize(
    ("vectors", "dimensions", "message"),
    [
        (np.ones((5, 8)), None, "5 vectors are too few to estimate the covariance of 8 dimensions"),
        (np.ones((50, 8)), None, "vary in 0 of 8 dimensions.*different sentences"),
        (np.ones((50, 8)), 9, "dimensions is 9, but the vectors have 8 dimensions"),
        (np.ones((50, 8)), 0, "dimensions is 0, but the vectors have 8"),
        (np.ones(8), None, r"shape \(8,\)"),
        (np.full((50, 8), np.nan), None, "vectors contains NaN or infinity"),
        ([["a"]], None, "must be a 2-D array of numbers"),
    ],
)
def test_what_cannot_be_whitened(vectors: object, dimensions: int | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_whitening(vectors, dimensions)
