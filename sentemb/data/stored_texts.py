"""Any number of texts as a sequence: few in memory, many in a file that goes with them."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Places = npt.NDArray[np.int64]
_IN_MEMORY = 1 << 26  # characters
_AT_ONCE = 8192


class StoredTexts(Sequence[str]):
    """Texts in a temporary file; memory holds eight bytes for each."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # it is closed with its last reader
        self._ends = array("q", [0])
        self._at_end = True
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Add a text."""
        data = text.encode("utf-8", "surrogatepass")
        if not self._at_end:
            self._file.seek(0, os.SEEK_END)
            self._at_end = True
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
        for start in range(0, len(self), _AT_ONCE):
            yield from self._read(start, min(start + _AT_ONCE, len(self)))

    def descending(self) -> Places:
        """The places of the texts in descending order."""
        data = self._bytes(0, len(self))
        ends = np.frombuffer(self._ends, dtype=np.int64)
        # Bytes are in the order of characters.
        found = pa.Array.from_buffers(
            pa.large_binary(), len(self), [None, pa.py_buffer(ends), pa.py_buffer(data)]
        )
        order: Places = pc.array_sort_indices(found, order="descending").to_numpy().astype(np.int64)
        return order

    def _read(self, start: int, stop: int) -> list[str]:
        data, first = self._bytes(start, stop), self._ends[start]
        return [
            data[self._ends[place] - first : self._ends[place + 1] - first].decode("utf-8", "surrogatepass")
            for place in range(start, stop)
        ]

    def _bytes(self, start: int, stop: int) -> bytes:
        self._file.seek(self._ends[start])
        self._at_end = False
        return self._file.read(self._ends[stop] - self._ends[start])


def kept(texts: Iterable[str]) -> Sequence[str]:
    """A list of texts, or a file where they are many."""
    return kept_pairs((text, "") for text in texts)[0]


def kept_pairs(pairs: Iterable[tuple[str, str]]) -> tuple[Sequence[str], Sequence[str]]:
    """The first and the second texts of pairs, in two lists, or in files where they are many."""
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
    """The places of texts in descending order."""
    if isinstance(texts, StoredTexts):
        return texts.descending()
    return np.array(sorted(range(len(texts)), key=texts.__getitem__, reverse=True), dtype=np.int64)


def first_places(texts: Sequence[str]) -> Places:
    """Of each text, the first place of one that is equal, shape (texts,)."""
    hashes = np.fromiter(map(hash, texts), dtype=np.int64, count=len(texts))
    order = np.argsort(hashes, kind="stable")
    in_order = hashes[order]
    starts = np.flatnonzero(np.concatenate([[True], in_order[1:] != in_order[:-1]])[: len(texts)])
    sizes = np.diff(starts, append=len(texts))
    firsts = np.arange(len(texts))
    for start, size in zip(starts[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
        known: dict[str, int] = {}
        for place in order[start : start + size].tolist():
            firsts[place] = known.setdefault(texts[place], place)
    return firsts


def places_of(wanted: Container[str], texts: Iterable[str]) -> dict[str, int]:
    """Where some texts stand among others."""
    return {text: place for place, text in enumerate(texts) if text in wanted}
