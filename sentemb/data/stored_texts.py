"""Any number of texts as a sequence: few in memory, many in a temporary file that is mapped into memory."""

from __future__ import annotations

import mmap
import tempfile
from array import array
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import chain
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Places = npt.NDArray[np.int64]
_IN_MEMORY = 1 << 26  # characters
_CODEC = ("utf-8", "surrogatepass")


class StoredTexts(Sequence[str]):
    """Texts in a temporary file, as Arrow's large binaries; memory holds eight bytes for each."""

    def __init__(self, column: pa.Array) -> None:
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
        return chain.from_iterable(self[start : start + 8192] for start in range(0, len(self), 8192))


def store(rows: Iterable[Sequence[str]], columns: int) -> list[StoredTexts]:
    """Write columns of texts to temporary files."""
    files = [tempfile.TemporaryFile() for _ in range(columns)]  # noqa: SIM115  # closed below
    ends = [array("q", [0]) for _ in range(columns)]
    for row in rows:
        for text, file, end in zip(row, files, ends, strict=True):
            end.append(end[-1] + file.write(text.encode(*_CODEC)))
    found = []
    for file, end in zip(files, ends, strict=True):
        file.flush()
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if end[-1] else b""
        file.close()  # the map keeps what is in it
        buffers = [None, pa.py_buffer(end), pa.py_buffer(content)]
        found.append(StoredTexts(pa.Array.from_buffers(pa.large_binary(), len(end) - 1, buffers)))
    return found


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
            first, second = store(chain(known, pairs), 2)
            return first, second
    return [one for one, _ in known], [other for _, other in known]


def descending(texts: Sequence[str]) -> Places:
    """Return the places of texts in descending order."""
    if isinstance(texts, StoredTexts):  # bytes are in the order of characters
        order = pc.array_sort_indices(texts._column, order="descending")
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
