"""Documents: one type for all of sentemb, read from any source; what a folder in the layout of BEIR is."""

from __future__ import annotations

import datetime
import decimal
import logging
import math
import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sentemb.data.files import AnyPath, Row, Source, read_file, require_columns, source_at
from sentemb.data.locate import DataDir
from sentemb.data.sources import read_rows
from sentemb.errors import InputError

logger = logging.getLogger(__name__)

CORPUS, QUERIES = "corpus.jsonl", "queries.jsonl"
NO_COLUMN = "none"
ID_COLUMNS = ("_id", "id", "doc_id", "docid", "docno", "document_id")
"""Usual names of the column of ids, in the order in which they are tried, in any letter case."""
SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a surrogate pair, which no file and no database can hold."""
IDS_HINT = (
    "use unique ids, name another column with --id-column, or number the documents with --id-column none"
)
_SPELLED = (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal)


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
        title: Its title, if that is not part of the text; an index puts it before the text.

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
        return f"{self.title} {self.text}".strip()


def corpus_of(folder: Source) -> Source | None:
    """Return the documents of a folder in the layout of BEIR; None if it does not have qrels or queries."""
    corpus = folder / CORPUS
    if not folder.is_dir() or not corpus.is_file():
        return None
    return corpus if (folder / QUERIES).is_file() or (folder / "qrels").is_dir() else None


def id_column_of(values: Mapping[str, Any]) -> str | None:
    """Return the column of a row's id by its usual names."""
    present = {name.lower(): name for name in reversed([*values])}
    return next((present[name] for name in ID_COLUMNS if name in present), None)


def _text_column_of(values: Mapping[str, Any], where: str) -> str:
    """Return the column of a row that holds its text if `--text-column` does not name one."""
    named = [*values] if len(values) == 1 else [name for name in ("text", "sentence") if name in values]
    if len(named) != 1:
        message = f"{where}: the text could be in any of the columns {', '.join(values)}"
        raise InputError(message, "name it with --text-column")
    if len(named[0].split()) > 4 or len(named[0]) > 40:  # a text of a table without a header
        message = f"{where}: the name of the only column, {named[0][:40]!r}, looks like a text"
        raise InputError(message, "name the column with --text-column, or add a header to the table")
    return named[0]


def stream_documents(
    source: AnyPath,
    text_column: str | None = None,
    title_column: str | None = None,
    id_column: str | None = None,
    *,
    data_dir: DataDir = None,
    check_text: bool = False,
) -> Iterator[Document]:
    """Stream documents as `read_documents` does, with separate titles, and unchecked texts of any type."""
    corpus = corpus_of(source_at(source))
    if corpus is not None:
        text_column = text_column or "text"
    rows = read_rows(source, data_dir=data_dir) if corpus is None else read_file(corpus)
    for position, row in enumerate(rows):
        values = row.values
        column = text_column or _text_column_of(values, row.location)
        title = title_column
        if title is None and column != "title" and values.get("title") is not None:
            title = "title"
        if position == 0 and id_column is None and id_column_of(values) != column:
            id_column = id_column_of(values)
        id_column = None if id_column == NO_COLUMN else id_column
        if column == id_column:
            message = f"the column {column!r} is used for both texts and ids"
            raise InputError(message, "name a different column for each")
        has_title = title not in (None, NO_COLUMN)
        require_columns([column], list(values), row.location)
        metadata = {name: value for name, value in values.items() if name not in (column, id_column)}
        yield Document(
            row.text(column) if check_text or has_title else values[column],
            None if id_column is None else _id_of(row, id_column, is_first=position == 0),
            plain_metadata(metadata, row.location),
            row.location,
            row.text(str(title)).strip() if has_title else "",
        )


def _id_of(row: Row, column: str, *, is_first: bool) -> str | int:
    value = row.values.get(column)
    if isinstance(value, (str, int)) and not isinstance(value, bool) and str(value).strip():
        return value
    if is_first:
        require_columns([column], list(row.values), row.location)
    if column not in row.values:
        problem = f" does not have the column {column!r}, which contains the ids of the other rows"
    else:
        shown = "null" if value is None else "blank" if isinstance(value, str) else reprlib.repr(value)
        problem = f": the id in column {column!r} is {shown}, not a string or an integer"
    raise InputError(f"{row.location}{problem}", IDS_HINT)


def read_documents(
    source: AnyPath,
    *,
    text_column: str | None = None,
    title_column: str | None = None,
    id_column: str | None = None,
    data_dir: DataDir = None,
) -> Iterator[Document]:
    """Stream documents for an index, whose texts begin with their titles.

    Args:
        source: What `read_rows` takes: a file with a document in each line or row, a page of Markdown or
            reStructuredText, a folder of such, a URI, a hub id or a data set; or a folder in the layout of
            BEIR, of which `corpus.jsonl` is read.
        text_column: Column of the text; by default the only one, or the one called `text` or `sentence`.
        title_column: Column of the title, which is put before the text; by default `title` if it exists;
            `none` reads no title.
        id_column: Column of the ids; by default the first of `ID_COLUMNS` in the first row, such as `id`;
            `none`, or a first row without one, numbers the documents. Other columns become metadata.
        data_dir: The data folder of the catalogue; `SENTEMB_DATA` by default.

    Raises:
        InputError: The source cannot be read, a column does not exist, or a row has no id.

    Example:
        >>> documents = list(read_documents("docs.jsonl"))
        >>> documents[0].id
        'sorted'
    """
    columns = (text_column, title_column, id_column)
    for document in stream_documents(source, *columns, data_dir=data_dir):
        yield replace(document, text=document.whole, title="") if document.title else document


def read_unique_documents(
    source: AnyPath,
    *,
    text_column: str | None = None,
    title_column: str | None = None,
    data_dir: DataDir = None,
) -> list[Document]:
    """Read documents without blank ones and duplicates; arguments and errors are as for `read_documents`."""
    found: dict[str, Document] = {}
    count = blank = 0
    columns = (text_column, title_column, NO_COLUMN)
    for document in stream_documents(source, *columns, data_dir=data_dir, check_text=True):
        count += 1
        document = replace(document, text=document.text.strip(), metadata={})
        blank += not document.whole
        found.setdefault(document.whole, document)
    found.pop("", None)
    if not found:
        raise InputError(f"{source} does not contain a document with a text")
    for number, kind in ((count - blank - len(found), "duplicates"), (blank, "blank")):
        if number:
            logger.warning("%s: %d of %d documents are %s and were skipped", source, number, count, kind)
    return list(found.values())


def split_documents(
    documents: Sequence[Document], *, share: float = 0.2, seed: int = 0
) -> tuple[list[Document], list[Document]]:
    """Draw a share of the documents to hold out; return the others and the held-out ones, in their order."""
    drawn = np.random.default_rng(seed).permutation(len(documents))[: round(share * len(documents))]
    kept = np.setdiff1d(np.arange(len(documents)), drawn)
    return [documents[number] for number in kept], [documents[number] for number in np.sort(drawn)]


def plain_metadata(metadata: Mapping[str, Any], location: str) -> dict[str, Any]:
    """Return metadata as values of JSON, or what JSON will refuse."""
    try:
        return {name: _as_json(value) for name, value in metadata.items()}
    except RecursionError:
        raise InputError(f"{location}: the metadata are nested too deeply", "flatten them") from None


def _as_json(value: Any) -> Any:
    """Return the nearest value of JSON, which does not have dates, decimals and NaN."""
    if isinstance(value, (str, int)) and type(value).__module__ == "builtins":
        return value
    if isinstance(value, Mapping):
        return {name: _as_json(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)) or (hasattr(value, "ndim") and value.ndim):
        return [_as_json(one) for one in value]
    is_moment = getattr(getattr(value, "dtype", None), "kind", "") in ("m", "M")  # of NumPy
    if is_moment or isinstance(value, _SPELLED):
        return str(value) if value == value else None  # no moment, or a decimal that is not a number
    if hasattr(value, "tolist"):  # a number of NumPy or torch
        value = value.tolist()
    return None if isinstance(value, float) and not math.isfinite(value) else value
