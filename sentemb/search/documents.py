"""Conversion of the input of a call into documents with ids, their chunks, and vectors."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from sentemb.data.documents import SURROGATE, plain_metadata
from sentemb.data.documents import Document as Document
from sentemb.data.documents import read_documents as read_documents
from sentemb.encoding.encoder import TextEncoder, Vectors, check_finite, normalised
from sentemb.encoding.tokens import tokens_of
from sentemb.errors import InputError
from sentemb.search.passages import Span, split
from sentemb.search.plan import Metric

logger = logging.getLogger(__name__)

Numbers = NDArray[np.int64]
Truncate = Literal["split", "warn", "error"]
"""What becomes of a text that is longer than the model reads: it is split into chunks, its beginning is
indexed with a warning, or it is an error."""
OVERLAP = 0.125
"""How much of a chunk may be repeated in the next one, as a share of the model's length."""
SHARD_TEXTS = 2048
"""Texts that are encoded at a time: batches sorted by length pad little, and a kill costs seconds."""
Progress = Callable[[str, int, int], None]
"""Called with a stage (`read`, `resume`, `encode`, `train`, `index`), what is done, and of how much or 0."""

LARGE_ID = 2**62
"""An id from here on does not move the counter of automatic ids, so that no single id can exhaust it."""
_NEAR = 2**32  # more documents than one call adds
_MOST_OVERLAP = 0.5
_DOCUMENTS = 256
_PARTS = 20  # bits of a chunk's number that count the chunks of its document
MOST_CHUNKS = 1 << _PARTS


class ChunkedDocument(NamedTuple):
    """A document as it is indexed.

    Args:
        document: The document.
        spans: Its chunks; empty if its whole text is indexed as it is. For a truncated text, the span that
            the model reads.
        truncated: Whether the model truncates it.
    """

    document: Document
    spans: tuple[Span, ...] = ()
    truncated: bool = False

    @property
    def chunked(self) -> bool:
        """Return True if its chunks are indexed in place of its text."""
        return bool(self.spans) and not self.truncated

    @property
    def texts(self) -> list[str]:
        """The texts to encode; empty for a blank document."""
        whole = self.document.text
        if self.chunked:
            return [whole[start:stop] for start, stop in self.spans]
        return [whole] if whole.strip() else []


Batches = Iterator[tuple[Sequence[ChunkedDocument], Vectors]]
"""Documents as they are indexed, some at a time, with a vector (n, dim) for each of their texts."""


def as_documents(items: Iterable[Any], *, first: int | None = 0) -> Iterator[Document]:
    """Bring every accepted form of a document into one, with an id and a location.

    Documents without an id are counted from `first`, or refused where it is None.
    """
    if isinstance(items, (str, bytes, Path)):
        raise InputError(
            f"documents must be a collection of texts, not the single value {str(items)[:60]!r}",
            "pass a list, or read a file with sentemb.search.read_documents(path)",
        )
    for position, item in enumerate(items):
        if isinstance(item, Document):
            document = item
        elif isinstance(item, str):
            document = Document(item)
        elif isinstance(item, tuple) and len(item) in (2, 3):
            document = Document(item[1], item[0], *item[2:])
        else:
            raise InputError(
                f"document {position} is a {type(item).__name__}",
                "pass a text, (id, text), (id, text, metadata) or a sentemb.search.Document",
            )
        location = document.location or f"document {position}"
        if document.id is None and first is None:
            message = f"{location} does not have an id, which an update needs"
            raise InputError(message, "set the id of every document, or use add")
        identifier = (first or 0) + position if document.id is None else document.id
        if not isinstance(document.text, str):
            raise InputError(f"{location}: the text is a {type(document.text).__name__}, not a string")
        check_id(identifier, location)
        check_letters("text", document.text, location)
        metadata = plain_metadata(document.metadata, location)
        yield Document(document.whole if document.title else document.text, identifier, metadata, location)


def check_id(identifier: Any, location: str) -> None:
    """Raise InputError if a value cannot be the id of a document."""
    if not isinstance(identifier, (str, int)) or isinstance(identifier, bool):
        raise InputError(f"{location}: the id {identifier!r} is neither a string nor an integer")
    if isinstance(identifier, int) and not -(2**63) <= identifier < 2**63:
        raise InputError(f"{location}: the id {identifier} has more than 64 bits", "pass it as a string")
    check_letters("id", str(identifier), location)


def check_ids(ids: Iterable[str | int]) -> list[str | int]:
    """Return ids as a list, or raise InputError if one cannot be an id."""
    if isinstance(ids, (str, bytes, int)):
        raise InputError(f"ids must be a collection, not the single value {ids!r}", "pass a list")
    found = list(ids)
    for position, identifier in enumerate(found):
        check_id(identifier, f"id {position}")
    return found


def check_letters(what: str, value: str, location: str) -> None:
    """Raise InputError if a text has half a surrogate pair, which no file and no database can hold."""
    if not value.isascii() and SURROGATE.search(value):
        raise InputError(
            f"{location}: the {what} contains an unpaired surrogate, which is not a valid character"
        )


def next_id_after(identifier: int, next_id: int) -> int:
    """Return the next automatic id once another is in use, which may be as large as a 64-bit hash."""
    return max(next_id, identifier + 1) if identifier < max(LARGE_ID, next_id + _NEAR) else next_id


def check_vectors(
    vectors: Any, dimension: int, what: Literal["document", "query"], count: int | None = None
) -> Vectors:
    """Return the vectors (n, dim) of so many documents or queries as an array, or raise InputError."""
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
    finite = np.isfinite(rows)
    if not finite.all():
        bad = np.flatnonzero(~finite.all(axis=1))
        raise InputError(f"vector {bad[0]} contains NaN or infinity ({len(bad)} such vectors in total)")
    if count is not None and count != len(rows):
        raise _other_count(len(rows), f"{count:,}", what)
    return rows


def with_vectors(documents: Iterator[Document], vectors: Vectors) -> Batches:
    """Yield documents with the vectors that were passed for them; a blank one has one too."""
    done = 0
    while some := list(islice(documents, SHARD_TEXTS)):
        done += len(some)
        if done > len(vectors):
            raise _other_count(len(vectors), f"{done:,} or more", "document")
        kept = [place for place, one in enumerate(some, done - len(some)) if one.text.strip()]
        yield list(map(ChunkedDocument, some)), vectors[kept]
    if done != len(vectors):
        raise _other_count(len(vectors), f"{done:,}", "document")


def _other_count(vectors: int, count: str, what: Literal["document", "query"]) -> InputError:
    several = "documents" if what == "document" else "queries"
    return InputError(
        f"there are {vectors:,} vectors for {count} {several}", f"pass one vector for each {what}"
    )


def check_truncation(truncate: str, overlap: float) -> None:
    """Raise InputError if there is no such way to treat long texts."""
    if truncate not in get_args(Truncate):
        raise InputError(f"unknown truncate {truncate!r}", f"choose one of {', '.join(get_args(Truncate))}")
    if not isinstance(overlap, (int, float)) or not 0 <= overlap <= _MOST_OVERLAP:
        raise InputError(f"overlap is {overlap!r}", f"choose a share from 0 to {_MOST_OVERLAP}")


def chunk_documents(
    documents: Iterator[Document], encoder: Any, truncate: Truncate, overlap: float
) -> Iterator[ChunkedDocument]:
    """Yield documents as they are indexed for an encoder; one without `tokens` reads everything."""
    check_truncation(truncate, overlap)
    tokens = tokens_of(encoder)
    if tokens is None:
        yield from map(ChunkedDocument, documents)
        return
    count = truncated = 0
    if truncate == "warn":
        tokens.cut.reported = True  # documents are reported below
    while some := list(islice(documents, _DOCUMENTS)):
        lengths = tokens.lengths([document.text for document in some]).tolist()
        count += len(some)
        for document, length in zip(some, lengths, strict=True):
            if length <= tokens.room or not document.text.strip():
                yield ChunkedDocument(document)
            elif truncate == "split":
                yield ChunkedDocument(document, tuple(split(document.text, tokens, overlap)))
            elif truncate == "warn":
                truncated += 1
                end = int(tokens.starts(document.text)[tokens.room])
                yield ChunkedDocument(document, (Span(0, end),), truncated=True)
            else:
                raise InputError(
                    f"{document.location}: the text has at least {length:,} tokens, but the maximum of "
                    f"{encoder.name} is {tokens.room:,}",
                    "split it into chunks with truncate='split' (--truncate split), or truncate it with "
                    "'warn'",
                )
    if truncated:
        logger.warning(
            "%d of %d documents are longer than the %d tokens of %s and were truncated; truncate='split' "
            "(--truncate split) splits them into chunks instead",
            truncated,
            count,
            tokens.room,
            encoder.name,
        )


def encode_checked(encoder: TextEncoder, texts: Sequence[str]) -> Vectors:
    """Encode texts, and raise InputError if the encoder does not keep its promise."""
    if not texts:
        return np.empty((0, encoder.dimension), dtype=np.float32)
    vectors = np.ascontiguousarray(encoder.encode(texts), dtype=np.float32)
    if vectors.shape != (len(texts), encoder.dimension):
        raise InputError(
            f"{encoder.name} returned an array of shape {vectors.shape} for {len(texts)} texts",
            f"an encoder must return the shape ({len(texts)}, {encoder.dimension})",
        )
    check_finite(vectors, texts, name=encoder.name)
    return vectors


def encode_unique(encoder: TextEncoder, texts: Sequence[str]) -> Vectors:
    """Encode texts, each of them once however often it occurs."""
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    vectors = encode_checked(encoder, list(places))
    return vectors if len(places) == len(texts) else vectors[[places[text] for text in texts]]


def normalize_for(metric: Metric, vectors: Vectors) -> Vectors:
    """Return vectors (n, dim) whose inner products are the metric's scores."""
    return normalised(vectors) if metric == "cosine" else np.ascontiguousarray(vectors, dtype=np.float32)


def metadata_json(document: Document) -> str | None:
    """Return a document's metadata as a store keeps it; None without any."""
    if not document.metadata:
        return None
    if odd := [name for name in document.metadata if not isinstance(name, str)]:
        raise InputError(
            f"{document.location}: the metadata key {odd[0]!r} is not a string", "convert it to a string"
        )
    values = dict(document.metadata)
    try:
        # SQLite finds fields by their names as they are written; only half a surrogate pair is escaped.
        text = json.dumps(values, ensure_ascii=False, allow_nan=False)
        return json.dumps(values) if SURROGATE.search(text) else text
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{document.location}: the metadata cannot be written as JSON: {error}") from None


def chunk_number(document: Any, part: Any) -> Any:
    """Return the number of a chunk, or of several, by that of its document and its place in it."""
    return document << _PARTS | part


def documents_of(chunks: Numbers) -> Numbers:
    """Return the numbers of the documents of chunks."""
    documents: Numbers = chunks >> _PARTS
    return documents
