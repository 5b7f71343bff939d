"""Reference implementation of WK pooling: loops over tokens and layers with a QR decomposition each."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

States = NDArray[np.float64]


def contexts(count: int, *, window: int, clip_left: bool) -> list[list[int]]:
    """Return the context of each layer; without clipping, the first `window` layers have none on the left."""
    found = []
    for layer in range(count):
        around = [other for other in range(count) if other != layer and abs(other - layer) <= window]
        if not clip_left and layer < window:
            around = [other for other in around if other > layer]
        found.append(around)
    return found


def cosine(first: States, second: States) -> float:
    return float(first @ second / (np.linalg.norm(first) * np.linalg.norm(second)))


def token_vector(states: States, *, window: int, clip_left: bool) -> States:
    """Pool the states (K, d) of a token to a vector (d)."""
    alignment, novelty = [], []
    for x, around in zip(states, contexts(len(states), window=window, clip_left=clip_left), strict=True):
        context = states[around]
        basis = np.linalg.qr(context.T)[0]
        projection = basis.T @ x
        unit = np.mean([basis.T @ c / np.linalg.norm(c) for c in context], axis=0)
        similarity = unit @ projection / np.linalg.norm(projection)
        alignment.append(1 / (similarity * 2 * (len(context) + 1)))
        novelty.append(np.linalg.norm(x - basis @ projection) / np.linalg.norm(x))
    weights = (np.array(alignment) / sum(alignment) + np.array(novelty) / sum(novelty)) / 2
    return weights @ states


def token_variance(states: States) -> float:
    return float(np.var([cosine(x, y) for x, y in pairwise(states)]))


def wk_vector(states: States, *, window: int = 2, clip_left: bool = False) -> States:
    """Pool the states (K, tokens, d) of a text without padding to a vector (d); skip its last token."""
    tokens = [states[:, position] for position in range(states.shape[1] - 1)]
    variances = np.array([token_variance(token) for token in tokens])
    vectors = [token_vector(token, window=window, clip_left=clip_left) for token in tokens]
    return variances / variances.sum() @ np.array(vectors)
