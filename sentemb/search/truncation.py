"""What becomes of texts that are longer than the model reads."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from typing import Any, get_args

from sentemb.encoding.tokens import Tokens, tokens_of
from sentemb.errors import InputError
from sentemb.search.documents import Document
from sentemb.search.passages import split
from sentemb.search.prepared import Prepared, Span, Truncate

logger = logging.getLogger(__name__)

_DOCUMENTS = 256
_MOST_OVERLAP = 0.5


def check_truncation(truncate: str, overlap: float) -> None:
    """Refuse what is no way to treat long texts, before any work is done."""
    if truncate not in get_args(Truncate):
        raise InputError(f"unknown truncate {truncate!r}", f"choose one of {', '.join(get_args(Truncate))}")
    if not isinstance(overlap, (int, float)) or not 0 <= overlap <= _MOST_OVERLAP:
        raise InputError(f"overlap is {overlap!r}", f"choose a share from 0 to {_MOST_OVERLAP}")


class Truncation:
    """Prepares documents for one encoder."""

    def __init__(self, encoder: Any, truncate: Truncate, overlap: float) -> None:
        check_truncation(truncate, overlap)
        self._encoder = encoder
        self._truncate: Truncate = truncate
        self._overlap = overlap

    def prepared(self, documents: Iterator[Document]) -> Iterator[Prepared]:
        """Documents as they are indexed, in their order."""
        tokens = tokens_of(self._encoder)
        if tokens is None:
            yield from map(Prepared, documents)
            return
        count = cut = 0
        if self._truncate == "warn":
            tokens.cut.said = True  # it is said of documents
        while some := list(islice(documents, _DOCUMENTS)):
            lengths = tokens.lengths([document.text for document in some]).tolist()
            count += len(some)
            for document, length in zip(some, lengths, strict=True):
                long = length > tokens.room and document.text.strip()
                prepared = self._long(document, length, tokens) if long else Prepared(document)
                cut += prepared.cut
                yield prepared
        if cut:
            logger.warning(
                "%d of %d documents are longer than the %d tokens of %s and were truncated; truncate='split' "
                "(--truncate split) splits them into chunks instead",
                cut,
                count,
                tokens.room,
                self._encoder.name,
            )

    def _long(self, document: Document, length: int, tokens: Tokens) -> Prepared:
        text = document.text
        if self._truncate == "error":
            raise InputError(
                f"{document.location}: the text has at least {length:,} tokens, but the maximum of "
                f"{self._encoder.name} is {tokens.room:,}",
                "split it into chunks with truncate='split' (--truncate split), or truncate it with 'warn'",
            )
        if self._truncate == "split":
            return Prepared(document, tuple(split(text, tokens, self._overlap)))
        return Prepared(document, (Span(0, int(tokens.starts(text)[tokens.room])),), cut=True)
