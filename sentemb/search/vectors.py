"""The faiss side: one wrapper around an index with 64-bit numbers, and how hard it looks."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sentemb.encoding.encoder import Vectors, normalised
from sentemb.errors import InputError
from sentemb.search.codes import Codes, CodesPlan
from sentemb.search.plan import Kind, Metric

Numbers = NDArray[np.int64]

# faiss's type stubs lack half of what is used here.
faiss: Any = import_module("faiss")

# Candidates of the 4-bit codes that are ranked again, as a multiple of k.
CANDIDATES = 24
# The same where their texts are encoded for the ranking that counts.
_RESCORED = 10
# The same in indexes of earlier versions.
_RERANKED = 8
# Points for k-means: faiss draws no more than 256 for each list by itself; 64 give the same recall sooner.
_TRAINING_POINTS = 64
_FEWEST_TRAINING_POINTS = 20_000


def training_points(count: int, lists: int) -> int:
    """How many of `count` vectors the training of so many lists wants to see."""
    return min(count, max(_TRAINING_POINTS * lists, _FEWEST_TRAINING_POINTS))


class VectorIndex:
    """Vectors by number."""

    def __init__(self, index: Any, kind: Kind, effort: int = 0, texts: int = 0) -> None:
        self._index = index
        self._places: Numbers | None = None
        self._whole = False  # has all numbers from 0 on, as a file does
        self.kind = kind
        self.effort = effort
        self.texts = texts  # that are encoded again for 10 hits

    @classmethod
    def empty(cls, factory: str, kind: Kind, dimension: int) -> VectorIndex:
        """Make an index without vectors; similarities are inner products."""
        if plan := CodesPlan.read(factory):
            return cls(Codes.empty(plan, dimension), kind)
        return cls(
            faiss.IndexIDMap(faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)), kind
        )

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._index.d)

    def training_size(self, count: int) -> int:
        """How many of `count` vectors `train` wants to see."""
        if self.kind != "ivfpq":
            return 0
        return training_points(count, int(_ivf(self._index).nlist))

    def train(self, sample: Vectors) -> None:
        """Learn the centroids and codes from a sample, (n, dim)."""
        self._index.train(sample)

    def add(self, vectors: Vectors, numbers: Numbers) -> None:
        """Add vectors (n, dim) under their numbers (n,)."""
        self._index.add_with_ids(vectors, numbers)

    def efforts(self) -> list[int]:
        """The efforts worth trying, rising."""
        if self.kind == "hnsw":
            return [32, 64, 128, 256, 512]
        if self.kind == "ivfpq":
            lists = int(_ivf(self._index).nlist)
            return [*(2**power for power in range(2, (lists - 1).bit_length())), lists]
        return [0]

    def search(self, queries: Vectors, k: int, *, harder: int = 1) -> tuple[Vectors, Numbers]:
        """The nearest vectors of each query, with so many times the effort."""
        most = _ivf(self._index).nlist if self.kind == "ivfpq" else len(self)
        effort = harder * self.effort
        while True:
            scores, numbers = self._search(queries, k, effort)
            if self._whole and (numbers >= len(self)).any():
                raise InputError(
                    "the vector file contains rows that do not belong to a text", "build the index again"
                )
            if (numbers >= 0).all() or effort >= most:
                return scores, numbers
            effort = min(most, 4 * effort)

    def _search(self, queries: Vectors, k: int, effort: int) -> tuple[Vectors, Numbers]:
        if isinstance(self._index, Codes):
            many = _RESCORED if self.texts else CANDIDATES
            found = self._index.search(queries, k, min(len(self), many * k), effort)
        else:
            found = self._index.search(queries, k, params=self._parameters(effort))
        return found

    @property
    def keeps_vectors(self) -> bool:
        """False for an IVF-PQ index of an earlier version without re-ranking codes."""
        if self.kind != "ivfpq" or isinstance(self._index, Codes):
            return True
        return isinstance(faiss.downcast_index(self._index.index), faiss.IndexRefine)

    @property
    def lists(self) -> int:
        """The lists of codes that can be kept when vectors go and come; 0 where there are none."""
        return int(self._index.lists.nlist) if isinstance(self._index, Codes) else 0

    def kept(self, numbers: Numbers, places: Numbers) -> VectorIndex:
        """A copy with nothing but some vectors, under other numbers, and with the codes that they have."""
        return VectorIndex(self._index.kept(numbers, places), self.kind, self.effort, self.texts)

    def rows(self, numbers: Numbers) -> Vectors:
        """The vectors (n, dim) of some numbers, which count from 0; those of IVF-PQ are rounded."""
        if isinstance(self._index, Codes):
            return self._index.reconstruct_batch(numbers)
        if self._places is None:
            self._places = np.argsort(faiss.vector_to_array(self._index.id_map))
        found: Vectors = faiss.downcast_index(self._index.index).reconstruct_batch(self._places[numbers])
        return found

    def scan(self, queries: Vectors, k: int, alive: NDArray[np.bool_]) -> tuple[Vectors, Numbers]:
        """The exact nearest of the vectors that are alive, of a flat or HNSW index; there are k of them."""
        inner = faiss.downcast_index(self._index.index)
        numbers = faiss.vector_to_array(self._index.id_map)
        chosen = faiss.IDSelectorBitmap(np.packbits(alive[numbers], bitorder="little"))
        flat = faiss.downcast_index(inner.storage) if self.kind == "hnsw" else inner
        scores, places = flat.search(queries, k, params=faiss.SearchParameters(sel=chosen))
        return scores, numbers[places]

    def _parameters(self, effort: int) -> Any:
        # Parameters go with the call rather than into the index, which other threads are searching.
        if self.kind == "hnsw":
            return faiss.SearchParametersHNSW(efSearch=effort)
        if self.kind == "ivfpq":
            probes = faiss.SearchParametersIVF(nprobe=effort)
            if isinstance(faiss.downcast_index(self._index.index), faiss.IndexRefine):
                return faiss.IndexRefineSearchParameters(k_factor=_RERANKED, base_index_params=probes)
            return probes
        return None

    def write(self, path: Path) -> None:
        """Write the index to a new file."""
        index, parts = self._index.whole() if isinstance(self._index, Codes) else (self._index, [])
        with path.open("wb") as file:
            faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))
        del parts  # which faiss points to

    @classmethod
    def read(cls, path: Path, kind: Kind, effort: int, texts: int = 0) -> VectorIndex:
        """Map a file that `write` made into memory; pages are read when a search needs them."""
        try:
            index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            raise InputError(f"{path} cannot be read as a faiss index", "build the index again") from error
        found = Codes.of(index) or index
        if not _is_kind(found, kind):
            raise InputError(
                f"{path} is not the {kind} index that the manifest describes", "build the index again"
            )
        read = cls(found, kind, effort, texts)
        read._whole = True
        return read


def comparable(vectors: Vectors, metric: Metric) -> Vectors:
    """Vectors (n, dim) whose inner products are the metric's scores."""
    return normalised(vectors) if metric == "cosine" else np.ascontiguousarray(vectors)


def _is_kind(index: Any, kind: Kind) -> bool:
    """Return whether a faiss index is what `VectorIndex` makes of a kind, also in earlier versions."""
    if isinstance(index, Codes):
        return kind == "ivfpq"
    if not isinstance(index, faiss.IndexIDMap):
        return False
    inner = faiss.downcast_index(index.index)
    if kind == "ivfpq":
        return faiss.try_extract_index_ivf(inner) is not None
    return isinstance(inner, faiss.IndexFlat if kind == "flat" else faiss.IndexHNSW)


def _ivf(index: Any) -> Any:
    return index.lists if isinstance(index, Codes) else faiss.extract_index_ivf(index)
