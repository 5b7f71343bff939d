"""Finding out how much hybrid search should trust vectors and words in an index."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from sentemb._fusion import EVEN, FUSED
from sentemb._fusion_weights import Judged, fit_weight, lean
from sentemb.data.generated_queries import FEWEST, MOST_DOCUMENTS, QUERIES, cut_queries, rank_both
from sentemb.encoding.encoder import TextEncoder, for_role
from sentemb.errors import InputError
from sentemb.search.documents import check_id
from sentemb.search.encoded import encode_checked
from sentemb.search.hybrid_weight import HybridWeight
from sentemb.search.manifest import Manifest
from sentemb.search.searching import SearchOptions, check_queries, rank_dense, rank_keyword, ranking
from sentemb.search.store import Store
from sentemb.search.vectors import normalize_for

logger = logging.getLogger(__name__)

# Each query takes two texts to encode, which shall be few beside those of the index.
_TEXTS_FOR_A_QUERY = 10

Grades = Mapping[str | int, float]


class Index(Protocol):
    """An index whose weights are fitted."""

    store: Store
    measured: list[HybridWeight | None]
    reported: HybridWeight | None

    @property
    def encoder(self) -> TextEncoder:
        """The encoder of documents and queries."""
        ...

    @property
    def manifest(self) -> Manifest:
        """What is known of the index, now."""
        ...


def current_weight(index: Index, *, measure: bool) -> float:
    """Return the dense weight of hybrid search; one that is not kept is fitted once for an index object."""
    kept = index.manifest.hybrid
    if kept is None and measure:
        if not index.measured:
            index.measured = [weight_by_generating(index.store, index.encoder)]
        (kept,) = index.measured
    if kept is None:
        return EVEN
    if kept.one_is_bad and kept != index.reported:
        logger.warning("%s", kept.reason())
        index.reported = kept
    return kept.weight


def weight_by_qrels(
    store: Store,
    encoder: TextEncoder,
    queries: Sequence[str],
    relevant: Sequence[Iterable[str | int] | Grades],
) -> HybridWeight:
    """Return the weight by queries whose relevant documents are known."""
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
    options = SearchOptions(FUSED, "hybrid", None, None)
    encoded = for_role(encoder, "query").encode(texts)
    with store.snapshot() as snapshot:
        dense, keyword = rank_dense(snapshot, encoded, options), rank_keyword(snapshot, texts, options)
        numbers = snapshot.numbers_of({key for grades in judged for key in grades})
        total = snapshot.manifest.documents
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
                total,
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


def weight_by_generating(store: Store, encoder: TextEncoder) -> HybridWeight | None:
    """Return the weight by queries that are generated from the documents; None where there are too few."""
    with store.snapshot() as snapshot:
        texts, vectors = snapshot.sample(MOST_DOCUMENTS)
        facts = snapshot.manifest
    generated = cut_queries(texts, count=min(QUERIES, facts.vectors // _TEXTS_FOR_A_QUERY))
    count = len(generated.queries)
    if count < FEWEST:
        return None
    queries = normalize_for(facts.metric, for_role(encoder, "query").encode(generated.queries))
    changed = encode_checked(for_role(encoder, "document"), generated.documents[:count])
    documents = np.concatenate([normalize_for(facts.metric, changed), vectors[generated.rows[count:]]])
    return HybridWeight.of(lean(rank_both(generated, queries, documents, facts.language)), judged=False)
