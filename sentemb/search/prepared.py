"""A document as it is indexed: its text, or the passages it was cut into."""

from __future__ import annotations

from typing import Literal, NamedTuple

from sentemb.search.documents import Document

Truncate = Literal["split", "warn", "error"]
"""What becomes of a text that is longer than the model reads: it is split into passages, its beginning is
indexed with a warning, or it is refused."""

OVERLAP = 0.125


class Span(NamedTuple):
    """A part of a text: `text[start:stop]`."""

    start: int
    stop: int


class Prepared(NamedTuple):
    """A document as it is indexed.

    Args:
        document: The document.
        spans: Its passages; none where its text is indexed as it is. Of a text that the model cuts, what the
            model reads.
        cut: Whether the model cuts it.
    """

    document: Document
    spans: tuple[Span, ...] = ()
    cut: bool = False

    @property
    def split(self) -> bool:
        """Whether its passages are indexed in place of its text."""
        return bool(self.spans) and not self.cut

    @property
    def texts(self) -> list[str]:
        """The texts that are encoded."""
        whole = self.document.text
        return [whole[start:stop] for start, stop in self.spans] if self.split else [whole]
