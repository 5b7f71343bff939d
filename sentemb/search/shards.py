"""Encoding a corpus piece by piece, so that an interrupted build loses one piece at most."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sentemb._files import new_file
from sentemb.encoding.encoder import TextEncoder, Vectors, check_finite
from sentemb.errors import InputError
from sentemb.search.plan import Metric
from sentemb.search.store import DocumentStore
from sentemb.search.vectors import Numbers, comparable

# Large enough that batches sorted by length pad little, small enough that a kill costs seconds.
SHARD_TEXTS = 2048

Progress = Callable[[str, int, int], None]
"""Called with a stage (`read`, `resume`, `encode`, `train`, `index`), what is done, and of how much or 0."""


@dataclass(frozen=True, slots=True)
class EncodedTexts:
    """The vectors of a corpus, in files."""

    paths: tuple[Path, ...]
    count: int
    dimension: int
    metric: Metric

    def __iter__(self) -> Iterator[tuple[Numbers, Vectors]]:
        """Yield numbers (n,) and vectors (n, dim), one shard at a time."""
        start = 0
        for path in self.paths:
            vectors: Vectors = np.load(path, allow_pickle=False).astype(np.float32, copy=False)
            yield np.arange(start, start + len(vectors)), comparable(vectors, self.metric)
            start += len(vectors)

    def rows(self, numbers: Numbers) -> Vectors:
        """The vectors of some sorted numbers, (n, dim)."""
        found = np.empty((len(numbers), self.dimension), dtype=np.float32)
        bounds = np.searchsorted(numbers, SHARD_TEXTS * np.arange(len(self.paths) + 1))
        for shard, (start, stop) in enumerate(itertools.pairwise(bounds.tolist())):
            if start < stop:
                vectors = np.load(self.paths[shard], mmap_mode="r", allow_pickle=False)
                found[start:stop] = vectors[numbers[start:stop] - SHARD_TEXTS * shard]
        return comparable(found, self.metric)


def encode_texts(
    store: DocumentStore,
    count: int,
    encoder: TextEncoder,
    folder: Path,
    *,
    fingerprint: str,
    metric: Metric,
    progress: Progress,
) -> EncodedTexts:
    """Encode the texts of a store into shards, skipping those that an earlier build has left in the folder.

    A shard is named by the encoder's fingerprint and its texts, so that it is never taken for another.
    """
    paths: list[Path] = []
    encoded = False
    for start in range(0, count, SHARD_TEXTS):
        texts = store.texts(start, min(start + SHARD_TEXTS, count))
        path = folder / f"shard-{_digest(fingerprint, texts)}.npy"
        found = path.exists()
        if not found:
            with new_file(path) as file:
                np.save(file, _shortest(encode_checked(encoder, texts)), allow_pickle=False)
        encoded = encoded or not found
        paths.append(path)
        progress("encode" if encoded else "resume", start + len(texts), count)
    return EncodedTexts(tuple(paths), count, encoder.dimension, metric)


def _shortest(vectors: Vectors) -> NDArray[np.floating[Any]]:
    """The vectors in half the bytes, where that takes nothing away: `sentemb encode` may have done it."""
    with np.errstate(over="ignore"):
        short = vectors.astype(np.float16)
    return short if np.array_equal(short.astype(np.float32), vectors) else vectors


def encode_checked(encoder: TextEncoder, texts: Sequence[str]) -> Vectors:
    """Encode texts and hold the encoder to its promise."""
    vectors = np.ascontiguousarray(encoder.encode(texts), dtype=np.float32)
    if vectors.shape != (len(texts), encoder.dimension):
        raise InputError(
            f"{encoder.name} returned an array of shape {vectors.shape} for {len(texts)} texts",
            f"an encoder must return the shape ({len(texts)}, {encoder.dimension})",
        )
    check_finite(vectors, texts, name=encoder.name)
    return vectors


def _digest(fingerprint: str, texts: list[str]) -> str:
    digest = hashlib.blake2b(fingerprint.encode(), digest_size=16)
    for text in texts:
        data = text.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()
