"""Documents that bring their own vectors, or none, as documents of an index."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError

RESERVED = "_haystack"
NO_VECTOR = f"{RESERVED}.no_vector"
# An index skips blank texts. A mark takes the place of one.
_MARK = "\x1f-"


class Record(NamedTuple):
    """A document of an index.

    Args:
        text: Its text; with a mark at the end of a blank one.
        metadata: What is known of it.
        embedding: The vector that it brings.
        encoded: Whether its vector comes from its text.
    """

    text: str
    metadata: dict[str, Any]
    embedding: Sequence[float] | None
    encoded: bool


class GivenVectors:
    """The encoder of an index whose documents bring their vectors."""

    name = "given vectors"
    fingerprint = "given-vectors-1"

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Refuse to encode."""
        raise InputError(
            "the store does not have an encoder",
            "pass a query_embedding, or create the store with an encoder",
        )

    def describe(self) -> dict[str, Any]:
        """Say how vectors are made."""
        return {"backend": "given"}


def to_record(
    content: str | None,
    meta: Mapping[str, Any],
    embedding: Sequence[float] | None,
    rest: Mapping[str, Any],
    *,
    encodes: bool,
) -> Record:
    """A document of an index that holds all of a document.

    Args:
        content: Its text.
        meta: What is known of it.
        embedding: The vector that it brings.
        rest: Other things to keep, as JSON can hold them.
        encodes: Whether a text without a vector is encoded.
    """
    if RESERVED in meta:
        raise InputError(f"the field name {RESERVED!r} is reserved", "choose another name")
    text = content or ""
    encoded = encodes and embedding is None and bool(text.strip())
    kept: dict[str, Any] = dict(rest)
    if not text.strip():
        kept["length"] = None if content is None else len(content)
        text += _MARK
    if embedding is not None:
        kept["embedding"] = _packed(embedding)
    elif not encoded:
        kept["no_vector"] = True
    metadata = {**meta, RESERVED: kept} if kept else dict(meta)
    return Record(text, metadata, embedding, encoded)


def from_record(text: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The `content`, `meta`, `embedding` and the other things that a record was made of."""
    meta = dict(metadata)
    kept = dict(meta.pop(RESERVED, {}))
    kept.pop("no_vector", None)
    length = kept.pop("length", len(text))
    packed = kept.pop("embedding", None)
    embedding = None if packed is None else _unpacked(packed)
    return {
        "content": None if length is None else text[:length],
        "meta": meta,
        "embedding": embedding,
        **kept,
    }


def _packed(embedding: Sequence[float]) -> str:
    """The numbers bit by bit, in half the space where they are of single precision."""
    exact = np.asarray(embedding, dtype="<f8")
    single = exact.astype("<f4")
    numbers = single if np.array_equal(single.astype("<f8"), exact) else exact
    return f"{numbers.dtype.itemsize}:{base64.b64encode(numbers.tobytes()).decode()}"


def _unpacked(packed: str) -> list[float]:
    size, _, numbers = packed.partition(":")
    unpacked: list[float] = np.frombuffer(base64.b64decode(numbers), dtype=f"<f{size}").tolist()
    return unpacked
