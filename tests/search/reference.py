"""Keyword and hybrid search by their definitions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sentemb.search import Hit
from tests.fusion_loops import fused_by_loops

Scores = list[tuple[Any, float]]
Terms = Callable[[str], Mapping[str, int]]


def words_of(text: str) -> Counter[str]:
    """Count the terms of a text that consists of plain words."""
    return Counter(text.split())


def bm25(
    documents: Mapping[Any, str],
    query: tuple[Mapping[str, int], Mapping[str, int]],
    k: int,
    terms_of: Terms = words_of,
) -> Scores:
    """BM25 of the best documents that have a term of the query; of equal ones the first comes first.

    The query has terms, and others that count 0.4 in documents that have one of the former.
    """
    terms = {key: terms_of(text) for key, text in documents.items()}
    mean = sum(sum(own.values()) for own in terms.values()) / max(len(terms), 1)
    content, support = query
    weights = {**{term: 0.4 * count for term, count in support.items()}, **content}
    scores: dict[Any, float] = {}
    for term, wanted in weights.items():
        holding = sum(term in own for own in terms.values())
        idf = max(math.log((len(terms) - holding + 0.5) / (holding + 0.5)), 1e-6)
        for key, own in terms.items():
            if term in own and any(other in own for other in content):
                length = sum(own.values())
                gain = idf * own[term] * 2.2 / (own[term] + 1.2 * (0.25 + 0.75 * length / mean))
                scores[key] = scores.get(key, 0) + wanted * gain
    return _best(scores, documents, k)


def fused(
    dense: Sequence[Hit], keyword: Sequence[Hit], documents: Iterable[Any], k: int, *, total: int
) -> Scores:
    """The fusion of two rankings of some documents."""
    pairs = [[(hit.id, hit.score) for hit in hits] for hits in (dense, keyword)]
    return _best(fused_by_loops(pairs[0], pairs[1], total), documents, k)


def _best(scores: Mapping[Any, float], documents: Iterable[Any], k: int) -> Scores:
    places = {key: place for place, key in enumerate(documents)}
    return sorted(scores.items(), key=lambda pair: (-round(pair[1], 9), places[pair[0]]))[:k]


def agree(hits: Sequence[Hit], expected: Scores) -> bool:
    """Return True if the hits have these ids in this order, with scores equal to 1e-6."""
    return [hit.id for hit in hits] == [key for key, _ in expected] and all(
        abs(hit.score - score) <= 1e-6 for hit, (_, score) in zip(hits, expected, strict=True)
    )
