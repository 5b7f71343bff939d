"""One search: by vectors or by keywords, in one state of the documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.search.calibration import lowest_score
from sentemb.search.documents import check_letters
from sentemb.search.hit import Hit
from sentemb.search.keywords import terms_of
from sentemb.search.vectors import comparable
from sentemb.search.view import Ranked, View
from sentemb.search.where import Where

Mode = Literal["dense", "keyword"]
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
            raise InputError(f"k must be a positive integer, not {k!r}", "ask for at least one hit")
        if mode not in get_args(Mode):
            raise InputError(f"unknown mode {mode!r}", f"choose {' or '.join(get_args(Mode))}")
        if mode != "dense" and isinstance(min_score, str) and "%" in min_score:
            raise InputError(
                f"min_score {min_score} is a percentile, which only vectors have",
                "give a score, or search dense",
            )
        return cls(int(k), mode, min_score, None if where is None else Where(where))


def check_queries(queries: Sequence[Any], *, blank: bool) -> list[str]:
    """Refuse what nothing can be found by; blank texts are fine where vectors are given for them."""
    for position, text in enumerate(queries):
        if not isinstance(text, str):
            raise InputError(f"query {position} is no string")
        if not (blank or text.strip()):
            raise InputError(f"query {position} is blank")
        check_letters("text", text, f"query {position}")
    return list(queries)


def by_vectors(view: View, encoded: Vectors, wanted: Wanted) -> Rank:
    """Rank by what texts mean."""
    vectors = comparable(encoded, view.manifest.metric)

    def rank(now: View) -> list[list[Ranked]] | None:
        least = lowest_score(wanted.min_score, now.manifest.calibration, now.manifest.vectors)
        return now.rank(vectors, wanted.k, least, wanted.where)

    return rank


def by_keywords(view: View, queries: Sequence[str], wanted: Wanted) -> Rank:
    """Rank by the words that texts share."""
    terms = terms_of(queries, view.language)
    least = lowest_score(wanted.min_score, None, 0)
    return lambda now: now.rank_by_keywords(terms, wanted.k, least, wanted.where)


def find(current: Callable[[], View], rank: Rank, wanted: Wanted) -> list[list[Hit]]:
    """The hits of each query, in the state of now."""
    while True:  # until the documents have not changed between the ranking and the texts
        view = current()
        ranked = rank(view)
        found = None if ranked is None else view.fetch(ranked)
        if found is not None:
            break
    known = view.manifest.calibration if wanted.mode == "dense" else None
    return [
        [
            Hit(at.id, score, at.text, at.metadata, known.percentile(score) if known else None)
            for score, at in row
        ]
        for row in found
    ]
