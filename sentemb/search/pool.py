"""Many texts with their vectors, some at a time: from texts, from encoded shards, or from an index folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sentemb._uris import local_path
from sentemb.encoding.encoder import TextEncoder, Vectors
from sentemb.encoding.roles import for_role
from sentemb.encoding.shards import ShardFolder, is_shard_folder
from sentemb.errors import InputError
from sentemb.search.documents import Document
from sentemb.search.encoders import is_of_role, loaded_encoder
from sentemb.search.manifest import NAME
from sentemb.search.stored import stored_documents
from sentemb.search.view import View, open_view

_AT_ONCE = 16_384
_DOCUMENTS = 1024

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
        InputError: The folder is damaged or not finished, or is an index that keeps no vectors.
    """
    if is_shard_folder(path):
        shards = ShardFolder(path)
        shards.verify()
        return _Shards(shards)
    folder = local_path(path)
    return _Index(folder) if (folder / NAME).is_file() else None


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
        return stored_documents(shards)
    folder = local_path(path)
    if (folder / NAME).is_file():
        return (one.document for one in open_view(folder, verify=True).store.prepared())
    return None


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
    """The texts of an index, of split documents the passages."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._view: View = open_view(path, verify=True)
        if not self._view.segments.base.keeps_vectors:
            raise InputError(
                f"the {self._view.manifest.factory} index in {path} does not store the vectors",
                "pass the texts, or an output folder of `sentemb encode`",
            )

    def texts(self) -> Iterator[str]:
        return (text for one in self._view.store.prepared() for text in one.texts)

    def blocks(self, encoder: TextEncoder, wanted: NDArray[np.bool_]) -> Blocks:
        facts = self._view.manifest.documents_encoder
        if not is_of_role(loaded_encoder(encoder, facts, self._path), facts):
            raise InputError(
                f"{self._path} was built without the document prompt or route of {encoder.name}",
                "build the index again",
            )
        return _chosen(self._vectors(), wanted)

    def _vectors(self) -> Iterator[Vectors]:
        prepared = self._view.store.prepared()
        while some := list(islice(prepared, _DOCUMENTS)):
            yield self._view.vectors_of([text for one in some for text in one.texts])


def _chosen(parts: Iterator[Vectors], wanted: NDArray[np.bool_]) -> Blocks:
    start = 0
    for vectors in parts:
        rows = np.flatnonzero(wanted[start : start + len(vectors)])
        if len(rows):
            yield start + rows, vectors[rows]
        start += len(vectors)
