"""Documents: one type for all of sentemb, read from any source."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sentemb.data.files import read_file
from sentemb.data.remote import source_at
from sentemb.data.retrieval_files import corpus_of
from sentemb.data.sources import read_rows
from sentemb.data.tables import text_column_of, title_column_of, titled
from sentemb.errors import InputError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Document:
    """A document to train on, to search or to generate queries from.

    Args:
        text: What is encoded. An index skips and counts documents whose text is empty or blank.
        id: The user's name for it, a string or a 64-bit integer, unique in an index; by default the
            document's position, counted from 0.
        metadata: Values of JSON. Numbers of NumPy become numbers, tuples and arrays lists, dates and decimals
            text, and what is not finite null.
        location: Where it came from (`file:line`), for error messages.
        title: Its title, if that is not part of the text.

    Example:
        >>> Document("a cat sat", id="note-1", metadata={"year": 2020}).metadata["year"]
        2020
    """

    text: str
    id: str | int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    location: str | None = None
    title: str = ""

    @property
    def whole(self) -> str:
        """Title and text, joined by a space as in BEIR."""
        return titled(self.title, self.text)


def read_unique_documents(
    source: str | Path,
    *,
    text_column: str | None = None,
    title_column: str | None = None,
    data_dir: str | Path | None = None,
) -> list[Document]:
    """Read documents without blank ones and duplicates.

    Args:
        source: What `read_rows` takes: a file with a document in each line or row, a page of Markdown or
            reStructuredText, a folder of such; or a folder in the layout of BEIR, from which
            `corpus.jsonl` is read.
        text_column: Column of the text; by default the only one, or the one called `text` or `sentence`.
        title_column: Column of the title; by default `title` if it exists; `none` reads no title.
        data_dir: The data folder of the catalogue; `SENTEMB_DATA` by default.

    Returns:
        The documents in their order.

    Raises:
        InputError: The source or a column does not exist, a value is not text, or nothing is left.
    """
    found: dict[str, Document] = {}
    count = blank = 0
    corpus = corpus_of(source_at(source))
    for row in read_rows(source, data_dir=data_dir) if corpus is None else read_file(corpus):
        count += 1
        column = text_column or text_column_of(row.values, row.location)
        text = row.text(column)
        named = title_column_of(row.values, title_column, text=column)
        title = "" if named is None else row.text(named).strip()
        document = Document(text.strip(), title=title, location=row.location)
        if document.whole:
            found.setdefault(document.whole, document)
        else:
            blank += 1
    if not found:
        raise InputError(f"{source} does not contain a document with a text")
    if repeated := count - blank - len(found):
        logger.warning("%s: %d of %d documents are duplicates and were skipped", source, repeated, count)
    if blank:
        logger.warning("%s: %d of %d documents are blank and were skipped", source, blank, count)
    return list(found.values())


def split_documents(
    documents: Sequence[Document], *, share: float = 0.2, seed: int = 0
) -> tuple[list[Document], list[Document]]:
    """Draw a share of the documents to hold out; return the others and the held-out ones, in their order."""
    drawn = np.random.default_rng(seed).permutation(len(documents))[: round(share * len(documents))]
    out = {int(number) for number in drawn}
    kept = [document for number, document in enumerate(documents) if number not in out]
    return kept, [documents[number] for number in sorted(out)]
