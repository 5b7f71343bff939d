"""What adapters ask of an index; ids of frameworks are strings, those of an index may be integers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sentemb.search import Document, SearchIndex


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
