"""Ids and vectors that a call is given, checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Literal

import numpy as np

from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.search.chunks import ChunkedDocument
from sentemb.search.documents import Document, check_id
from sentemb.search.store import Batches

_AT_ONCE = 2048
_SEVERAL = {"document": "documents", "query": "queries"}


def checked_ids(ids: Iterable[str | int]) -> list[str | int]:
    """Return ids as a list, or raise InputError if one cannot be an id."""
    if isinstance(ids, (str, bytes, int)):
        raise InputError(f"ids must be a collection, not the single value {ids!r}", "pass a list")
    wanted = list(ids)
    for position, identifier in enumerate(wanted):
        check_id(identifier, f"id {position}")
    return wanted


def checked_vectors(
    vectors: Any, dimension: int, what: Literal["document", "query"], count: int | None = None
) -> Vectors:
    """Return vectors that were given for documents or queries as an array.

    Args:
        vectors: The vectors.
        dimension: Length of each.
        what: What they are given for.
        count: How many there must be, where that is known.

    Raises:
        InputError: They are not a matrix of finite real numbers with these dimensions.
    """
    try:
        given = np.asarray(vectors)
        rows: Vectors = given.real.astype(np.float32, copy=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"vectors must be a 2-D array of numbers; got a {type(vectors).__name__}: {error}"
        ) from None
    if np.iscomplexobj(given):
        raise InputError("vectors must be real numbers, not complex", "pass real numbers")
    if rows.ndim != 2 or rows.shape[1] != dimension:
        raise InputError(
            f"the vectors have the shape {rows.shape}, but the index has {dimension} dimensions",
            f"pass one row of {dimension} numbers for each {what}",
        )
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise InputError(f"vector {bad[0]} contains NaN or infinity ({len(bad)} such vectors in total)")
    if count is not None and count != len(rows):
        raise _other_count(len(rows), f"{count:,}", what)
    return rows


def with_vectors(documents: Iterator[Document], vectors: Vectors) -> Batches:
    """Yield documents with the vectors that were given for them; a blank one has one too."""
    given = 0
    while some := list(islice(documents, _AT_ONCE)):
        if given + len(some) > len(vectors):
            raise _other_count(len(vectors), f"{given + len(some):,} or more", "document")
        kept = [place for place, one in enumerate(some, given) if one.text.strip()]
        yield list(map(ChunkedDocument, some)), vectors[kept]
        given += len(some)
    if given != len(vectors):
        raise _other_count(len(vectors), f"{given:,}", "document")


def _other_count(vectors: int, count: str, what: Literal["document", "query"]) -> InputError:
    return InputError(
        f"there are {vectors:,} vectors for {count} {_SEVERAL[what]}", f"pass one vector for each {what}"
    )
