"""What is indexed: a text, the user's id for it and whatever else is known of it."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sentemb.errors import InputError

_ID, _TEXT = "_id", "text"  # of a corpus in BEIR's layout
LARGE_ID = 2**62
"""An id from here on does not move the counter of automatic ids, so that no single id can exhaust it."""
_LAST_ID = 2**63 - 1
_NEAR = 2**32  # more documents than one call adds
_HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair


@dataclass(frozen=True, slots=True)
class Document:
    """One thing to be found.

    Args:
        text: What is encoded. A document whose text is empty or blank is left out of the index and counted.
        id: The user's name for it, a string or a 64-bit integer, unique in the index; without one it is the
            document's position, counted from 0.
        metadata: Anything JSON can hold; a hit hands it back unchanged.
        location: Where it came from (`file:line`), for error messages.
    """

    text: str
    id: str | int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    location: str | None = None


def as_documents(items: Iterable[Any], *, first: int = 0) -> Iterator[Document]:
    """Bring every accepted form of a document into one, with an id, counted from `first`, and a location."""
    if isinstance(items, (str, bytes, Path)):
        raise InputError(
            f"documents must be a collection of texts, not the single value {str(items)[:60]!r}",
            "read a file with sentemb.search.read_documents(path), or pass a list",
        )
    for position, item in enumerate(items):
        document = _as_document(item, position)
        location = document.location or f"document {position}"
        identifier = first + position if document.id is None else document.id
        _check(document.text, identifier, location)
        yield replace(document, id=identifier, location=location)


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
        id_column: The column that holds the ids; without it, ids are positions. The columns that are neither
            text nor id become metadata.
        data_dir: Where local data sets lie; `SENTEMB_DATA` by default.

    Yields:
        One document for each record.

    Raises:
        InputError: The source cannot be read, or has no such column.
    """
    from sentemb.data.files import read_file
    from sentemb.data.remote import source_at
    from sentemb.data.retrieval_files import corpus_of
    from sentemb.data.sources import read_rows
    from sentemb.data.tables import require_columns, text_column_of, title_column_of, titled

    corpus = corpus_of(source_at(source))
    if corpus is not None:
        text_column, id_column = text_column or _TEXT, id_column or _ID
    for row in read_rows(source, data_dir=data_dir) if corpus is None else read_file(corpus):
        values = row.values
        column = text_column or text_column_of(values, row.location)
        title = title_column_of(values, title_column, text=column)
        if column == id_column:
            raise InputError(f"the column {column!r} is named for texts and for ids", "name one for each")
        taken = [column] if id_column is None else [column, id_column]
        require_columns(taken, list(values), row.location)
        identifier = None if id_column is None else values[id_column]
        if id_column is not None and identifier is None:
            raise InputError(
                f"{row.location}: the id in column {id_column!r} is null", "give every row an id"
            )
        metadata = {name: _as_json(value) for name, value in values.items() if name not in taken}
        text = values[column] if title is None else titled(row.text(title), row.text(column))
        yield Document(text, identifier, metadata, row.location)


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
        raise InputError(f"{location}: the {what} holds half a surrogate pair, which is no character")


def _as_json(value: Any) -> Any:
    """The nearest value that JSON can hold: files have dates, decimals and NaN, metadata has not."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal)):
        return str(value)
    return value
