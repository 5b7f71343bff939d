"""How well an approximate index finds the exact neighbours, on queries it has never seen."""

from __future__ import annotations

import time

import faiss
import numpy as np

from sentemb.encoding.encoder import Vectors
from sentemb.search.manifest import Recall
from sentemb.search.rescoring import STEPS, VectorsOf, rescore
from sentemb.search.vectors import Numbers, VectorIndex

K = 10
TARGET = 0.98
_LOST = 0.002
# What the candidates leave to the lists that a search looks into.
_CANDIDATES_TARGET = 0.99
_QUERIES = 2_000
# Each is compared with every vector, several times over. 200 tell recall to half a hundredth.
_COMPARISONS, _ENOUGH = 2_000_000_000, 200
# Held-out queries are a tenth of a small corpus; fewer than this many say nothing.
_FEWEST = 20


def hold_out(count: int, *, seed: int = 0) -> Numbers:
    """Choose the vectors that are kept out of the index until its recall is measured.

    Querying with vectors of the index itself would flatter it: each finds itself.
    """
    wanted = held_out_count(count)
    if not wanted:
        return np.empty(0, dtype=np.int64)
    return np.sort(np.random.default_rng(seed).choice(count, wanted, replace=False)).astype(np.int64)


def held_out_count(count: int) -> int:
    """Return how many vectors are kept out of the index."""
    wanted = min(_QUERIES, count // 10, max(_ENOUGH, _COMPARISONS // max(1, count)))
    return wanted if wanted >= _FEWEST else 0


class ExactNeighbours:
    """The exact k nearest of some queries among vectors that come in pieces."""

    def __init__(self, queries: Vectors, k: int = K) -> None:
        self._queries = queries
        self._k = k
        self._heap = faiss.ResultHeap(len(queries), k, keep_max=True)

    def add(self, vectors: Vectors, numbers: Numbers) -> None:
        """Compare the queries with more vectors (n, dim) under their numbers (n,)."""
        if not len(vectors):
            return
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


def tune_and_measure(
    index: VectorIndex, queries: Vectors, exact: Numbers, vectors_of: VectorsOf
) -> tuple[Recall, int]:
    """Set the least effort that reaches the target recall on half of the queries; measure on the rest.

    Candidates that codes find are ranked by their exact vectors: the fewest that are enough.

    Args:
        index: The index, without the vectors of the queries.
        queries: (q, dim).
        exact: The places of the exact neighbors of each, (q, K).
        vectors_of: Gives the exact vectors (n, dim) at some places.

    Returns:
        The recall, and how many candidates are ranked for 10 hits; 0 where faiss has the vectors.
    """
    efforts = index.efforts()
    index.effort = efforts[-1]
    candidates = 0 if index.keeps_vectors else _fewest_candidates(index, queries[::2], exact[::2])
    count = min(max(K, candidates), len(index))
    shares: dict[int, float] = {}
    for effort in (efforts[-1], *efforts):
        index.effort = effort
        # Those of the nearest that are among the candidates are the first by their exact scores.
        shares[effort] = recall_at_k(index.search(queries[::2], count)[1], exact[::2])
        if len(shares) > 1 and shares[effort] >= min(TARGET, shares[efforts[-1]] - _LOST):
            break
    started = time.perf_counter()
    found = index.search(queries[1::2], count)[1]
    if candidates:
        found = rescore(queries[1::2], found, vectors_of, K)[1]
    seconds = time.perf_counter() - started
    share = recall_at_k(found, exact[1::2])
    return Recall(share, len(found), len(queries) - len(found), len(found) / seconds), candidates


def _fewest_candidates(index: VectorIndex, queries: Vectors, exact: Numbers) -> int:
    """Return how many candidates must be ranked by their exact vectors, if all lists are looked into."""
    found = index.search(queries, min(STEPS[-1], len(index)))[1]
    enough = (count for count in STEPS if recall_at_k(found[:, :count], exact) >= _CANDIDATES_TARGET)
    return next(enough, STEPS[-1])


def recall_at_k(found: Numbers, exact: Numbers) -> float:
    """Return the share of the exact neighbors that was found, whatever their order."""
    hits = sum(len(np.intersect1d(row, true)) for row, true in zip(found, exact, strict=True))
    return hits / exact.size
