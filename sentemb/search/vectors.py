"""The faiss side of an index: vectors by number, and how hard a search looks."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sentemb.encoding.encoder import Vectors, normalised
from sentemb.errors import InputError
from sentemb.search.plan import Kind, Metric

Numbers = NDArray[np.int64]

# faiss's type stubs lack half of what is used here.
faiss: Any = import_module("faiss")

# Points for k-means: faiss draws no more than 256 for each list by itself; 64 give the same recall sooner.
_TRAINING_POINTS = 64
_FEWEST_TRAINING_POINTS = 20_000
# Among few vectors a graph loses many and takes longer than comparing with each. Of 60,000 vectors of 384
# dimensions on one core, comparing with 18,000 took 7 ms; a graph took 12 to find .6 among 6,000.
_EXACT = 8_000_000  # vectors times dimensions
_GATHERED = 2_048  # vectors that are copied to compare with them; among more, the others are skipped
_HINT = "run `sentemb index compact`"


def training_points(count: int, lists: int) -> int:
    """Return how many of `count` vectors the training of so many lists wants to see."""
    return min(count, max(_TRAINING_POINTS * lists, _FEWEST_TRAINING_POINTS))


class VectorIndex:
    """A faiss index whose vectors are counted from 0, with the number that each has in the database.

    Args:
        mapped: faiss's `IndexIDMap`, whose ids are these numbers.
        kind: The kind of the index in it.
        effort: `efSearch` or `nprobe`.
    """

    def __init__(self, mapped: Any, kind: Kind, effort: int = 0) -> None:
        self._mapped = mapped
        self._index = faiss.downcast_index(mapped.index)
        self.kind = kind
        self.effort = effort

    @classmethod
    def empty(cls, factory: str, kind: Kind, dimension: int) -> VectorIndex:
        """Make an index without vectors; similarities are inner products."""
        try:
            index = faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)
        except RuntimeError as error:
            reason = str(error).rsplit(":", 1)[-1].strip()
            raise InputError(
                f"faiss cannot make the factory {factory} for {dimension} dimensions: {reason}",
                "see faiss's description of its index factory",
            ) from None
        codes = faiss.try_extract_index_ivf(index) is not None and not isinstance(index, faiss.IndexRefine)
        if kind == "ivfpq" and not codes:
            raise InputError(
                f"the factory {factory} is not supported",
                "use Flat, HNSW32 or an IVF index, such as IVF4096,SQ8",
            )
        return cls(faiss.IndexIDMap(index), kind)

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._index.d)

    @property
    def keeps_vectors(self) -> bool:
        """Whether it has the vectors themselves, and not codes."""
        return self.kind != "ivfpq"

    def training_size(self, count: int) -> int:
        """Return how many of `count` vectors `train` wants to see."""
        if self._index.is_trained:
            return 0
        ivf = faiss.try_extract_index_ivf(self._index)
        return training_points(count, int(ivf.nlist) if ivf is not None else 0)

    def train(self, sample: Vectors) -> None:
        """Learn the centroids and codes from a sample, (n, dim)."""
        try:
            self._mapped.train(sample)
        except RuntimeError as error:
            reason = str(error).rsplit(":", 1)[-1].strip()
            raise InputError(
                f"faiss cannot train the index on {len(sample):,} vectors: {reason}", "use fewer lists"
            ) from None

    def add(self, vectors: Vectors, numbers: Numbers) -> None:
        """Add vectors (n, dim) under their numbers (n,)."""
        self._mapped.add_with_ids(vectors, numbers)

    def efforts(self) -> list[int]:
        """Return the efforts worth trying, rising."""
        if self.kind == "hnsw":
            return [32, 64, 128, 256, 512]
        lists = self._lists
        return [*(2**power for power in range(2, (lists - 1).bit_length())), lists] if lists else [0]

    def search(
        self, queries: Vectors, k: int, alive: NDArray[np.bool_] | None = None, living: int | None = None
    ) -> tuple[Vectors, Numbers]:
        """Find the nearest vectors of each query.

        Args:
            queries: (q, dim).
            k: How many; at most so many as are alive.
            alive: Which vectors may be found, by their places, (n,); None for all.
            living: How many these are.

        Returns:
            Scores and places, (q, k) each, best first.
        """
        if alive is None or living is None or living == len(self):
            alive, living = None, len(self)
        elif self.keeps_vectors and living * self.dimension <= _EXACT:
            return self._scan(queries, k, np.flatnonzero(alive))
        packed = None if alive is None else np.packbits(alive, bitorder="little")
        chosen = None if packed is None else faiss.IDSelectorBitmap(packed)
        # What is alive lies farther apart, so that a search must look farther for it.
        effort = -(-self.effort * len(self) // max(1, living))
        most = self._lists or len(self)
        while True:
            parameters = self._parameters(
                min(most, max(effort, k)) if self.kind == "hnsw" else effort, chosen
            )
            scores, places = self._index.search(queries, k, params=parameters)
            if (places >= 0).all() or effort >= most:
                break
            effort = min(most, 4 * max(1, effort))
        if self.keeps_vectors and (places < 0).any():  # parts of a graph can be out of reach
            every = np.arange(len(self)) if alive is None else np.flatnonzero(alive)
            return self._scan(queries, k, every)
        return scores, places

    @cached_property
    def numbers(self) -> Numbers:
        """The numbers of the vectors, (n,), once all of them are there."""
        numbers: Numbers = faiss.vector_to_array(self._mapped.id_map)
        return numbers

    @cached_property
    def last(self) -> int:
        """The largest number; -1 without any."""
        return int(self.numbers.max(initial=-1))

    def places(self, numbers: Numbers) -> Numbers:
        """Return the places of vectors by their numbers, which are here."""
        found: Numbers = self._order[np.searchsorted(self.numbers, numbers, sorter=self._order)]
        return found

    @cached_property
    def _order(self) -> Numbers:
        return np.argsort(self.numbers, kind="stable")

    def rows(self, places: Numbers) -> Vectors:
        """Return the vectors (n, dim) at some places; those of codes are rounded."""
        if not len(places):
            return np.empty((0, self.dimension), dtype=np.float32)
        rows: Vectors = self._index.reconstruct_batch(places)
        return rows

    def _scan(self, queries: Vectors, k: int, places: Numbers) -> tuple[Vectors, Numbers]:
        """Find the exact nearest among the vectors at some places."""
        if len(places) > _GATHERED:
            alive = np.zeros(len(self), dtype=np.bool_)
            alive[places] = True
            chosen = faiss.IDSelectorBitmap(np.packbits(alive, bitorder="little"))
            flat = faiss.downcast_index(self._index.storage) if self.kind == "hnsw" else self._index
            scores, found = flat.search(queries, k, params=faiss.SearchParameters(sel=chosen))
            return scores, found
        scores, found = faiss.knn(queries, self.rows(places), k, metric=faiss.METRIC_INNER_PRODUCT)
        return scores, places[found]

    @property
    def _lists(self) -> int:
        ivf = faiss.try_extract_index_ivf(self._index)
        return 0 if ivf is None else int(ivf.nlist)

    def _parameters(self, effort: int, chosen: Any) -> Any:
        # Parameters go with the call rather than into the index, which other threads are searching.
        if self.kind == "hnsw":
            return faiss.SearchParametersHNSW(efSearch=effort, sel=chosen)
        if self._lists:
            parameters = faiss.SearchParametersIVF(nprobe=effort, sel=chosen)
            if isinstance(faiss.downcast_index(self._index), faiss.IndexPreTransform):
                return faiss.SearchParametersPreTransform(index_params=parameters)
            return parameters
        return None if chosen is None else faiss.SearchParameters(sel=chosen)

    def write(self, path: Path) -> None:
        """Write the index to a new file."""
        with path.open("wb") as file:
            faiss.write_index(self._mapped, faiss.PyCallbackIOWriter(file.write))

    @classmethod
    def read(cls, path: Path, kind: Kind, effort: int) -> VectorIndex:
        """Map a file that `write` made into memory; pages are read when a search needs them."""
        try:
            mapped = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            raise InputError(f"{path} cannot be read as a faiss index", _HINT) from error
        if not isinstance(mapped, faiss.IndexIDMap):
            raise InputError(f"{path} is not the vector index of a folder", _HINT)
        read = cls(mapped, kind, effort)
        fits = {"flat": faiss.IndexFlat, "hnsw": faiss.IndexHNSW}.get(kind)
        if fits is not None and not isinstance(read._index, fits):
            raise InputError(f"{path} is not a {kind} index", _HINT)
        return read


def normalize_for(metric: Metric, vectors: Vectors) -> Vectors:
    """Return vectors (n, dim) whose inner products are the metric's scores."""
    return normalised(vectors) if metric == "cosine" else np.ascontiguousarray(vectors, dtype=np.float32)


def exact_scores(query: Vectors, rows: Vectors) -> Vectors:
    """Return the inner products of a query (dim,) with rows (n, dim): equal rows have equal scores."""
    # Not `@`: its sums, and so their last bits, depend on the place of a row.
    scores: Vectors = np.einsum("ij,j->i", rows, query)
    return scores
