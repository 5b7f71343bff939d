"""Finding out how much hybrid search should trust vectors and words in an index."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

import numpy as np

from sentemb._fusion import FUSED, Judged, fit_weight, lean
from sentemb.data.generated_queries import FEWEST, MOST_DOCUMENTS, QUERIES, cut_queries, rank_both
from sentemb.encoding.encoder import TextEncoder, for_role
from sentemb.errors import InputError
from sentemb.search.documents import check_id, encode_checked, normalize_for
from sentemb.search.manifest import HybridWeight
from sentemb.search.searching import SearchOptions, check_queries, rank_dense, rank_keyword, ranking
from sentemb.search.store import Store

logger = logging.getLogger(__name__)

# Each query takes two texts to encode, which shall be few compared with those of the index.
_TEXTS_FOR_A_QUERY = 10

Grades = Mapping[str | int, float]


def weight_by_qrels(
    store: Store,
    encoder: TextEncoder,
    queries: Sequence[str],
    relevant: Sequence[Iterable[str | int] | Grades],
) -> HybridWeight:
    """Return the weight by queries whose relevant documents are known."""
    texts, grades = check_queries(queries, allow_blank=False), [_grades(one) for one in relevant]
    if len(texts) != len(grades):
        raise InputError(
            f"there are {len(texts)} queries, but relevant documents for {len(grades)}",
            "pass the relevant documents of each query",
        )
    texts = [text for text, own in zip(texts, grades, strict=True) if own]
    grades = [own for own in grades if own]
    if not texts:
        raise InputError(
            "none of the queries has a relevant document", "add relevant documents, or fit without queries"
        )
    options = SearchOptions(FUSED, "hybrid", None, None)
    encoded = for_role(encoder, "query").encode(texts)
    ids = [key for own in grades for key in own]
    with store.snapshot() as snapshot:
        dense, keyword = rank_dense(snapshot, encoded, options), rank_keyword(snapshot, texts, options)
        numbers = snapshot.numbers_of(set(ids))
        total = snapshot.manifest.documents
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
    fit = fit_weight(
        Judged(
            ranking(own),
            ranking(other),
            total,
            # What is not there is under a number that no document has.
            {numbers.get(key, -place): grade for place, (key, grade) in enumerate(judged.items(), 1)},
        )
        for own, other, judged in zip(dense, keyword, grades, strict=True)
    )
    return HybridWeight(**asdict(fit), judged=True)


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
        facts, chunks = snapshot.manifest, snapshot.chunks()
        chosen = np.sort(np.random.default_rng(0).permutation(chunks)[:MOST_DOCUMENTS])
        texts, vectors = snapshot.texts(chosen), snapshot.vectors(chosen)
    generated = cut_queries(texts, count=min(QUERIES, facts.vectors // _TEXTS_FOR_A_QUERY))
    count = len(generated.queries)
    if count < FEWEST:
        return None
    queries = normalize_for(facts.metric, for_role(encoder, "query").encode(generated.queries))
    changed = encode_checked(for_role(encoder, "document"), generated.documents[:count])
    documents = np.concatenate([normalize_for(facts.metric, changed), vectors[generated.rows[count:]]])
    fit = lean(rank_both(generated, queries, documents, facts.language))
    return HybridWeight(**asdict(fit), judged=False)
