"""Queries of a new encoder for vectors of an old one: a linear map, learned from texts that both encoded.

The idea and the families of maps are those of Drift-Adapter (Vejendla, arXiv 2509.23471).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sentemb._threads import one_blas_thread
from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.search.recall import K, share_found
from sentemb.search.vectors import Numbers

FEWEST_TEXTS = 500
_MOST_HELD_OUT = 1_000
_RIDGE = 0.1
_Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Adapter:
    """An affine map from the vectors of a new encoder to those of an old one.

    Args:
        matrix: (new dimension, old dimension).
        offset: (old dimension,).
    """

    matrix: Vectors
    offset: Vectors

    def __call__(self, vectors: Vectors) -> Vectors:
        """Map vectors (n, new dimension) to (n, old dimension)."""
        # Not `@`: its sums, and so their last bits, depend on the number of rows and of threads.
        mapped: Vectors = np.einsum("ij,jk->ik", vectors, self.matrix) + self.offset
        return mapped

    def write(self, path: Path) -> None:
        """Write the map to a new file."""
        with path.open("wb") as file:
            np.save(file, np.vstack([self.matrix, self.offset]), allow_pickle=False)

    @classmethod
    def read(cls, path: Path, new: int, old: int) -> Adapter:
        """Read a file that `write` made, of a map between two dimensions."""
        try:
            rows = np.load(path, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise InputError(
                f"the adapter {path} cannot be read", "run `sentemb index upgrade` again"
            ) from error
        if rows.shape != (new + 1, old) or rows.dtype != np.float32:
            raise InputError(
                f"the adapter {path} does not match the manifest", "run `sentemb index upgrade` again"
            )
        return cls(rows[:-1], rows[-1])


class Learned(NamedTuple):
    """A map and what it is worth, by recall@10 on texts that it has not seen.

    Args:
        adapter: The map.
        method: Its family.
        recall_new: Share of the 10 nearest that the new encoder's own search finds.
        recall_old: Share of the 10 nearest that the old encoder's search finds.
        unadapted: Share of the new encoder's 10 nearest that the old encoder's search finds.
        queries: Number of texts that were searched with.
        corpus: Number of texts that they were searched among.
    """

    adapter: Adapter
    method: str
    recall_new: float
    recall_old: float
    unadapted: float
    queries: int
    corpus: int


def learn(new: Vectors, old: Vectors) -> Learned:
    """Learn maps of several families and keep the one with which searches come nearest to the new encoder's.

    Args:
        new: Vectors (n, new dimension) of texts.
        old: The vectors (n, old dimension) of the same texts in the index.

    Returns:
        The best map. It is learned from four fifths of the texts or more, chosen on half of the rest and
        measured on the other half.
    """
    order = np.random.default_rng(3).permutation(len(new))
    held, rest = np.split(order, [min(_MOST_HELD_OUT, len(new) // 5)])
    choosing, measuring = np.arange(len(held)) % 2 == 0, np.arange(len(held)) % 2 == 1
    with one_blas_thread():
        exact, before = _nearest(new[held], new[held]), _nearest(old[held], old[held])
        best: tuple[float, str, Adapter, Numbers] | None = None
        for method, adapter in _candidates(new[rest].astype(np.float64), old[rest].astype(np.float64)):
            found = _nearest(adapter(new[held]), old[held])
            recall = share_found(found[choosing], exact[choosing])
            if best is None or recall > best[0]:
                best = recall, method, adapter, found
    assert best is not None
    _, method, adapter, found = best
    return Learned(
        adapter,
        method,
        share_found(found[measuring], exact[measuring]),
        share_found(found[measuring], before[measuring]),
        share_found(before[measuring], exact[measuring]),
        int(measuring.sum()),
        len(held),
    )


def _nearest(queries: Vectors, vectors: Vectors) -> Numbers:
    """The nearest of the other vectors for each query, which is one of them itself, (n, K)."""
    scores = queries @ vectors.T
    np.fill_diagonal(scores, -np.inf)
    return np.argsort(-scores, axis=1, kind="stable")[:, :K]


def _candidates(new: _Matrix, old: _Matrix) -> Iterator[tuple[str, Adapter]]:
    """Maps of all families."""
    # Of fifteen pairs of encoders on SciFact and tldr, fourteen went best with an orthogonal map, and static
    # word vectors for MiniLM's with a ridge map; of eight, none went better with a map of lower rank.
    origin = np.zeros(new.shape[1]), np.zeros(old.shape[1])
    centres = new.mean(axis=0), old.mean(axis=0)
    for method, (start, end) in (("procrustes", origin), ("centered procrustes", centres)):
        left, _, right = np.linalg.svd((new - start).T @ (old - end), full_matrices=False)
        yield method, _affine(left @ right, start, end)
    start, end = centres
    inputs, outputs = new - start, old - end
    gram = inputs.T @ inputs
    penalty = _RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram))
    # The pseudo-inverse is there for vectors that are all alike too.
    yield "ridge", _affine(np.linalg.pinv(gram + penalty, hermitian=True) @ (inputs.T @ outputs), start, end)


def _affine(matrix: _Matrix, start: _Matrix, end: _Matrix) -> Adapter:
    """The map that takes one centre to the other."""
    return Adapter(matrix.astype(np.float32), (end - start @ matrix).astype(np.float32))
