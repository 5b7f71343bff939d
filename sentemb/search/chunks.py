"""Documents as they are indexed: whole, in chunks that the model reads, or truncated."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from typing import Any, Literal, NamedTuple, get_args

from sentemb.encoding.tokens import tokens_of
from sentemb.errors import InputError
from sentemb.search.documents import Document
from sentemb.search.passages import Span, split

logger = logging.getLogger(__name__)

Truncate = Literal["split", "warn", "error"]
"""What becomes of a text that is longer than the model reads: it is split into chunks, its beginning is
indexed with a warning, or it is an error."""

OVERLAP = 0.125
_MOST_OVERLAP = 0.5
_DOCUMENTS = 256


class ChunkedDocument(NamedTuple):
    """A document as it is indexed.

    Args:
        document: The document.
        spans: Its chunks; empty where its text is indexed as it is. Of a truncated text, what the model
            reads.
        truncated: Whether the model truncates it.
    """

    document: Document
    spans: tuple[Span, ...] = ()
    truncated: bool = False

    @property
    def chunked(self) -> bool:
        """Whether its chunks are indexed in place of its text."""
        return bool(self.spans) and not self.truncated

    @property
    def texts(self) -> list[str]:
        """The texts that are encoded; none of a blank document."""
        whole = self.document.text
        if self.chunked:
            return [whole[start:stop] for start, stop in self.spans]
        return [whole] if whole.strip() else []


def check_truncation(truncate: str, overlap: float) -> None:
    """Raise InputError if there is no such way to treat long texts."""
    if truncate not in get_args(Truncate):
        raise InputError(f"unknown truncate {truncate!r}", f"choose one of {', '.join(get_args(Truncate))}")
    if not isinstance(overlap, (int, float)) or not 0 <= overlap <= _MOST_OVERLAP:
        raise InputError(f"overlap is {overlap!r}", f"choose a share from 0 to {_MOST_OVERLAP}")


def chunk_documents(
    documents: Iterator[Document], encoder: Any, truncate: Truncate, overlap: float
) -> Iterator[ChunkedDocument]:
    """Yield documents as they are indexed for an encoder, in their order.

    Args:
        documents: The documents.
        encoder: The encoder; one without `tokens` is taken to read everything.
        truncate: What becomes of long texts.
        overlap: How much of a chunk may be repeated in the next one, as a share of the model's length.

    Yields:
        The documents with their chunks.

    Raises:
        InputError: A text is too long and `truncate` is `error`, or an option is out of range.
    """
    check_truncation(truncate, overlap)
    tokens = tokens_of(encoder)
    if tokens is None:
        yield from map(ChunkedDocument, documents)
        return
    count = truncated = 0
    if truncate == "warn":
        tokens.cut.said = True  # documents are reported below
    while some := list(islice(documents, _DOCUMENTS)):
        lengths = tokens.lengths([document.text for document in some]).tolist()
        count += len(some)
        for document, length in zip(some, lengths, strict=True):
            if length <= tokens.room or not document.text.strip():
                yield ChunkedDocument(document)
            elif truncate == "error":
                raise InputError(
                    f"{document.location}: the text has at least {length:,} tokens, but the maximum of "
                    f"{encoder.name} is {tokens.room:,}",
                    "split it into chunks with truncate='split' (--truncate split), or truncate it with "
                    "'warn'",
                )
            elif truncate == "split":
                yield ChunkedDocument(document, tuple(split(document.text, tokens, overlap)))
            else:
                truncated += 1
                end = int(tokens.starts(document.text)[tokens.room])
                yield ChunkedDocument(document, (Span(0, end),), truncated=True)
    if truncated:
        logger.warning(
            "%d of %d documents are longer than the %d tokens of %s and were truncated; truncate='split' "
            "(--truncate split) splits them into chunks instead",
            truncated,
            count,
            tokens.room,
            encoder.name,
        )
