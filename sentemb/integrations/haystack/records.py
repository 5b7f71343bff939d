"""Documents of Haystack as documents of an index, with or without their own vectors."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from haystack import Document

from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError

RESERVED = "_haystack"
NO_VECTOR = f"{RESERVED}.no_vector"
_MARK = "\x1f-"  # takes the place of a blank text, which an index would skip


class Record(NamedTuple):
    """Text and metadata of a document of an index, its own vector if any, and whether to encode it."""

    text: str
    metadata: dict[str, Any]
    embedding: Sequence[float] | None
    encoded: bool


class GivenVectors:
    """The encoder of an index whose documents have their own vectors; it does not encode texts."""

    name = "given vectors"
    fingerprint = "given-vectors-1"

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Raise InputError: the store does not have an encoder."""
        hint = "pass a query_embedding, or create the store with an encoder"
        raise InputError("the store does not have an encoder", hint)

    def describe(self) -> dict[str, Any]:
        """Describe how vectors are computed."""
        return {"backend": "given"}


def to_record(document: Document, *, encodes: bool) -> Record:
    """Return a record of a document; with `encodes`, a text without a vector is encoded."""
    if RESERVED in document.meta:
        raise InputError(f"the field name {RESERVED!r} is reserved", "choose another name")
    fields = document.to_dict(flatten=False)
    kept = {name: fields[name] for name in ("blob", "score", "sparse_embedding") if fields[name] is not None}
    text, embedding = document.content or "", document.embedding
    encoded = encodes and embedding is None and bool(text.strip())
    if not text.strip():
        kept["length"] = None if document.content is None else len(text)
        text += _MARK
    if embedding is not None:
        # Exact, in half the space if float32 can represent the numbers.
        exact = np.asarray(embedding, dtype="<f8")
        single = exact.astype("<f4")
        numbers = single if np.array_equal(single.astype("<f8"), exact) else exact
        kept["embedding"] = f"{numbers.dtype.itemsize}:{base64.b64encode(numbers.tobytes()).decode()}"
    elif not encoded:
        kept["no_vector"] = True
    metadata = {**document.meta, RESERVED: kept} if kept else dict(document.meta)
    return Record(text, metadata, embedding, encoded)


def to_document(key: str | int | None, text: str, metadata: Mapping[str, Any], **more: Any) -> Document:
    """Return the document of a record."""
    meta = dict(metadata)
    kept = dict(meta.pop(RESERVED, {}))
    kept.pop("no_vector", None)
    length = kept.pop("length", len(text))
    if (packed := kept.get("embedding")) is not None:
        size, _, numbers = packed.partition(":")
        kept["embedding"] = np.frombuffer(base64.b64decode(numbers), dtype=f"<f{size}").tolist()
    content = None if length is None else text[:length]
    return Document.from_dict({"id": str(key), "content": content, "meta": meta, **kept, **more})
