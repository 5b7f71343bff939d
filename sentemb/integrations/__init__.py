"""Adapters for other frameworks, one module each; importing one needs its framework."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sentemb.search import Document, SearchIndex

__all__: list[str] = []
_INTEGER = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)


def own_ids(index: SearchIndex, ids: Sequence[str]) -> list[str | int]:
    """Return the ids in the index: the integer 3 for "3" if the index has document 3 but not "3"."""
    numbers = {key: int(key) for key in ids if _INTEGER.fullmatch(key)}
    if not numbers:
        return list(ids)
    named = dict(zip(numbers, index.get(numbers), strict=True))
    numbered = dict(zip(numbers, index.get(numbers.values()), strict=True))
    return [numbers[key] if numbered.get(key) and not named[key] else key for key in ids]


def ids_of(documents: Iterable[Document]) -> list[str | int]:
    """Return the ids of documents of an index, which all have one."""
    return [document.id for document in documents if document.id is not None]
