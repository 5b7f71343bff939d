"""Any number of texts as a sequence: few in memory, many in a temporary file that is mapped into memory."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Places = npt.NDArray[np.int64]
_IN_MEMORY = 1 << 26  # characters
_ROWS = 8192  # of a batch
_CODEC = ("utf-8", "surrogatepass")


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Return one folder per process, removed when it ends, since files stay mapped."""
    return tempfile.TemporaryDirectory(prefix="sentemb-")


def write_temporary(batches: Iterator[pa.RecordBatch]) -> str:
    """Write batches, at least one, to a temporary file in Arrow's stream format; return its name."""
    first = next(batches)
    descriptor, name = tempfile.mkstemp(suffix=".arrow", dir=_folder().name)
    with os.fdopen(descriptor, "wb") as file, pa.ipc.new_stream(file, first.schema) as writer:
        for batch in chain([first], batches):
            writer.write_batch(batch)
    return name


class StoredTexts(Sequence[str]):
    """Texts in a temporary file, as a column of Arrow's binaries."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [text.decode(*_CODEC) for text in self._column[place].to_pylist()]
        return str(self._column[place].as_py(), *_CODEC)

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self[start : start + _ROWS] for start in range(0, len(self), _ROWS))


def store(rows: Iterable[Sequence[str]]) -> list[StoredTexts]:
    """Write columns of texts, of at least one row, to a temporary file."""

    def batches() -> Iterator[pa.RecordBatch]:
        waiting = iter(rows)
        while block := list(islice(waiting, _ROWS)):
            columns = ([text.encode(*_CODEC) for text in column] for column in zip(*block, strict=True))
            arrays = [pa.array(column, pa.large_binary()) for column in columns]
            yield pa.record_batch(arrays, names=[str(place) for place in range(len(arrays))])

    name = write_temporary(batches())
    table = pa.ipc.open_stream(pa.memory_map(name)).read_all()
    with contextlib.suppress(PermissionError):  # the map keeps what is in it, except on Windows
        Path(name).unlink()
    return [StoredTexts(column) for column in table.columns]


def spill_to_disk(texts: Iterable[str]) -> Sequence[str]:
    """Return texts as a list, or in a file if they are many."""
    return spill_pairs_to_disk((text, "") for text in texts)[0]


def spill_pairs_to_disk(pairs: Iterable[tuple[str, str]]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the first and the second texts of pairs as two lists, or in files if they are many."""
    known: list[tuple[str, str]] = []
    size, pairs = 0, iter(pairs)
    for pair in pairs:
        known.append(pair)
        size += len(pair[0]) + len(pair[1])
        if size > _IN_MEMORY:
            first, second = store(chain(known, pairs))
            return first, second
    return [one for one, _ in known], [other for _, other in known]


def descending(texts: Sequence[str]) -> Places:
    """Return the places of texts in descending order."""
    if isinstance(texts, StoredTexts):  # bytes are in the order of characters
        order = pc.sort_indices(texts._column, sort_keys=[("", "descending")])
        return np.asarray(order.to_numpy(), dtype=np.int64)
    return np.array(sorted(range(len(texts)), key=texts.__getitem__, reverse=True), dtype=np.int64)


def first_places(texts: Sequence[str]) -> Places:
    """Return, for each text, the first place of an equal one, shape (texts,)."""
    hashes = np.fromiter(map(hash, texts), dtype=np.int64, count=len(texts))
    _, inverse, sizes = np.unique(hashes, return_inverse=True, return_counts=True)
    places = np.arange(len(texts))
    known: dict[str, int] = {}
    for place in np.flatnonzero(sizes[inverse] > 1).tolist():
        places[place] = known.setdefault(texts[place], place)
    return places


def places_of(wanted: Container[str], texts: Iterable[str]) -> dict[str, int]:
    """Return the places of some texts among others."""
    return {text: place for place, text in enumerate(texts) if text in wanted}
