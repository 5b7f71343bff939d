"""Checksums of what a database holds, so that a flipped bit is noticed."""

from __future__ import annotations

import zlib

import numpy as np

from sentemb.encoding.encoder import Vectors

FLOAT = np.dtype("<f4")
_CHECKSUM = 4


def sealed(vector: Vectors) -> bytes:
    """A vector (dim,) as the database keeps it: its numbers, and their checksum."""
    numbers = vector.astype(FLOAT).tobytes()
    return numbers + zlib.crc32(numbers).to_bytes(_CHECKSUM, "little")


def unsealed(stored: bytes, dimension: int) -> bytes | None:
    """The numbers of a stored vector; None where they are not what was stored."""
    size = FLOAT.itemsize * dimension
    if not isinstance(stored, bytes):  # a flipped bit made another type of it
        return None
    if len(stored) == size:  # from before there were checksums; compaction gives it one
        return stored
    return stored[:size] if len(stored) == size + _CHECKSUM and _fits(stored, size) else None


def _fits(stored: bytes, size: int) -> bool:
    return zlib.crc32(stored[:size]).to_bytes(_CHECKSUM, "little") == stored[size:]


def checksum_of(identifier: str | int | None, metadata: str | None, digest: bytes) -> int:
    """The checksum of a document: its id, its metadata and the digest of its text."""
    return zlib.crc32(digest, zlib.crc32(f"{identifier!r} {metadata}".encode()))
