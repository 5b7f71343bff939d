"""How well an approximate index finds the exact neighbours, on queries it has never seen."""

from __future__ import annotations

import time

import faiss
import numpy as np

from sentemb.encoding.encoder import Vectors
from sentemb.search.manifest import Recall
from sentemb.search.vectors import Numbers, VectorIndex

K = 10
TARGET = 0.98
_LOST = 0.002
_QUERIES = 2_000
# Held-out queries are a tenth of a small corpus; fewer than this many say nothing.
_FEWEST = 20


def hold_out(count: int, *, seed: int = 0) -> Numbers:
    """Choose the vectors that are kept out of the index until its recall is measured.

    Querying with vectors of the index itself would flatter it: each finds itself.
    """
    wanted = min(_QUERIES, count // 10)
    if wanted < _FEWEST:
        return np.empty(0, dtype=np.int64)
    return np.sort(np.random.default_rng(seed).choice(count, wanted, replace=False)).astype(np.int64)


class ExactNeighbours:
    """The exact k nearest of some queries among vectors that come in pieces."""

    def __init__(self, queries: Vectors, k: int = K) -> None:
        self._queries = queries
        self._k = k
        self._heap = faiss.ResultHeap(len(queries), k, keep_max=True)

    def add(self, vectors: Vectors, numbers: Numbers) -> None:
        """Compare the queries with more vectors (n, dim) under their numbers (n,)."""
        scores, rows = faiss.knn(
            self._queries, vectors, min(self._k, len(vectors)), metric=faiss.METRIC_INNER_PRODUCT
        )
        self._heap.add_result(scores, numbers[rows])

    def numbers(self) -> Numbers:
        """The neighbours' numbers, (q, k), best first; call once, at the end."""
        return self.found()[1]

    def found(self) -> tuple[Vectors, Numbers]:
        """Scores and numbers of the neighbours, (q, k) each, best first; call once, at the end."""
        self._heap.finalize()
        return self._heap.D, self._heap.I


def tune_and_measure(index: VectorIndex, queries: Vectors, exact: Numbers) -> Recall:
    """Set the least effort that reaches the target recall on half of the queries; measure on the rest.

    Where codes are too coarse for the target, the least that loses next to nothing of what they can find.
    """
    efforts = index.efforts()
    shares = {}
    for effort in (efforts[-1], *efforts):
        index.effort = effort
        shares[effort] = share_found(index.search(queries[::2], K)[1], exact[::2])
        if len(shares) > 1 and shares[effort] >= min(TARGET, shares[efforts[-1]] - _LOST):
            break
    started = time.perf_counter()
    found = index.search(queries[1::2], K)[1]
    seconds = time.perf_counter() - started
    return Recall(
        share_found(found, exact[1::2]), len(found), len(queries) - len(found), len(found) / seconds
    )


def share_found(found: Numbers, exact: Numbers) -> float:
    """recall@10: the share of the exact neighbours that was found, whatever their order."""
    hits = sum(len(np.intersect1d(row, true)) for row, true in zip(found, exact, strict=True))
    return hits / exact.size
