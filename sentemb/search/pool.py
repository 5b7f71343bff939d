"""Many texts with their vectors, some at a time: from texts, from encoded shards, or from an index folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sentemb._uris import local_path
from sentemb.encoding.encoder import TextEncoder, Vectors, for_role
from sentemb.encoding.shards import ShardFolder, is_shard_folder
from sentemb.search.documents import Document
from sentemb.search.encoders import loaded_encoder
from sentemb.search.folder import is_index
from sentemb.search.local import LocalStore
from sentemb.search.source import shard_documents

_AT_ONCE = 16_384

Rows = NDArray[np.int64]
Blocks = Iterator[tuple[Rows, Vectors]]
"""Numbers (n,) of some texts and their vectors (n, dim)."""


class Pool(Protocol):
    """Any number of texts, and a vector for each."""

    def texts(self) -> Iterator[str]:
        """The texts in their order."""
        ...

    def blocks(self, encoder: TextEncoder, wanted: NDArray[np.bool_]) -> Blocks:
        """The numbers of the texts that are wanted, and their vectors as documents, some at a time."""
        ...


def pool_at(path: str | Path) -> Pool | None:
    """The texts and vectors in a folder of `sentemb encode`, or in an index folder; None of anything else.

    Args:
        path: The folder.

    Returns:
        The pool; its bytes agree with their checksums.

    Raises:
        InputError: The folder is damaged or not finished, or its encoder is another one.
    """
    if is_shard_folder(path):
        shards = ShardFolder(path)
        shards.verify()
        return _Shards(shards)
    folder = local_path(path)
    return _Index(folder) if is_index(folder) else None


def documents_at(path: str | Path) -> Iterator[Document] | None:
    """The documents in a folder of `sentemb encode`, or in an index folder; None of anything else.

    Args:
        path: The folder.

    Returns:
        The documents, one at a time.

    Raises:
        InputError: The folder is damaged or not finished.
    """
    if is_shard_folder(path):
        shards = ShardFolder(path)
        shards.verify()
        return shard_documents(shards)
    folder = local_path(path)
    return _documents(LocalStore(folder, verify=True)) if is_index(folder) else None


def _documents(store: LocalStore) -> Iterator[Document]:
    with store.snapshot() as snapshot:
        for chunked in snapshot.rows():
            yield chunked.document


class TextPool:
    """Texts that are encoded when they are asked for.

    Args:
        texts: The texts.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def texts(self) -> Iterator[str]:
        """See `Pool.texts`."""
        return iter(self._texts)

    def blocks(self, encoder: TextEncoder, wanted: NDArray[np.bool_]) -> Blocks:
        """See `Pool.blocks`."""
        for start in range(0, len(wanted), _AT_ONCE):
            rows = np.flatnonzero(wanted[start : start + _AT_ONCE])
            some = self._texts[start : start + _AT_ONCE]
            if len(rows):
                yield start + rows, for_role(encoder, "document").encode([some[row] for row in rows.tolist()])


class _Shards:
    def __init__(self, shards: ShardFolder) -> None:
        self._shards = shards

    def texts(self) -> Iterator[str]:
        return (text for batch in self._shards.batches() for text in batch.texts)

    def blocks(self, encoder: TextEncoder, wanted: NDArray[np.bool_]) -> Blocks:
        self._shards.check_encoder(encoder)
        return _chosen((batch.vectors for batch in self._shards.batches(_AT_ONCE)), wanted)


class _Index:
    """The texts of an index; of documents in chunks, the chunks."""

    def __init__(self, path: Path) -> None:
        self._store = LocalStore(path, verify=True)

    def texts(self) -> Iterator[str]:
        with self._store.snapshot() as snapshot:
            for chunked in snapshot.rows():
                yield from chunked.texts

    def blocks(self, encoder: TextEncoder, wanted: NDArray[np.bool_]) -> Blocks:
        with self._store.snapshot() as snapshot:
            loaded = loaded_encoder(encoder, snapshot.manifest.encoder, self._store.folder)
            self._store.encoder = lambda: for_role(loaded, "document")
            yield from _chosen((vectors for _, vectors in snapshot.batches()), wanted)


def _chosen(parts: Iterator[Vectors], wanted: NDArray[np.bool_]) -> Blocks:
    start = 0
    for vectors in parts:
        rows = np.flatnonzero(wanted[start : start + len(vectors)])
        if len(rows):
            yield start + rows, vectors[rows]
        start += len(vectors)
