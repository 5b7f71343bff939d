"""One search: by vectors, by keywords or by both, in one state of the documents."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import repeat
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from sentemb._fusion import EVEN, FUSED, Ranking, fuse
from sentemb.encoding.encoder import TextEncoder, Vectors
from sentemb.errors import InputError
from sentemb.search.calibration import lowest_score
from sentemb.search.documents import check_letters
from sentemb.search.encoders import of_documents
from sentemb.search.hit import Hit
from sentemb.search.keywords import query_terms
from sentemb.search.snippets import snippets_of
from sentemb.search.vectors import comparable
from sentemb.search.view import Fetched, Ranked, View
from sentemb.search.where import Where

logger = logging.getLogger(__name__)

Mode = Literal["dense", "keyword", "hybrid"]
Rank = Callable[[View], list[list[Ranked]] | None]
"""The ranking of each query in a state of the documents; None where they have changed meanwhile."""


class Wanted(NamedTuple):
    """What is asked for besides the queries; see `SearchIndex.search`."""

    k: int
    mode: Mode
    min_score: float | str | None
    where: Where | None

    @classmethod
    def checked(cls, k: Any, mode: Any, min_score: float | str | None, where: Any) -> Wanted:
        """Refuse what cannot be asked for."""
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise InputError(f"k must be a positive integer, not {k!r}", "choose 1 or more")
        if mode not in get_args(Mode):
            raise InputError(f"unknown mode {mode!r}", f"choose one of {', '.join(get_args(Mode))}")
        if mode != "dense" and isinstance(min_score, str) and "%" in min_score:
            raise InputError(
                f"min_score {min_score} is a percentile, which works only in dense search",
                "pass a score, or use dense mode",
            )
        return cls(int(k), mode, min_score, None if where is None else Where(where))


def check_queries(queries: Any, *, blank: bool) -> list[str]:
    """Return one or several queries as a list; blank texts are fine where vectors are given for them."""
    if isinstance(queries, (Mapping, Set, bytes)) or not isinstance(queries, Iterable):
        raise InputError(
            f"queries must be a string or a list of strings, not a {type(queries).__name__}",
            "convert them to a list",
        )
    texts = [queries] if isinstance(queries, str) else list(queries)
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"query {position} is not a string")
        if not (blank or text.strip()):
            raise InputError(f"query {position} is blank")
        check_letters("text", text, f"query {position}")
    return texts


def by_vectors(view: View, encoded: Vectors, wanted: Wanted, encoder: TextEncoder) -> Rank:
    """Rank by what texts mean, with the encoder of queries."""
    vectors = comparable(encoded, view.manifest.metric)

    def rank(now: View) -> list[list[Ranked]] | None:
        least = lowest_score(wanted.min_score, now.manifest.calibration, now.manifest.vectors)
        return now.rank(vectors, wanted.k, least, wanted.where, of_documents(encoder))

    return rank


def by_keywords(view: View, queries: Sequence[str], wanted: Wanted) -> Rank:
    """Rank by the words that texts share."""
    terms = query_terms(queries, view.language)
    least = lowest_score(wanted.min_score, None, 0)
    return lambda now: now.rank_by_keywords(terms, wanted.k, least, wanted.where)


def by_both(
    view: View,
    encoded: Vectors,
    queries: Sequence[str],
    wanted: Wanted,
    encoder: TextEncoder,
    weight: float = EVEN,
) -> Rank:
    """Rank by the fusion of both rankings, with the vectors' weight."""
    longer = wanted._replace(k=max(wanted.k, FUSED), min_score=None)
    parts = (by_vectors(view, encoded, longer, encoder), by_keywords(view, queries, longer))
    least = lowest_score(wanted.min_score, None, 0)

    def rank(now: View) -> list[list[Ranked]] | None:
        dense, keyword = (part(now) for part in parts)
        part = now.part(wanted.where)
        if dense is None or keyword is None or part is None:
            return None
        return [
            _fused(by_meaning, by_words, part.documents, weight, wanted.k, least)
            for by_meaning, by_words in zip(dense, keyword, strict=True)
        ]

    return rank


def _fused(
    dense: list[Ranked], keyword: list[Ranked], total: int, weight: float, k: int, least: float | None
) -> list[Ranked]:
    fused = fuse(ranking(dense), ranking(keyword), total, weight, depth=k)
    texts = {one.document: one.text for one in dense}
    return [
        Ranked(score, document, texts.get(document))
        for score, document in zip(fused.scores.tolist(), fused.documents.tolist(), strict=True)
        if least is None or score >= least
    ]


def ranking(ranked: list[Ranked]) -> Ranking:
    """The same as arrays."""
    documents = np.array([one.document for one in ranked], dtype=np.int64)
    return Ranking(documents, np.array([one.score for one in ranked]))


def find(current: Callable[[], View], rank: Rank, queries: Sequence[str], wanted: Wanted) -> list[list[Hit]]:
    """The hits of each query, in the state of now."""
    while True:  # until the documents have not changed between the ranking and the texts
        view = current()
        ranked = rank(view)
        found = None if ranked is None else view.fetch(ranked)
        if ranked is not None and found is not None:
            break
    part = None if wanted.where is None else view.part(wanted.where)
    if part is not None and part.reason is not None:
        logger.warning("the conditions cannot match any document: %s", part.reason)
    if wanted.mode == "dense":
        return _by_meaning(view, ranked, found)
    return [_with_words(query, row, found, view.language) for query, row in zip(queries, ranked, strict=True)]


def _with_words(query: str, row: list[Ranked], found: Fetched, language: str) -> list[Hit]:
    """The hits of a query, each with what shows its words."""
    documents = [found.documents[one.document] for one in row]
    passages = [found.passages.get((one.document, one.text)) for one in row]
    starts = [passage.start if passage else 0 for passage in passages]
    snippets = snippets_of(query, [at.text for at in documents], language, starts)
    return [
        Hit(at.id, one.score, at.text, at.metadata, None, snippet, passage)
        for one, at, snippet, passage in zip(row, documents, snippets, passages, strict=True)
    ]


def _by_meaning(view: View, ranked: list[list[Ranked]], found: Fetched) -> list[list[Hit]]:
    """The hits of dense search, each with its percentile."""
    known = view.manifest.calibration
    scores = [one.score for row in ranked for one in row]
    percentiles: Iterator[float | None] = iter(known.percentiles(scores) if known else repeat(None))
    hits = []
    for row in ranked:
        of_query = []
        for score, document, text in row:
            at = found.documents[document]
            passage = found.passages.get((document, text)) if found.passages else None
            of_query.append(Hit(at.id, score, at.text, at.metadata, next(percentiles), None, passage))
        hits.append(of_query)
    return hits
