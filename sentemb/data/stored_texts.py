"""Any number of texts as a sequence: few in memory, many in a temporary file."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Places = npt.NDArray[np.int64]
_IN_MEMORY = 1 << 26  # characters
_BATCH = 8192


class StoredTexts(Sequence[str]):
    """Texts in a temporary file; memory holds eight bytes for each."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # it is closed with its last reader
        self._ends = array("q", [0])
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Add a text."""
        data = text.encode("utf-8", "surrogatepass")
        if self._file.tell() != self._ends[-1]:
            self._file.seek(0, os.SEEK_END)
        self._file.write(data)
        self._ends.append(self._ends[-1] + len(data))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            return self._read(start, max(start, stop))[::step] if step > 0 else [*self][place]
        number = range(len(self))[place]
        return self._read(number, number + 1)[0]

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _BATCH):
            yield from self._read(start, min(start + _BATCH, len(self)))

    def descending(self) -> Places:
        """Return the places of the texts in descending order."""
        ends = np.frombuffer(self._ends, dtype=np.int64)
        # Bytes are in the order of characters.
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(self._bytes(0, len(self)))]
        found = pa.Array.from_buffers(pa.large_binary(), len(self), buffers)
        order: Places = pc.array_sort_indices(found, order="descending").to_numpy().astype(np.int64)
        return order

    def _read(self, start: int, stop: int) -> list[str]:
        data, first = self._bytes(start, stop), self._ends[start]
        edges = [end - first for end in self._ends[start : stop + 1]]
        return [data[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(edges)]

    def _bytes(self, start: int, stop: int) -> bytes:
        self._file.seek(self._ends[start])
        return self._file.read(self._ends[stop] - self._ends[start])


def spill_to_disk(texts: Iterable[str]) -> Sequence[str]:
    """Return texts as a list, or in a file if they are many."""
    return spill_pairs_to_disk((text, "") for text in texts)[0]


def spill_pairs_to_disk(pairs: Iterable[tuple[str, str]]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the first and the second texts of pairs as two lists, or in files if they are many."""
    first: list[str] | StoredTexts = []
    second: list[str] | StoredTexts = []
    size = 0
    for one, other in pairs:
        first.append(one)
        second.append(other)
        size += len(one) + len(other)
        if size > _IN_MEMORY and isinstance(first, list):
            first, second = StoredTexts(first), StoredTexts(second)
    return first, second


def descending(texts: Sequence[str]) -> Places:
    """Return the places of texts in descending order."""
    if isinstance(texts, StoredTexts):
        return texts.descending()
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
