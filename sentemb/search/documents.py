"""What is indexed: a text, the user's id for it and whatever else is known of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentemb.data.documents import Document as Document
from sentemb.data.documents import plain_metadata
from sentemb.data.documents import read_documents as read_documents
from sentemb.errors import InputError

if TYPE_CHECKING:
    pass

_TEXT = "text"  # of a corpus in BEIR's layout
LARGE_ID = 2**62
"""An id from here on does not move the counter of automatic ids, so that no single id can exhaust it."""
_LAST_ID = 2**63 - 1
_NEAR = 2**32  # more documents than one call adds
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
        metadata = plain_metadata(document.metadata, location)
        yield Document(document.whole if document.title else document.text, identifier, metadata, location)


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
