"""Changes of a served index."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sentemb.errors import InputError
from sentemb.search import Changed, Document, SearchIndex
from sentemb.serving.indexes import ServedIndex
from sentemb.serving.problems import Problem
from sentemb.serving.search_shapes import DeleteRequest, NewDocument, WriteRequest, fits


def check_new(given: WriteRequest) -> None:
    """Refuse two documents with one id, and ids that no index can hold.

    Args:
        given: The documents.

    Raises:
        Problem: Two have one id, or one has more than 64 bits.
    """
    places: dict[str | int, int] = {}
    for place, document in enumerate(given.documents):
        if document.id is not None and not fits(document.id):
            raise Problem(
                409,
                f"the id {document.id} has more than 64 bits; send it as a string",
                field=f"documents.{place}.id",
            )
        if document.id is not None and (before := places.setdefault(document.id, place)) != place:
            raise Problem(
                409,
                f"documents {before} and {place} have the same id {document.id!r}; send each id once",
                field=f"documents.{place}.id",
            )


async def written(served: ServedIndex, given: WriteRequest, *, replacing: bool) -> Changed:
    """Add documents, or put them in the place of those with their ids.

    Args:
        served: The index.
        given: The documents.
        replacing: Whether ids may be in the index.

    Returns:
        The counts.

    Raises:
        Problem: An id is in the index and must not be, a document is not valid, or too much waits.
    """
    documents = [_document(one, place) for place, one in enumerate(given.documents)]

    def work(index: SearchIndex) -> Changed:
        if replacing:
            return index.update(documents, truncate=given.truncate)
        _refuse_known(index, documents)
        return index.add(documents, truncate=given.truncate)

    try:
        return await served.change(work)
    except InputError as error:
        place = re.match(r"documents\.\d+", error.message)
        raise Problem(409, str(error), field=place[0] if place else None) from None


async def deleted(served: ServedIndex, given: DeleteRequest) -> int:
    """Delete documents.

    Args:
        served: The index.
        given: Their ids.

    Returns:
        How many there were.

    Raises:
        Problem: Too much waits.
    """
    return await served.change(lambda index: index.delete(list(filter(fits, given.ids))))


def _document(given: NewDocument, place: int) -> Document:
    return Document(given.text, given.id, given.metadata, location=f"documents.{place}")


def _refuse_known(index: SearchIndex, documents: Sequence[Document]) -> None:
    """Name the document whose id is in the index; another process may still be faster."""
    named = [(place, document.id) for place, document in enumerate(documents) if document.id is not None]
    known = index.get([key for _, key in named])
    for (place, key), there in zip(named, known, strict=True):
        if there is not None:
            raise Problem(
                409,
                f"documents.{place}: the id {key!r} is already in the index; replace the document with PUT",
                field=f"documents.{place}.id",
            )
