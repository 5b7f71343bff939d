"""Vectors of texts on disk, in the Arrow shards of `sentemb encode`: what is encoded outlives a failure."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
from numpy.typing import NDArray

from sentemb.encoding.encoder import TextEncoder, Vectors, check_finite
from sentemb.encoding.shards import Row, Settings, ShardFolder, finished, write_shard
from sentemb.errors import InputError

SHARD_TEXTS = 2048
"""Texts of a shard: so many that batches sorted by length pad little, so few that a kill costs seconds."""
SHARDS = "shard-*.arrow"

Progress = Callable[[str, int, int], None]
"""Called with a stage (`read`, `resume`, `encode`, `train`, `index`), what is done, and of how much or 0."""


class EncodedTexts:
    """The vectors of texts, counted from 0, in files that are mapped into memory.

    Args:
        paths: The shards in their order.
        counts: How many texts each has.
        dimension: Length of a vector.
    """

    def __init__(self, paths: Sequence[Path], counts: Sequence[int], dimension: int) -> None:
        self._parts = [_vectors(path, dimension) for path in paths]
        self._ends = np.cumsum(np.asarray(counts, dtype=np.int64))
        self._dimension = dimension
        for path, part, count in zip(paths, self._parts, counts, strict=True):
            if len(part) != count:
                raise InputError(
                    f"{path} has {len(part):,} rows instead of {count:,}", "encode the texts again"
                )

    @classmethod
    def of_folder(cls, shards: ShardFolder) -> EncodedTexts:
        """Open the vectors of a folder that `sentemb encode` made."""
        return cls(shards.files, shards.rows, shards.dimension)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def rows(self, places: NDArray[np.int64]) -> Vectors:
        """Return the vectors (n, dim) at some places, in any order."""
        found = np.empty((len(places), self._dimension), dtype=np.float32)
        shards = np.searchsorted(self._ends, places, side="right")
        for shard in np.unique(shards).tolist():
            chosen = shards == shard
            first = int(self._ends[shard - 1]) if shard else 0
            found[chosen] = self._parts[shard][places[chosen] - first]
        return found


def encode_to_shards(
    texts: Iterator[list[str]], count: int, encoder: TextEncoder, folder: Path, progress: Progress
) -> EncodedTexts:
    """Encode texts into shards, skipping those that an interrupted run has left in the folder.

    A shard is named by the encoder's fingerprint and its texts, so that it is never taken for another.

    Args:
        texts: The texts, `SHARD_TEXTS` at a time.
        count: How many there are.
        encoder: The encoder.
        folder: Where the shards go.
        progress: Called with `resume` or `encode`, what is done, and `count`.

    Returns:
        The vectors.
    """
    settings = Settings(
        name=encoder.name,
        fingerprint=encoder.fingerprint,
        dimension=encoder.dimension,
        dtype="float32",
        shard_size=SHARD_TEXTS,
        model={"model": encoder.name},
        role="document",
    )
    paths, counts = [], []
    done, encoded = 0, False
    for some in texts:
        rows = [Row(place, text, {}, "") for place, text in enumerate(some)]
        path = folder / settings.file_name(rows)
        before = finished(path)
        if before is None or before.rows != len(rows):
            write_shard(path, rows, encode_checked(encoder, some), [], settings)
            encoded = True
        paths.append(path)
        counts.append(len(rows))
        done += len(rows)
        progress("encode" if encoded else "resume", done, count)
    return EncodedTexts(paths, counts, encoder.dimension)


def encode_checked(encoder: TextEncoder, texts: Sequence[str]) -> Vectors:
    """Encode texts, and raise InputError if the encoder does not keep its promise."""
    vectors = np.ascontiguousarray(encoder.encode(texts), dtype=np.float32)
    if vectors.shape != (len(texts), encoder.dimension):
        raise InputError(
            f"{encoder.name} returned an array of shape {vectors.shape} for {len(texts)} texts",
            f"an encoder must return the shape ({len(texts)}, {encoder.dimension})",
        )
    check_finite(vectors, texts, name=encoder.name)
    return vectors


def encode_unique(encoder: TextEncoder, texts: Sequence[str]) -> Vectors:
    """Encode texts, each of them once however often it occurs."""
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    if not places:
        return np.empty((0, encoder.dimension), dtype=np.float32)
    vectors = encode_checked(encoder, list(places))
    if len(places) == len(texts):
        return vectors
    return vectors[[places[text] for text in texts]]


def _vectors(path: Path, dimension: int) -> NDArray[np.floating]:
    """Map the vectors (n, dim) of a shard into memory."""
    try:
        with contextlib.closing(pa.memory_map(str(path))) as source:
            column = pa.ipc.open_file(source).read_all()["vector"].combine_chunks()
    except (OSError, pa.ArrowInvalid, KeyError) as error:
        raise InputError(f"{path} is damaged: {error}", "remove it, and encode the texts again") from None
    flat: NDArray[np.floating] = column.flatten().to_numpy(zero_copy_only=True)
    return flat.reshape(-1, dimension)
