"""Vectors in half a byte a dimension: 4-bit codes that are scanned, and codes of what those leave over.

Vectors are turned onto the principal axes of a sample, so that codes can spend their bits by the variance of
an axis. Lists of 4-bit product codes (Jégou et al., 2011; André et al., 2017) give the candidates of a query;
8-bit product codes of the rest, vector minus 4-bit code, rank them. Both add up to one vector, so that no bit
says the same twice, as re-ranking codes of whole vectors do. An error along an axis counts as much as the
queries vary there, which is as much as the vectors do: the rest is scaled by an axis's deviation before it is
coded. Rounded vectors are too short, each by another share; one byte of the fine code keeps the factor that
makes them as long as they were. The last two each find up to a hundredth more in the same bytes.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sentemb._threads import one_blas_thread
from sentemb.encoding.encoder import Vectors

Numbers = NDArray[np.int64]

# faiss's type stubs lack half of what is used here.
faiss: Any = import_module("faiss")

_FINE_BITS = 8
# Variances below this share of the largest are rounding.
_SMALLEST = 1e-7
# Points for a codebook's centroid, and rounds: more of either find no neighbour more.
_POINTS, _ROUNDS = 64, 10
FINE_POINTS = _POINTS * 2**_FINE_BITS
"""Points of the sample from which the fine codes are learnt, at most."""
LISTS_ROUNDS = 10
"""Rounds of k-means in which faiss finds the lists."""
# Vectors whose rests say how to code those of all.
_FINE_SAMPLE = 65_536
# Floats of decoded candidates at a time: a few of a batch's queries, which fit a cache.
_DECODED = 2**20
# Where faiss puts the vectors of a block of 32: two share a byte, 16 apart.
_BLOCK = 32
_PLACES = np.array([0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15])


class CodesPlan(NamedTuple):
    """The parameters of such an index: lists, parts of the 4-bit code, and bytes of the fine code."""

    lists: int
    coarse: int
    fine: int

    @classmethod
    def read(cls, factory: str) -> CodesPlan | None:
        """Read its description; None for that of another index."""
        match = re.fullmatch(r"IVF(\d+),PQ(\d+)x4fs,Rest\(PQ(\d+)x8\)", factory)
        return None if match is None else cls(*map(int, match.groups()))

    def factory(self) -> str:
        """Its description, in faiss's way."""
        return f"IVF{self.lists},PQ{self.coarse}x4fs,Rest(PQ{self.fine}x8)"

    def bytes(self, count: int, dimension: int) -> int:
        """Bytes that it takes for vectors of some length."""
        wide, fine = self.widths(dimension)
        # Codes lie in blocks of 32 vectors, so the last block of each list is half empty on average.
        codes = (count + _BLOCK // 2 * self.lists) * (self.coarse + self.coarse % 2) // 2
        tables = self.lists * wide + 16 * wide + 2**_FINE_BITS * fine + wide * dimension
        return int(codes + count * (self.fine + 8) + 4 * tables)

    def widths(self, dimension: int) -> tuple[int, int]:
        """Length of what the 4-bit codes and the fine codes see: parts of equal length, the last a factor."""
        return -(-dimension // self.coarse) * self.coarse, -(-dimension // (self.fine - 1)) * self.fine


class Codes:
    """Vectors by numbers from 0 on, rounded."""

    def __init__(self, turn: Any, lists: Any, spread: Any, fine: Any, codes: NDArray[np.uint8]) -> None:
        self._turn, self.lists, self._spread, self._fine, self._codes = turn, lists, spread, fine, codes
        self._owner: Any = None  # of the memory behind all of these, for a file
        self._places: tuple[Numbers, Numbers] | None = None
        self._read_tables()

    @classmethod
    def empty(cls, plan: CodesPlan, dimension: int) -> Codes:
        """Make an index that is not trained."""
        wide, fine = plan.widths(dimension)
        lists = faiss.index_factory(wide, f"IVF{plan.lists},PQ{plan.coarse}x4fs", faiss.METRIC_INNER_PRODUCT)
        return cls(
            faiss.PCAMatrix(dimension, wide),
            lists,
            faiss.RemapDimensionsTransform(wide, fine, False),
            faiss.ProductQuantizer(fine, plan.fine, _FINE_BITS),
            np.empty((0, plan.fine), dtype=np.uint8),
        )

    @classmethod
    def of(cls, index: Any) -> Codes | None:
        """Unwrap what `whole` made and faiss has read; None for another index."""
        outer = faiss.downcast_index(index)
        if not isinstance(outer, faiss.IndexPreTransform):
            return None
        both = faiss.downcast_index(outer.index)
        spread = faiss.downcast_index(both.refine_index)
        fine = faiss.downcast_index(spread.index)
        codes = faiss.rev_swig_ptr(fine.codes.data(), fine.ntotal * fine.pq.code_size)
        made = cls(
            faiss.downcast_VectorTransform(outer.chain.at(0)),
            faiss.downcast_index(both.base_index),
            faiss.downcast_VectorTransform(spread.chain.at(0)),
            fine.pq,
            codes.reshape(-1, fine.pq.code_size),
        )
        made._owner = index
        return made

    def whole(self) -> tuple[Any, list[Any]]:
        """One faiss index that holds everything, for its file; and what must live as long as it."""
        fine = faiss.IndexPQ(self._fine.d, self._fine.M, _FINE_BITS, faiss.METRIC_INNER_PRODUCT)
        fine.pq, fine.is_trained = self._fine, True
        codes = np.ascontiguousarray(self._codes[: self.ntotal])
        fine.add_sa_codes(codes)
        spread = faiss.IndexPreTransform(self._spread, fine)
        both = faiss.IndexRefine(self.lists, spread)
        index = faiss.IndexPreTransform(self._turn, both)
        return index, [fine, spread, both]

    @property
    def ntotal(self) -> int:
        """How many vectors there are."""
        return int(self.lists.ntotal)

    @property
    def d(self) -> int:
        """Length of a vector."""
        return int(self._turn.d_in)

    def train(self, sample: Vectors) -> None:
        """Learn axes, lists and codes from a sample, (n, dim)."""
        with one_blas_thread():
            variances, axes = np.linalg.eigh(_moments(sample) / len(sample))
        variances = np.maximum(variances, _SMALLEST * variances[-1])
        wide = self._turn.d_out
        order = _even(variances, wide, self.lists.pq.M, bits=4)
        _set_axes(self._turn, axes.T[order] * (order >= 0)[:, None], variances[order] * (order >= 0))
        turned = self._turned(sample)
        self.lists.train(turned)
        turned = np.ascontiguousarray(turned[:: -(-len(turned) // _FINE_SAMPLE)])
        rest = turned - _decoded(self.lists.pq, turned)
        weights = faiss.vector_to_array(self._turn.eigenvalues)
        last, length = self._fine.M - 1, self._fine.dsub
        spread = _even((rest**2).mean(axis=0) * weights, last * length, last, bits=_FINE_BITS)
        faiss.copy_array_to_vector(np.append(spread, [-1] * length).astype(np.int32), self._spread.map)
        self._read_tables()
        settings = self._fine.cp
        settings.max_points_per_centroid, settings.niter, settings.min_points_per_centroid = (
            _POINTS,
            _ROUNDS,
            1,
        )
        self._fine.train(self._spread.apply(rest) * self._scale)
        codes = self._fine.compute_codes(self._spread.apply(rest) * self._scale)
        factors = _lengths(turned) / _lengths(self._rounded(turned - rest, codes))
        table = np.zeros((2**_FINE_BITS, length), dtype=np.float32)
        table[:, 0] = np.quantile(factors, (np.arange(len(table)) + 0.5) / len(table))
        centroids = faiss.vector_to_array(self._fine.centroids).reshape(last + 1, *table.shape)
        centroids[last] = table
        faiss.copy_array_to_vector(centroids.ravel(), self._fine.centroids)
        self._read_tables()

    def add_with_ids(self, vectors: Vectors, numbers: Numbers) -> None:
        """Add vectors (n, dim) under their numbers (n,); in the end there is one for each from 0 on."""
        turned = self._turned(vectors)
        self.lists.add_with_ids(turned, numbers)
        rest = turned - _decoded(self.lists.pq, turned)
        codes = self._fine.compute_codes(self._spread.apply(rest) * self._scale)
        factors = _lengths(turned) / _lengths(self._rounded(turned - rest, codes))
        codes[:, -1] = np.abs(factors[:, None] - self._factors).argmin(axis=1)
        if len(numbers) and numbers.max() >= len(self._codes):
            more = np.empty((max(int(numbers.max()) + 1, 2 * len(self._codes)), codes.shape[1]), np.uint8)
            more[: len(self._codes)] = self._codes
            self._codes = more
        self._codes[numbers] = codes
        self._places = None

    def search(self, queries: Vectors, k: int, candidates: int, probes: int) -> tuple[Vectors, Numbers]:
        """The nearest of so many candidates from the lists nearest to each query; -1 where there are less."""
        turned = self._turned(queries)
        parameters = faiss.SearchParametersIVF(nprobe=probes)
        scores, numbers = self.lists.search(turned, candidates, params=parameters)
        scores[numbers < 0] = -np.inf
        wanted = self._spread.apply(turned) / self._scale
        step = max(1, _DECODED // (candidates * self._fine.d))
        for start in range(0, len(queries), step):
            some = slice(start, start + step)
            codes = self._codes[numbers[some].ravel()]
            rest = self._fine.decode(codes).reshape(-1, candidates, self._fine.d)
            scores[some] += np.matmul(rest, wanted[some, :, None])[:, :, 0]
            scores[some] *= self._factors[codes[:, -1]].reshape(-1, candidates)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(scores, best, 1), np.take_along_axis(numbers, best, 1)

    def reconstruct_batch(self, numbers: Numbers) -> Vectors:
        """The rounded vectors (n, dim) of some numbers."""
        if self._places is None:
            self._places = self._find_places()
        lists, offsets = (place[numbers] for place in self._places)
        codes = np.empty((len(numbers), self.lists.pq.code_size), dtype=np.uint8)
        order = np.argsort(lists, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(lists[order])) + 1):
            if len(rows):
                codes[rows] = self._coarse_codes(int(lists[rows[0]]), offsets[rows])
        fine = np.ascontiguousarray(self._codes[numbers])
        turned = self._rounded(self.lists.pq.decode(codes), fine)
        found: Vectors = (turned @ self._axes) * self._factors[fine[:, -1], None]
        return found

    def kept(self, numbers: Numbers, places: Numbers) -> Codes:
        """A copy with nothing but some vectors, under other numbers; every code stays what it is."""
        lists = faiss.deserialize_index(faiss.serialize_index(self.lists))
        gone = np.ones(self.ntotal, dtype=np.bool_)
        gone[numbers] = False
        lists.remove_ids(faiss.IDSelectorBitmap(np.packbits(gone, bitorder="little")))
        renumbered = np.full(self.ntotal, -1, dtype=np.int64)
        renumbered[numbers] = places
        for number in range(lists.nlist):
            if size := lists.invlists.list_size(number):
                ids = faiss.rev_swig_ptr(lists.invlists.get_ids(number), size)
                ids[:] = renumbered[ids]
                # faiss leaves what was removed in the last block, and adds by "or".
                filled = np.where(size % _BLOCK > _PLACES, 15, 0) | np.where(
                    size % _BLOCK > _PLACES + 16, 240, 0
                )
                if size % _BLOCK:
                    _blocks(lists, number)[-1] &= filled.astype(np.uint8)
        codes = np.empty((int(places.max(initial=-1)) + 1, self._codes.shape[1]), dtype=np.uint8)
        codes[places] = self._codes[numbers]
        made = Codes(self._turn, lists, self._spread, self._fine, codes)
        made._owner = self
        return made

    def _turned(self, vectors: Vectors) -> Vectors:
        turned: Vectors = self._turn.apply(np.ascontiguousarray(vectors, dtype=np.float32))
        return turned

    def _rounded(self, coarse: Vectors, codes: NDArray[np.uint8]) -> Vectors:
        """What both codes say of turned vectors."""
        rest, seen = self._fine.decode(codes) / self._scale, self._map >= 0
        both: Vectors = coarse.copy()
        both[:, self._map[seen]] += rest[:, seen]
        return both

    def _read_tables(self) -> None:
        if not self._turn.is_trained:
            return
        self._axes = faiss.vector_to_array(self._turn.A).reshape(self._turn.d_out, self._turn.d_in)
        self._map = faiss.vector_to_array(self._spread.map)
        weights = faiss.vector_to_array(self._turn.eigenvalues)[self._map]
        tables = faiss.vector_to_array(self._fine.centroids).reshape(self._fine.M, -1, self._fine.dsub)
        self._factors = tables[-1, :, 0]
        self._scale = np.sqrt(np.where((self._map >= 0) & (weights > 0), weights, 1)).astype(np.float32)

    def _find_places(self) -> tuple[Numbers, Numbers]:
        """The list of each number and its place there."""
        lists, offsets = np.empty((2, self.ntotal), dtype=np.int64)
        for number in range(self.lists.nlist):
            if size := self.lists.invlists.list_size(number):
                ids = faiss.rev_swig_ptr(self.lists.invlists.get_ids(number), size)
                lists[ids], offsets[ids] = number, np.arange(size)
        return lists, offsets

    def _coarse_codes(self, number: int, offsets: Numbers) -> NDArray[np.uint8]:
        """The 4-bit codes at some places of a list, two in a byte as `pq.decode` reads them."""
        block, place = np.divmod(offsets, _BLOCK)
        high = place >= 16
        pairs = _blocks(self.lists, number)[block, :, :, np.argsort(_PLACES)[place % 16]]  # (n, parts / 2, 2)
        codes = np.where(high[:, None, None], pairs >> 4, pairs & 15)
        packed: NDArray[np.uint8] = codes[:, :, 0] | codes[:, :, 1] << 4
        return packed[:, : self.lists.pq.code_size]


def _blocks(lists: Any, number: int) -> NDArray[np.uint8]:
    """The 4-bit codes of a list, (blocks, pairs of parts, 2, 16), in faiss's own memory."""
    blocks, pairs = -(-lists.invlists.list_size(number) // _BLOCK), lists.M2 // 2
    raw = faiss.rev_swig_ptr(lists.invlists.get_codes(number), blocks * pairs * _BLOCK)
    shaped: NDArray[np.uint8] = raw.reshape(blocks, pairs, 2, _BLOCK // 2)
    return shaped


def _moments(vectors: Vectors) -> NDArray[np.float64]:
    """The products of every two dimensions, summed over vectors."""
    pieces = (vectors[start : start + _FINE_SAMPLE] for start in range(0, len(vectors), _FINE_SAMPLE))
    moments: NDArray[np.float64] = sum(piece.T.astype(np.float64) @ piece for piece in pieces)  # type: ignore[assignment]
    return moments


def _decoded(pq: Any, vectors: Vectors) -> Vectors:
    """What product codes make of vectors."""
    rounded: Vectors = pq.decode(pq.compute_codes(vectors))
    return rounded


def _lengths(vectors: Vectors) -> Vectors:
    lengths: Vectors = np.maximum(np.linalg.norm(vectors, axis=1), np.float32(1e-12))
    return lengths


def _set_axes(turn: Any, axes: NDArray[np.float64], variances: NDArray[np.float64]) -> None:
    faiss.copy_array_to_vector(np.ascontiguousarray(axes, dtype=np.float32).ravel(), turn.A)
    faiss.copy_array_to_vector(variances.astype(np.float32), turn.eigenvalues)
    turn.have_bias, turn.is_trained = False, True


def _even(variances: NDArray[np.float64], width: int, parts: int, *, bits: int) -> Numbers:
    """An order of axes, padded with -1, whose parts of equal length need about equally many bits.

    An axis needs bits for as far as it rises above the level that the best codes of so many bits leave
    everywhere ("reverse water-filling", Cover and Thomas, 2006, theorem 10.3.3).
    """
    low, high = variances.max() * 1e-15, variances.max()
    for _ in range(100):
        level = np.sqrt(low * high)
        needed = np.log2(np.maximum(variances / level, 1)).sum() / 2
        low, high = (level, high) if needed > parts * bits else (low, level)
    needs = np.log2(np.maximum(variances / level, 1))
    room = width // parts
    groups: list[list[int]] = [[] for _ in range(parts)]
    taken = np.zeros(parts)
    for axis in np.argsort(-needs, kind="stable")[: np.count_nonzero(variances)]:
        part = int(np.argmin(taken))
        groups[part].append(int(axis))
        taken[part] = taken[part] + needs[axis] if len(groups[part]) < room else np.inf
    return np.array([axis for group in groups for axis in (*group, *[-1] * (room - len(group)))])
