"""Finding out how much hybrid search should trust vectors and words in an index."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from sentemb._fusion import FUSED
from sentemb._fusion_weights import Judged, fit_weight, lean
from sentemb.data.pseudo_queries import FEWEST, MOST_DOCUMENTS, QUERIES, cut_queries, rank_both
from sentemb.encoding.encoder import TextEncoder
from sentemb.encoding.roles import for_role
from sentemb.errors import InputError
from sentemb.search.documents import check_id
from sentemb.search.encoders import of_documents
from sentemb.search.hybrid_weight import HybridWeight
from sentemb.search.searching import Wanted, by_keywords, by_vectors, check_queries, ranking
from sentemb.search.vectors import comparable
from sentemb.search.view import View

logger = logging.getLogger(__name__)

# Each query takes two texts to encode, which shall be few beside those of the index.
_TEXTS_FOR_A_QUERY = 10

Grades = Mapping[str | int, float]


def weight_by_judged(
    current: Callable[[], View],
    encoder: TextEncoder,
    queries: Sequence[str],
    relevant: Sequence[Iterable[str | int] | Grades],
) -> HybridWeight:
    """The weight by queries whose relevant documents are known."""
    texts, judged = check_queries(queries, blank=False), [_grades(one) for one in relevant]
    if len(texts) != len(judged):
        raise InputError(
            f"there are {len(texts)} queries, but relevant documents for {len(judged)}",
            "pass the relevant documents of each query",
        )
    kept = [place for place, grades in enumerate(judged) if grades]
    if not kept:
        raise InputError(
            "none of the queries has a relevant document", "add relevant documents, or fit without queries"
        )
    texts, judged = [texts[place] for place in kept], [judged[place] for place in kept]
    wanted = Wanted(FUSED, "hybrid", None, None)
    encoded = for_role(encoder, "query").encode(texts)
    ranks = (by_vectors(current(), encoded, wanted, encoder), by_keywords(current(), texts, wanted))
    while True:  # until the documents have not changed meanwhile
        view = current()
        dense, keyword = (rank(view) for rank in ranks)
        numbers = view.numbers_of({key for grades in judged for key in grades})
        if dense is not None and keyword is not None and numbers is not None:
            break
    ids = [key for grades in judged for key in grades]
    absent = sum(key not in numbers for key in ids)
    if absent == len(ids):
        raise InputError(
            f"the index does not contain any of the relevant documents, such as {ids[0]!r}",
            "check their ids; 1 and '1' are different",
        )
    if absent:
        logger.warning(
            "%d of %d relevant documents are not in the index and count as not retrieved", absent, len(ids)
        )
    rows = zip(dense, keyword, judged, strict=True)
    return HybridWeight.of(
        fit_weight(
            Judged(
                ranking(own),
                ranking(other),
                view.manifest.documents,
                # What is not there is under a number that no document has.
                {numbers.get(key, -place): grade for place, (key, grade) in enumerate(grades.items(), 1)},
            )
            for own, other, grades in rows
        ),
        judged=True,
    )


def _grades(relevant: Iterable[str | int] | Grades) -> dict[str | int, float]:
    if isinstance(relevant, (str, bytes, int)):
        raise InputError(
            f"the relevant documents of a query must be a list of ids or a dict of grades, not {relevant!r}",
            "pass one for each query",
        )
    grades = dict(relevant) if isinstance(relevant, Mapping) else dict.fromkeys(relevant, 1.0)
    for key, grade in grades.items():
        check_id(key, "relevant documents")
        if not isinstance(grade, (int, float)) or not np.isfinite(grade):
            raise InputError(f"the grade of document {key!r} is {grade!r}", "use a number of 0 or more")
    return {key: float(grade) for key, grade in grades.items() if grade > 0}


def weight_by_cutting(current: Callable[[], View], encoder: TextEncoder) -> HybridWeight | None:
    """The weight by queries that are cut from the documents; None where there are too few for that."""
    sample = None
    while sample is None:
        view = current()
        sample = view.sample(MOST_DOCUMENTS, of_documents(encoder))
    texts, vectors = sample
    cut = cut_queries(texts, count=min(QUERIES, view.manifest.vectors // _TEXTS_FOR_A_QUERY))
    count = len(cut.queries)
    if count < FEWEST:
        return None
    metric = view.manifest.metric
    asked = comparable(for_role(encoder, "query").encode(cut.queries), metric)
    changed = comparable(of_documents(encoder)(cut.documents[:count]), metric)
    documents = np.concatenate([changed, vectors[cut.rows[count:]]])
    judged = rank_both(cut, asked, documents, view.language)
    return HybridWeight.of(lean(judged), judged=False)
