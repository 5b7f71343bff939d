"""The faiss side of an index: vectors by number, how hard a search looks, and exact scores."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sentemb.encoding.encoder import BAGS, Vectors
from sentemb.errors import InputError
from sentemb.search.documents import Numbers, Progress, documents_of
from sentemb.search.manifest import Recall
from sentemb.search.plan import IndexPlan, Kind
from sentemb.search.store import Ranked

# faiss's type stubs lack half of what is used here.
faiss: Any = import_module("faiss")

Rescore = Literal["auto", "texts", "never"]
"""Whether an index of codes keeps no vectors and encodes the texts of candidates again; `auto` does so where
the encoder looks its tokens up, some ten thousand texts a second."""
Rows = Callable[[Numbers], Vectors]
"""Returns the exact vectors (n, dim) at rising places or numbers, as they are compared."""

K = 10
TARGET = 0.98
"""The recall that an approximate index is tuned to, of the K nearest."""
STEPS = (25, 50, 100, 200, 400)
"""Candidates of codes that are ranked for 10 hits; the fewest that reach the recall are taken."""
BLOCK = 8_192
"""Vectors that are read at a time."""
# What the candidates leave to the lists that a search looks into; and what an effort may lose to the largest.
_CANDIDATES_TARGET, _LOST = 0.99, 0.002
# Hits by the thousand, as hybrid search takes, are worth no more candidates than hits.
_MOST_CANDIDATES = 1_000
_ROWS = 4_096  # candidates that are ranked at a time
_QUERIES, _FEWEST_QUERIES = 2_000, 20
# Each is compared with every vector, several times over. 200 tell recall to half a hundredth.
_COMPARISONS, _ENOUGH = 2_000_000_000, 200
# Points for k-means: faiss draws no more than 256 for each list by itself; 64 give the same recall sooner.
_TRAINING_POINTS, _FEWEST_TRAINING_POINTS = 64, 20_000
# Among few vectors a graph loses many and takes longer than comparing with each. Of 60,000 vectors of 384
# dimensions on one core, comparing with 18,000 took 7 ms; a graph took 12 to find .6 among 6,000.
_EXACT = 8_000_000  # vectors times dimensions
_SPARE = 8  # further vectors that a search looks at, to see whether equal scores follow the last
_EQUAL, MOST_EQUAL = 2e-6, 4_096  # how equal, and how many an approximate search looks for
_GATHERED = 2_048  # vectors that are copied to compare with them; among more, the others are skipped
_HINT = "run `sentemb index compact`"


class Alive:
    """Which vectors of an index a search may find: a mask (n,) by their places."""

    def __init__(self, mask: NDArray[np.bool_]) -> None:
        self.mask = mask
        self.places = np.flatnonzero(mask)
        self._bits = np.packbits(mask, bitorder="little")
        self.selector = faiss.IDSelectorBitmap(self._bits)


class VectorIndex:
    """A faiss index whose vectors are counted from 0, with the number that each has in the database.

    `mapped` is faiss's `IndexIDMap`, whose ids are these numbers, and `effort` is `efSearch` or `nprobe`.
    """

    def __init__(self, mapped: Any, kind: Kind, effort: int = 0) -> None:
        self._mapped = mapped
        self._index = faiss.downcast_index(mapped.index)
        self.kind = kind
        self.effort = effort
        ivf = faiss.try_extract_index_ivf(self._index)
        self._lists = 0 if ivf is None else int(ivf.nlist)
        self.dimension = int(mapped.d)
        self._of_effort: dict[int, Any] = {}  # parameters of searches among all vectors
        self.keeps_vectors = kind != "ivfpq"
        """Whether it has the vectors themselves, and not codes."""

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
        is_ivf = faiss.try_extract_index_ivf(index) is not None and not isinstance(index, faiss.IndexRefine)
        if kind == "ivfpq" and not is_ivf:
            raise InputError(
                f"the factory {factory} is not supported",
                "use Flat, HNSW32 or an IVF index, such as IVF4096,SQ8",
            )
        return cls(faiss.IndexIDMap(index), kind)

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
        if (fits is not None and not isinstance(read._index, fits)) or len(read.numbers) != len(read):
            raise InputError(f"{path} is not a {kind} index", _HINT)
        return read

    def write(self, path: Path) -> None:
        """Write the index to a new file."""
        with path.open("wb") as file:
            faiss.write_index(self._mapped, faiss.PyCallbackIOWriter(file.write))

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def training_size(self, count: int) -> int:
        """Return how many of `count` vectors `train` needs."""
        return 0 if self._index.is_trained else training_points(count, self._lists)

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
        if not self._lists:
            return [0]
        return [*(2**power for power in range(2, (self._lists - 1).bit_length())), self._lists]

    def search(self, queries: Vectors, k: int, alive: Alive | None = None) -> Numbers:
        """Return the places (q, k) of the nearest vectors of queries (q, dim), best first, of those alive."""
        total = len(self)
        living = total if alive is None else len(alive.places)
        if living == total:
            alive = None
        elif self.keeps_vectors and living * self.dimension <= _EXACT:
            return self._scan(queries, k, alive)
        # What is alive lies farther apart, so that a search must look farther for it.
        effort = -(-self.effort * total // max(1, living))
        most = self._lists or total
        while True:
            effort = max(effort, k) if self.kind == "hnsw" else effort
            parameters = self._parameters(min(most, effort), alive)
            places: Numbers = self._index.search(queries, k, params=parameters)[1]
            missing = bool((places < 0).any())
            if not missing or effort >= most:
                break
            effort = 4 * max(1, effort)
        # Parts of a graph can be out of reach.
        return self._scan(queries, k, alive) if missing and self.keeps_vectors else places

    @cached_property
    def numbers(self) -> Numbers:
        """The numbers of the vectors, (n,), once all of them are there."""
        numbers: Numbers = faiss.vector_to_array(self._mapped.id_map)
        return numbers

    @cached_property
    def last(self) -> int:
        """The largest number; -1 without any."""
        return int(self.numbers.max(initial=-1))

    @cached_property
    def owners(self) -> Numbers:
        """The documents of the vectors, (n,)."""
        return documents_of(self.numbers)

    def places(self, numbers: Numbers) -> Numbers:
        """Return the places of vectors by their numbers, which are here."""
        found: Numbers = self._order[np.searchsorted(self.numbers, numbers, sorter=self._order)]
        return found

    @cached_property
    def _order(self) -> Numbers:
        return np.argsort(self.numbers, kind="stable")

    @cached_property
    def vectors(self) -> Vectors:
        """All vectors, (n, dim), where it keeps them; a view of faiss's memory."""
        flat = self._flat
        return faiss.rev_swig_ptr(flat.get_xb(), flat.ntotal * self.dimension).reshape(-1, self.dimension)  # type: ignore[no-any-return]

    @cached_property
    def _flat(self) -> Any:
        return faiss.downcast_index(self._index.storage) if self.kind == "hnsw" else self._index

    def _scan(self, queries: Vectors, k: int, alive: Alive | None) -> Numbers:
        """Find the exact nearest."""
        places: Numbers
        if alive is None or len(alive.places) > _GATHERED:
            parameters = None if alive is None else faiss.SearchParameters(sel=alive.selector)
            places = self._flat.search(queries, k, params=parameters)[1]
            return places
        some = self.vectors[alive.places]
        places = alive.places[faiss.knn(queries, some, k, metric=faiss.METRIC_INNER_PRODUCT)[1]]
        return places

    def _parameters(self, effort: int, alive: Alive | None) -> Any:
        # Parameters go with the call rather than into the index, which other threads are searching.
        if alive is None and effort in self._of_effort:
            return self._of_effort[effort]
        selector = None if alive is None else alive.selector
        parameters: Any = None
        if self.kind == "hnsw":
            parameters = faiss.SearchParametersHNSW(efSearch=effort, sel=selector)
        elif self._lists:
            parameters = faiss.SearchParametersIVF(nprobe=effort, sel=selector)
            if isinstance(self._index, faiss.IndexPreTransform):
                parameters = faiss.SearchParametersPreTransform(index_params=parameters)
        elif selector is not None:
            parameters = faiss.SearchParameters(sel=selector)
        if alive is None:
            self._of_effort[effort] = parameters
        return parameters


def exact_neighbors(queries: Vectors, k: int, pieces: Iterable[tuple[Vectors, Numbers]]) -> Numbers:
    """Return the numbers of the nearest of some vectors, which come in pieces, as (q, k), best first."""
    heap = faiss.ResultHeap(len(queries), k, keep_max=True)
    for vectors, numbers in pieces:
        if len(vectors):
            size = min(k, len(vectors))
            scores, places = faiss.knn(queries, vectors, size, metric=faiss.METRIC_INNER_PRODUCT)
            heap.add_result(scores, numbers[places])
    heap.finalize()
    found: Numbers = heap.I
    return found


def build_vectors(
    plan: IndexPlan, dimension: int, chunks: Numbers, rows: Rows, progress: Progress
) -> tuple[VectorIndex, Recall, int]:
    """Build the vector index of some chunks, whose numbers rise; `rows` takes places among these.

    Returns the index, its recall, measured with vectors that it did not have yet, and the candidates to rank.
    """
    count = len(chunks)
    index = VectorIndex.empty(plan.factory, plan.kind, dimension)
    held = np.empty(0, dtype=np.int64) if plan.factory == "Flat" else hold_out(count)
    others = np.setdiff1d(np.arange(count), held, assume_unique=True)
    if size := index.training_size(len(others)):
        progress("train", 0, 1)
        index.train(rows(np.sort(np.random.default_rng(1).choice(others, size, replace=False))))
    progress("index", 0, count)

    def added() -> Iterator[tuple[Vectors, Numbers]]:
        for start in range(0, len(others), BLOCK):
            places = others[start : start + BLOCK]
            vectors = rows(places)
            index.add(vectors, chunks[places])
            progress("index", int(places[-1]) + 1, count)
            yield vectors, start + np.arange(len(places))

    queries = rows(held)
    exact = exact_neighbors(queries, K, added())
    if plan.factory == "Flat":
        return index, Recall(1.0, 0, 0, None), 0
    recall, rescored = Recall(None, 0, 0, None), 0 if index.keeps_vectors else STEPS[1]
    index.effort = index.efforts()[-1]
    if len(held):
        progress("tune", 0, 1)
        recall, rescored = tune(index, queries, exact, lambda places: rows(others[places]))
        index.add(queries, chunks[held])
    return index, recall, rescored


def training_points(count: int, lists: int) -> int:
    """Return how many of `count` vectors the training of so many lists takes."""
    return min(count, max(_TRAINING_POINTS * lists, _FEWEST_TRAINING_POINTS))


def held_out_count(count: int) -> int:
    """Return how many vectors are kept out of the index until its recall is measured."""
    size = min(_QUERIES, count // 10, max(_ENOUGH, _COMPARISONS // max(1, count)))
    return size if size >= _FEWEST_QUERIES else 0


def hold_out(count: int, *, seed: int = 0) -> Numbers:
    """Choose these vectors. Querying with vectors of the index itself would flatter it: each finds itself."""
    chosen = np.random.default_rng(seed).choice(count, held_out_count(count), replace=False)
    return np.sort(chosen).astype(np.int64)


def tune(index: VectorIndex, queries: Vectors, exact: Numbers, rows: Rows) -> tuple[Recall, int]:
    """Set the least effort that reaches the target recall on half of the queries; measure on the rest.

    Candidates that codes find are ranked by their exact vectors: the fewest that are enough.

    Args:
        index: The index, without the vectors of the queries.
        queries: (q, dim).
        exact: The places of the exact neighbors of each, (q, K).
        rows: Returns the exact vectors at some places.

    Returns:
        The recall, and how many candidates are ranked for 10 hits; 0 where faiss has the vectors.
    """
    efforts = index.efforts()
    index.effort = efforts[-1]
    candidates = 0
    if not index.keeps_vectors:
        found = index.search(queries[::2], min(STEPS[-1], len(index)))
        enough = (n for n in STEPS if recall_at_k(found[:, :n], exact[::2]) >= _CANDIDATES_TARGET)
        candidates = next(enough, STEPS[-1])
    count = min(max(K, candidates), len(index))
    shares: dict[int, float] = {}
    for effort in (efforts[-1], *efforts):
        index.effort = effort
        # Those of the nearest that are among the candidates are the first by their exact scores.
        shares[effort] = recall_at_k(index.search(queries[::2], count), exact[::2])
        if len(shares) > 1 and shares[effort] >= min(TARGET, shares[efforts[-1]] - _LOST):
            break
    started = time.perf_counter()
    found = index.search(queries[1::2], count)
    if candidates:
        found = rank(score_unique(queries[1::2], found, rows), found, K)[1]
    seconds = time.perf_counter() - started
    share = recall_at_k(found, exact[1::2])
    return Recall(share, len(found), len(queries) - len(found), len(found) / seconds), candidates


def recall_at_k(found: Numbers, exact: Numbers) -> float:
    """Return the share of the exact neighbors that was found, whatever their order."""
    hits = sum(len(np.intersect1d(row, true)) for row, true in zip(found, exact, strict=True))
    return hits / exact.size


def encodes_again(rescore: Rescore, details: Mapping[str, Any]) -> bool:
    """Return whether texts are encoded again, by what an encoder says of itself."""
    return rescore == "texts" or (rescore == "auto" and details.get("backend") == BAGS)


def candidates_for(rescored: int, k: int) -> int:
    """Return how many candidates are ranked for so many hits, where 10 take `rescored`."""
    return max(k, rescored, min(rescored * k // K, _MOST_CANDIDATES))


def score(queries: Vectors, places: Numbers, vectors: Vectors) -> Vectors:
    """Return the inner products of queries (q, dim) with the vectors at some places, (q, c).

    Equal vectors have equal scores: in a product of matrices the last bits depend on the place of a row.
    """
    scores = np.empty(places.shape, dtype=np.float32)
    step = max(1, _ROWS // max(1, places.shape[1]))
    for start in range(0, len(queries), step):
        some = slice(start, start + step)
        np.einsum("qcd,qd->qc", vectors[places[some]], queries[some], out=scores[some])
    return scores


def score_unique(queries: Vectors, numbers: Numbers, rows: Rows) -> Vectors:
    """Return the inner products of queries with the vectors of numbers, (q, c), that are read once each."""
    scores = np.full(numbers.shape, -np.inf, dtype=np.float32)
    step = max(1, _ROWS // max(1, numbers.shape[1]))
    for start in range(0, len(queries), step):
        some = slice(start, start + step)
        unique, places = np.unique(numbers[some], return_inverse=True)
        known = unique[unique >= 0]
        if len(known):
            places = places.reshape(numbers[some].shape) - (len(unique) - len(known))
            exact = score(queries[some], np.maximum(places, 0), rows(known))
            scores[some] = np.where(places < 0, -np.inf, exact)
    return scores


def rank(scores: Vectors, numbers: Numbers, k: int) -> tuple[Vectors, Numbers]:
    """Return the best k of each row, best first; of equal scores the smallest number comes first."""
    rows, best = np.arange(len(scores))[:, None], np.lexsort((numbers, -scores), axis=-1)[:, :k]
    return scores[rows, best], numbers[rows, best]


def nearest(
    queries: Vectors,
    count: int,
    index: VectorIndex | None,
    alive: Alive | None,
    recent: Numbers,
    rows: Rows,
    rescored: int,
) -> tuple[Vectors, Numbers]:
    """Return the numbers of the vectors nearest to each query, (q, count), with their exact scores.

    They are among those of the index that are alive, and recent ones. Of equal ones the first comes first.
    """
    found = []
    living = 0 if index is None else len(index) if alive is None else len(alive.places)
    if index is not None and living:
        size = count if index.keeps_vectors else candidates_for(rescored, count)
        places = index.search(queries, min(size, living), alive)
        numbers = index.numbers[places]
        if index.keeps_vectors:
            found.append((score(queries, places, index.vectors), numbers))
        else:
            numbers[places < 0] = -1
            found.append((score_unique(queries, numbers, rows), numbers))
    if len(recent):
        blocks = (recent[start : start + BLOCK] for start in range(0, len(recent), BLOCK))
        pieces = ((rows(chunks), chunks) for chunks in blocks)
        numbers = exact_neighbors(queries, min(count, len(recent)), pieces)
        found.append((score_unique(queries, numbers, rows), numbers))
    scores, numbers = found[0] if len(found) == 1 else map(np.hstack, zip(*found, strict=True))
    return rank(scores, numbers, count)


def nearest_documents(
    queries: Vectors,
    k: int,
    min_score: float | None,
    expected: int,  # number of chunks that probably hold k documents
    total: int,  # number of all chunks
    patience: int,  # number of chunks from which on it does not matter whether equal scores follow the last
    find: Callable[[Vectors, int], tuple[Vectors, Numbers]],
) -> list[list[Ranked]]:
    """Return the k best documents of each query, by the best of their chunks.

    `find` returns the scores and numbers (q, n) of the n chunks nearest to some queries, best first.
    """
    ranked: list[list[Ranked]] = [[] for _ in queries]
    left = list(range(len(queries) if k else 0))
    size = min(total, expected + _SPARE)
    while left:
        scores, chunks = find(queries if len(left) == len(queries) else queries[left], size)
        rows = zip(scores.tolist(), documents_of(chunks).tolist(), chunks.tolist(), strict=True)
        uncertain = []
        for query, (values, documents, numbers) in zip(left, rows, strict=True):
            ranked[query] = found = _best_documents(values, documents, numbers, k, min_score)
            last = values[-1]
            is_below = min_score is not None and last < min_score
            is_clear = len(found) == k and (size >= patience or found[-1].score - last > _EQUAL)
            if not (is_below or is_clear):
                uncertain.append(query)
        left = uncertain if size < total else []
        size = min(total, 4 * size)
    return ranked


def _best_documents(
    scores: list[float], documents: list[int], chunks: list[int], k: int, min_score: float | None
) -> list[Ranked]:
    """Return the k best documents of ranked chunks, -1 for none, each with the best of its chunks."""
    if (
        len(set(documents[:k])) == k
        and chunks[k - 1] >= 0
        and (min_score is None or scores[k - 1] >= min_score)
    ):
        return list(map(Ranked, scores[:k], documents[:k], chunks[:k]))
    found: dict[int, Ranked] = {}
    for value, document, chunk in zip(scores, documents, chunks, strict=True):
        if chunk < 0 or (min_score is not None and value < min_score):
            break
        if document not in found:
            found[document] = Ranked(value, document, chunk)
            if len(found) == k:
                break
    return list(found.values())
