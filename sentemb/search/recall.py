"""How well an approximate index finds the exact neighbours, on queries it has never seen."""

from __future__ import annotations

import time

import faiss
import numpy as np

from sentemb.encoding.encoder import Vectors
from sentemb.search.manifest import Recall
from sentemb.search.rescoring import STEPS, VectorsOf, rescored
from sentemb.search.vectors import Numbers, VectorIndex

K = 10
TARGET = 0.98
_LOST = 0.002
# What the texts of a search leave to the lists that it looks into.
_TEXTS_TARGET = 0.99
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
    index: VectorIndex, queries: Vectors, exact: Numbers, vectors_of: VectorsOf | None = None
) -> Recall:
    """Set the least effort that reaches the target recall on half of the queries; measure on the rest.

    Where codes are too coarse for the target, the least that loses next to nothing of what they can find.
    With the exact vectors of numbers, candidates are ranked by them: the fewest that are enough.
    """
    efforts = index.efforts()
    index.effort = efforts[-1]
    wanted = K
    if vectors_of is not None:
        wanted = index.texts = _fewest_texts(index, queries[::2], exact[::2])
    shares = {}
    for effort in (efforts[-1], *efforts):
        index.effort = effort
        # Those of the nearest that are among the candidates are the first by their exact scores.
        shares[effort] = share_found(index.search(queries[::2], wanted)[1], exact[::2])
        if len(shares) > 1 and shares[effort] >= min(TARGET, shares[efforts[-1]] - _LOST):
            break
    started = time.perf_counter()
    found = index.search(queries[1::2], wanted)[1]
    if vectors_of is not None:
        ranked = rescored(queries[1::2], found, vectors_of, K)
        assert ranked is not None  # nobody takes documents away from a build
        found = ranked[1]
    seconds = time.perf_counter() - started
    return Recall(
        share_found(found, exact[1::2]), len(found), len(queries) - len(found), len(found) / seconds
    )


def _fewest_texts(index: VectorIndex, queries: Vectors, exact: Numbers) -> int:
    """How many candidates must be ranked by their texts, if all lists are looked into."""
    index.texts = STEPS[-1]
    found = index.search(queries, min(STEPS[-1], len(index)))[1]
    enough = (texts for texts in STEPS if share_found(found[:, :texts], exact) >= _TEXTS_TARGET)
    return next(enough, STEPS[-1])


def share_found(found: Numbers, exact: Numbers) -> float:
    """recall@10: the share of the exact neighbours that was found, whatever their order."""
    hits = sum(len(np.intersect1d(row, true)) for row, true in zip(found, exact, strict=True))
    return hits / exact.size
