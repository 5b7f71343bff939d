"""Gradient surgery as it is told, in loops over float64 vectors."""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def projected(own: Vector, other: Vector) -> Vector:
    product = float(own @ other)
    return own - product / float(other @ other) * other if product < 0 else own


def paper(vectors: list[Vector], generator: random.Random) -> list[Vector]:
    """Yu et al., algorithm 1: every task visits the others in a random order."""
    results = []
    for index, vector in enumerate(vectors):
        own = vector.copy()
        others = [j for j in range(len(vectors)) if j != index]
        for other in generator.sample(others, len(others)):
            own = projected(own, vectors[other])
        results.append(own)
    return results


def released(vectors: list[Vector], touched: list[NDArray[np.bool_]], generator: random.Random) -> Vector:
    """The published code: one list, itself included, shuffled in place; means and sums by entry."""
    visited = list(vectors)
    results = []
    for vector in vectors:
        own = vector.copy()
        generator.shuffle(visited)
        for other in visited:
            own = projected(own, other)
        results.append(own)
    total = np.sum(results, axis=0)
    return np.where(np.all(touched, axis=0), total / len(vectors), total)
