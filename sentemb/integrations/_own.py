"""What adapters ask of an index; ids of frameworks are strings, those of an index may be integers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sentemb.errors import InputError
from sentemb.search import Document, SearchIndex
from sentemb.search.encoders import AdaptedEncoder


def check_plain(index: SearchIndex) -> SearchIndex:
    """Refuse an index that maps the vectors of queries, which frameworks compute by themselves."""
    if isinstance(index.encoder, AdaptedEncoder):
        raise InputError(
            "the index uses an adapter (`sentemb index upgrade --adapter`), which this integration does not "
            "support",
            "upgrade the index without --adapter",
        )
    return index


def own_ids(index: SearchIndex, ids: Sequence[str]) -> list[str | int]:
    """The ids of the index: the integer 3 for "3" where it has that document and no other."""
    numbers = {key: int(key) for key in ids if key.isdecimal() and len(key) < 19 and str(int(key)) == key}
    if not numbers:
        return list(ids)
    named = dict(zip(numbers, index.get(numbers), strict=True))
    numbered = dict(zip(numbers, index.get(numbers.values()), strict=True))
    return [numbers[key] if numbered.get(key) and not named[key] else key for key in ids]


def ids_of(documents: Iterable[Document]) -> list[str | int]:
    """The ids of documents of an index, which all have one."""
    return [document.id for document in documents if document.id is not None]
