"""The documents that a user has, with their titles where they have some."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sentemb.data.files import Row, read_file
from sentemb.data.remote import source_at
from sentemb.data.sources import read_rows
from sentemb.data.tables import text_column_of, title_column_of, titled
from sentemb.errors import InputError

logger = logging.getLogger(__name__)

_CORPUS = "corpus.jsonl"


class OwnDocument(NamedTuple):
    """A document.

    Attributes:
        id: Where it was read, such as `docs.jsonl:12`.
        title: Its title; empty where it has none.
        text: The rest.
    """

    id: str
    title: str
    text: str

    @property
    def whole(self) -> str:
        """Title and text, joined by a space as in BEIR."""
        return titled(self.title, self.text)


def read_own_documents(
    source: str | Path,
    *,
    text_column: str | None = None,
    title_column: str | None = None,
    data_dir: str | Path | None = None,
) -> list[OwnDocument]:
    """Read documents, without those that are blank or were there before.

    Args:
        source: What `read_rows` takes: a file with a document in each line or row, a page of Markdown or
            reStructuredText, a folder of such; or a folder in BEIR's layout, whose `corpus.jsonl` is read and
            whose queries and judgements are not.
        text_column: Column of the text; by default the only one, or the one called `text` or `sentence`.
        title_column: Column of the title; by default `title`, where there is one; `none` takes none.
        data_dir: Where the catalogue's sets lie; `SENTEMB_DATA` by default.

    Returns:
        The documents in their order.

    Raises:
        InputError: The source or a column is not there, a value is no text, or nothing is left.
    """
    found: dict[str, OwnDocument] = {}
    count = blank = 0
    for row in _rows(source, data_dir):
        count += 1
        column = text_column or text_column_of(row.values, row.location)
        text = row.text(column)
        named = title_column_of(row.values, title_column, text=column)
        document = OwnDocument(row.location, "" if named is None else row.text(named).strip(), text.strip())
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


def _rows(source: str | Path, data_dir: str | Path | None) -> Iterator[Row]:
    place = source_at(source)
    if place.is_dir() and (corpus := place / _CORPUS).is_file():
        return read_file(corpus)
    return read_rows(source, data_dir=data_dir)


def split_documents(
    documents: Sequence[OwnDocument], *, share: float = 0.2, seed: int = 0
) -> tuple[list[OwnDocument], list[OwnDocument]]:
    """Hold documents out.

    Args:
        documents: All of them.
        share: How many are held out, as a share of all.
        seed: Of the draw.

    Returns:
        The others and those that are held out, each in their order.
    """
    drawn = np.random.default_rng(seed).permutation(len(documents))[: round(share * len(documents))]
    out = {int(number) for number in drawn}
    kept = [document for number, document in enumerate(documents) if number not in out]
    return kept, [documents[number] for number in sorted(out)]
