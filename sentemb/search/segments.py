"""The vectors of an index: one immutable faiss segment, its tombstones, and what was written since."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sentemb.encoding.encoder import Vectors
from sentemb.search.recall import ExactNeighbours
from sentemb.search.vectors import Numbers, VectorIndex

# A search that tombstones still leave short after so many candidates compares with every vector instead.
_MOST_CANDIDATES = 2_048
# An approximate search among few that are alive loses many of them and takes longer than comparing with each.
# Of 60,000 vectors of 384 dimensions on one core, 18,000 took 7 ms; a graph took 12 to find .6 among 6,000.
_EXACT = 8_000_000  # vectors times dimensions
_PIECE = 8_192
# Comparing with so many floats takes 0.3 ms on a core, as a search among 200,000 in a graph does.
_WRITTEN = 4_000_000
# A search looks for as many more as are dead; at a fifth it takes a quarter longer.
_DEAD = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Vectors by number, at one moment.

    Args:
        base: The faiss segment; its numbers count from 0.
        dead: Which of its vectors are tombstones, (len(base),).
        numbers: Numbers of the vectors written since, rising, (n,).
        written: These vectors, (n, dim).
        base_alive: How many vectors of the faiss segment are no tombstones.
    """

    base: VectorIndex
    dead: NDArray[np.bool_]
    numbers: Numbers
    written: Vectors
    base_alive: int

    @classmethod
    def of(cls, base: VectorIndex) -> Segments:
        """A segment to which nothing has happened."""
        none = np.empty((0, base.dimension), dtype=np.float32)
        return cls(base, np.zeros(len(base), dtype=np.bool_), np.empty(0, dtype=np.int64), none, len(base))

    def __len__(self) -> int:
        return self.base_alive + len(self.numbers)

    @property
    def alive(self) -> Numbers:
        """The numbers of all vectors, rising."""
        return np.concatenate([np.flatnonzero(~self.dead), self.numbers])

    @property
    def compaction_pays(self) -> bool:
        """Whether what was written or died since the last build slows a search down noticeably."""
        dead = len(self.base) - self.base_alive
        return self.written.size > _WRITTEN or dead > _DEAD * len(self.base)

    def changed(self, dead: Numbers, numbers: Numbers, vectors: Vectors) -> Segments:
        """The same with more tombstones and more vectors."""
        tombs = self.dead.copy()
        tombs[dead[dead < len(tombs)]] = True
        numbers = np.concatenate([self.numbers, numbers])
        kept = ~np.isin(numbers, dead)
        written = np.concatenate([self.written, vectors])
        return replace(
            self, dead=tombs, numbers=numbers[kept], written=written[kept], base_alive=int((~tombs).sum())
        )

    def only(self, numbers: Numbers) -> Segments:
        """The same with nothing but some of its vectors alive."""
        dead = np.ones_like(self.dead)
        dead[numbers[numbers < len(dead)]] = False
        kept = np.isin(self.numbers, numbers)
        alive = int((~dead).sum())
        return replace(
            self, dead=dead, numbers=self.numbers[kept], written=self.written[kept], base_alive=alive
        )

    def rows(self, numbers: Numbers) -> Vectors:
        """The vectors (n, dim) of some numbers that are alive."""
        found = np.empty((len(numbers), self.base.dimension), dtype=np.float32)
        old = numbers < len(self.base)
        if old.any():
            found[old] = self.base.rows(numbers[old])
        found[~old] = self.written[np.searchsorted(self.numbers, numbers[~old])]
        return found

    def search(self, queries: Vectors, k: int) -> tuple[Vectors, Numbers]:
        """The nearest vectors of each query; `k` is at most the length."""
        found = []
        if alive := self.base_alive:
            found.append(self._search_base(queries, min(k, alive), alive))
        if len(self.numbers):
            exact = ExactNeighbours(queries, min(k, len(self.numbers)))
            exact.add(self.written, self.numbers)
            found.append(exact.found())
        if len(found) == 1:
            return found[0]
        scores, numbers = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(scores, best, 1), np.take_along_axis(numbers, best, 1)

    def _search_base(self, queries: Vectors, k: int, alive: int) -> tuple[Vectors, Numbers]:
        hidden = len(self.base) - alive
        if not hidden:
            return self.base.search(queries, k)
        scores = np.empty((len(queries), k), dtype=np.float32)
        numbers = np.empty((len(queries), k), dtype=np.int64)
        rows = np.arange(len(queries))
        # Twice as many more as tombstones hide on average.
        wanted = k + 2 * (k * hidden // alive) + 8
        while len(rows):
            few = self.base.kind != "flat" and alive * self.base.dimension <= _EXACT
            if few or wanted >= min(_MOST_CANDIDATES + k, len(self.base)):
                if self.base.keeps_vectors:
                    scores[rows], numbers[rows] = self._scan_base(queries[rows], k)
                    break
                wanted = len(self.base)
            # What is alive lies farther apart, so that a search must look farther for it.
            harder = -(-len(self.base) // alive)
            near, found = self.base.search(queries[rows], wanted, harder=harder)
            lives = (found >= 0) & ~self.dead[found]
            enough = lives.sum(axis=1) >= k
            first = np.argsort(~lives[enough], axis=1, kind="stable")[:, :k]
            scores[rows[enough]] = np.take_along_axis(near[enough], first, 1)
            numbers[rows[enough]] = np.take_along_axis(found[enough], first, 1)
            rows, wanted = rows[~enough], 4 * wanted
        return scores, numbers

    def _scan_base(self, queries: Vectors, k: int) -> tuple[Vectors, Numbers]:
        """The exact nearest of the live vectors in the segment."""
        living = np.flatnonzero(~self.dead)
        if self.base.kind != "ivfpq" and len(living) > _PIECE // 4:
            return self.base.scan(queries, k, ~self.dead)
        exact = ExactNeighbours(queries, k)
        for start in range(0, len(living), _PIECE):
            numbers = living[start : start + _PIECE]
            exact.add(self.base.rows(numbers), numbers)
        return exact.found()
