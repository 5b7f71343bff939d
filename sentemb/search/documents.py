"""What is indexed: a text, the user's id for it and whatever else is known of it."""

from __future__ import annotations

import datetime
import decimal
import math
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentemb.data.documents import Document as Document
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.data.files import Row

_TEXT = "text"  # of a corpus in BEIR's layout
LARGE_ID = 2**62
"""An id from here on does not move the counter of automatic ids, so that no single id can exhaust it."""
_LAST_ID = 2**63 - 1
_NEAR = 2**32  # more documents than one call adds
_SPELLED = (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal)
_TIMES = ("m", "M")  # kinds of NumPy's durations and moments
_HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair


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
        document = _as_document(item, position)
        location = document.location or f"document {position}"
        identifier = document.id
        if identifier is None:
            if first is None:
                raise InputError(
                    f"{location} does not have an id, which an update needs",
                    "set the id of every document, or use add",
                )
            identifier = first + position
        _check(document.text, identifier, location)
        metadata = _plain(document.metadata, location)
        yield replace(document, id=identifier, metadata=metadata, location=location)


def read_documents(
    source: str | Path,
    *,
    text_column: str | None = None,
    title_column: str | None = None,
    id_column: str | None = None,
    data_dir: str | Path | None = None,
) -> Iterator[Document]:
    """Stream documents from anything the data room reads.

    Args:
        source: As for `sentemb.data.sources.read_rows`: a file, a folder, a URI, a hub id or a name of the
            catalogue. Of a folder in BEIR's layout it is `corpus.jsonl`, with its own ids.
        text_column: The column to encode; by default the only one, or the one called `text` or `sentence`.
        title_column: The column that is put before the text; by default `title`, where there is one; `none`
            takes none.
        id_column: The column that holds the ids; by default the first of `ID_COLUMNS` that the first row has,
            such as `id`; `none`, or a first row without one, numbers the documents. The columns that are
            neither text nor id become metadata.
        data_dir: Where local data sets lie; `SENTEMB_DATA` by default.

    Yields:
        One document for each record.

    Raises:
        InputError: The source cannot be read, or has no such column, or a row has no id.

    Example:
        >>> documents = list(read_documents("docs.jsonl"))
        >>> documents[0].id
        'sorted'
    """
    from sentemb.data.files import read_file
    from sentemb.data.remote import source_at
    from sentemb.data.retrieval_files import corpus_of
    from sentemb.data.sources import read_rows
    from sentemb.data.tables import id_column_of, require_columns, text_column_of, title_column_of, titled

    corpus = corpus_of(source_at(source))
    if corpus is not None:
        text_column = text_column or _TEXT
    rows = read_rows(source, data_dir=data_dir) if corpus is None else read_file(corpus)
    for position, row in enumerate(rows):
        values = row.values
        column = text_column or text_column_of(values, row.location)
        title = title_column_of(values, title_column, text=column)
        if position == 0:
            named = id_column
            id_column = id_column_of(values, named)
            id_column = None if named is None and id_column == column else id_column
            require_columns([column, *([id_column] if id_column else ())], list(values), row.location)
        if column == id_column:
            raise InputError(
                f"the column {column!r} is used for both texts and ids", "name a different column for each"
            )
        taken = [column] if id_column is None else [column, id_column]
        require_columns([column], list(values), row.location)
        identifier = None if id_column is None else _id_of(row, id_column)
        metadata = {name: value for name, value in values.items() if name not in taken}
        text = values[column] if title is None else titled(row.text(title), row.text(column))
        yield Document(text, identifier, _plain(metadata, row.location), row.location)


def _id_of(row: Row, column: str) -> str | int:
    from sentemb.data.tables import IDS_HINT

    value = row.values.get(column)
    if column not in row.values:
        raise InputError(
            f"{row.location} does not have the column {column!r}, which contains the ids of the other rows",
            IDS_HINT,
        )
    if value is None or (isinstance(value, str) and not value.strip()):
        found = "null" if value is None else "blank"
        raise InputError(f"{row.location}: the id in column {column!r} is {found}", IDS_HINT)
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise InputError(
            f"{row.location}: the id {reprlib.repr(value)} in column {column!r} is not a string or an "
            "integer",
            IDS_HINT,
        )
    check_id(value, row.location)
    return value


def _as_document(item: Any, position: int) -> Document:
    if isinstance(item, Document):
        return item
    if isinstance(item, str):
        return Document(item)
    if isinstance(item, tuple) and len(item) in (2, 3):
        identifier, text, *metadata = item
        return Document(text, identifier, metadata[0] if metadata else {})
    raise InputError(
        f"document {position} is a {type(item).__name__}",
        "pass a text, (id, text), (id, text, metadata) or a sentemb.search.Document",
    )


def _check(text: Any, identifier: Any, location: str) -> None:
    if not isinstance(text, str):
        raise InputError(f"{location}: the text is a {type(text).__name__}, not a string")
    check_id(identifier, location)
    check_letters("text", text, location)


def check_id(identifier: Any, location: str) -> None:
    """Refuse what cannot be the id of a document."""
    if not isinstance(identifier, (str, int)) or isinstance(identifier, bool):
        raise InputError(f"{location}: the id {identifier!r} is neither a string nor an integer")
    if isinstance(identifier, int) and not -(2**63) <= identifier < 2**63:
        raise InputError(f"{location}: the id {identifier} has more than 64 bits", "pass it as a string")
    check_letters("id", str(identifier), location)


def next_id_after(identifier: int, next_id: int) -> int:
    """Return the next automatic id once `identifier` is in use.

    Automatic ids follow the largest integer id. Large ids, such as 64-bit hashes, are the exception, unless
    the counter itself has reached them.
    """
    if identifier < max(LARGE_ID, next_id + _NEAR):
        return min(max(next_id, identifier + 1), _LAST_ID)
    return next_id


def next_free_id(identifiers: Iterable[int], stored: int) -> int:
    """Return the next automatic id of an index.

    Args:
        identifiers: Integer ids in use, ascending; of those below `LARGE_ID` only the largest matters.
        stored: The counter so far. One that has been exhausted starts again behind the ids in use.
    """
    next_id = 0 if stored >= _LAST_ID else stored
    for identifier in identifiers:
        next_id = next_id_after(identifier, next_id)
    return next_id


def check_letters(what: str, value: str, location: str) -> None:
    """Refuse half a surrogate pair, which no file and no database can hold."""
    if _HALF.search(value):
        raise InputError(
            f"{location}: the {what} contains an unpaired surrogate, which is not a valid character"
        )


def _plain(metadata: Mapping[str, Any], location: str) -> dict[str, Any]:
    """Return metadata as values of JSON, or what JSON will refuse."""
    try:
        return {name: _as_json(value) for name, value in metadata.items()}
    except RecursionError:
        raise InputError(f"{location}: the metadata are nested too deeply", "flatten them") from None


def _as_json(value: Any) -> Any:
    """Return the nearest value that JSON can hold, which has no dates, decimals and NaN."""
    if isinstance(value, (str, int)) and type(value).__module__ == "builtins":
        return value
    if isinstance(value, Mapping):
        return {name: _as_json(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)) or (hasattr(value, "ndim") and value.ndim):
        return [_as_json(one) for one in value]
    if getattr(getattr(value, "dtype", None), "kind", "") in _TIMES or isinstance(value, _SPELLED):
        return str(value) if value == value else None  # no moment, or a decimal that is not a number
    if hasattr(value, "tolist"):  # a number of NumPy or torch
        value = value.tolist()
    return None if isinstance(value, float) and not math.isfinite(value) else value
