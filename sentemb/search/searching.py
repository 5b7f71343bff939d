"""One search: by vectors, by keywords or by both, in one state; and how much hybrid search trusts each."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np

from sentemb._fusion import EVEN, FUSED, Judged, Ranking, fit_weight, fuse, lean
from sentemb.data.generated_queries import FEWEST, MOST_DOCUMENTS, QUERIES, cut_queries, rank_both
from sentemb.encoding.encoder import TextEncoder, Vectors, for_role
from sentemb.errors import InputError
from sentemb.search.documents import check_id, check_letters, encode_checked, normalize_for
from sentemb.search.keywords import Snippet, query_terms, snippets_of
from sentemb.search.manifest import HybridWeight, lowest_score
from sentemb.search.passages import Span
from sentemb.search.store import Fetched, Ranked, Snapshot, Store
from sentemb.search.where import Where

logger = logging.getLogger(__name__)

Mode = Literal["dense", "keyword", "hybrid"]
Grades = Mapping[str | int, float]
# Each generated query takes two texts to encode, which shall be few compared with those of the index.
_TEXTS_FOR_A_QUERY = 10


@dataclass(slots=True)  # Python 3.11 takes ten times as long to make a frozen one
class Hit:
    """A document that was found.

    Args:
        id: The document's id as the user gave it.
        score: Cosine or inner product with the query, BM25 of keyword search, or the sum of both
            in standard units; larger is better.
        text: The document's text.
        metadata: The document's metadata.
        percentile: How many percent of random pairs of the index's texts have a lower score, up to the
            calibration's `most`; None of keywords and where the index has no calibration.
        snippet: What shows the words of the query; None of `dense` search.
        passage: The part of the text that has the score, `text[passage.start : passage.stop]`, where the text
            is longer than the model reads; None of keywords and where it is the whole text.
        p_value: Share of unanswerable queries with as much evidence for a document, in a search that may
            abstain; 1 beyond the first 20 documents of dense and of keyword search.

    Example:
        >>> hit = SearchIndex.load("index").search("order a dictionary", k=1)[0]
        >>> hit.id, round(hit.score, 2)
        ('py-1', 0.5)
    """

    id: str | int
    score: float
    text: str
    metadata: Mapping[str, Any]
    percentile: float | None = None
    snippet: Snippet | None = None
    passage: Span | None = None
    p_value: float | None = None


class Hits(list[Hit]):
    """The hits of a query, best first.

    Attributes:
        reason: Why a search that may abstain returns none; empty otherwise.

    Example:
        >>> hits = SearchIndex.load("index").search("order a dictionary", k=1)
        >>> len(hits), hits.reason
        (1, '')
    """

    reason: str = ""


class SearchArguments(TypedDict, total=False):
    """Options of `SearchIndex.search`."""

    mode: Mode
    min_score: float | str | None
    where: Mapping[str, Any] | None
    vectors: Any
    abstain: bool


class SearchOptions(NamedTuple):
    """Options of a search; see `SearchIndex.search`."""

    k: int
    mode: Mode
    min_score: float | str | None
    where: Where | None

    @classmethod
    def checked(cls, k: Any, mode: Any, min_score: float | str | None, where: Any) -> SearchOptions:
        """Return the options, or raise InputError if they are not valid."""
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise InputError(f"k must be a positive integer, not {k!r}", "choose 1 or more")
        if mode not in ("dense", "keyword", "hybrid"):
            raise InputError(f"unknown mode {mode!r}", "choose one of dense, keyword, hybrid")
        if mode != "dense" and isinstance(min_score, str) and "%" in min_score:
            raise InputError(
                f"min_score {min_score} is a percentile, which works only in dense search",
                "pass a score, or use dense mode",
            )
        return cls(int(k), mode, min_score, None if where is None else Where(where))


def check_queries(queries: Any, *, allow_blank: bool) -> list[str]:
    """Return one or several queries as a list; blank texts are fine where vectors are passed for them."""
    if isinstance(queries, (Mapping, Set, bytes)) or not isinstance(queries, Iterable):
        raise InputError(
            f"queries must be a string or a list of strings, not a {type(queries).__name__}",
            "convert them to a list",
        )
    texts = [queries] if isinstance(queries, str) else list(queries)
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"query {position} is not a string")
        if not (allow_blank or text.strip()):
            raise InputError(f"query {position} is blank")
        check_letters("text", text, f"query {position}")
    return texts


def find(
    snapshot: Snapshot,
    queries: Sequence[str],
    encoded: Vectors | None,
    options: SearchOptions,
    weight: float = EVEN,
) -> list[Hits]:
    """Return the hits of each query in one state; keyword search takes no vectors (n, dim)."""
    where = options.where
    if encoded is None or options.mode == "keyword":
        ranked = rank_keyword(snapshot, queries, options)
    elif options.mode == "dense":
        ranked = rank_dense(snapshot, encoded, options)
    else:
        longer = options._replace(k=max(options.k, FUSED), min_score=None)
        least = lowest_score(options.min_score, None, 0)
        total = snapshot.count(where)
        dense, keyword = rank_dense(snapshot, encoded, longer), rank_keyword(snapshot, queries, longer)
        ranked = [_fuse(*pair, total, weight, options.k, least) for pair in zip(dense, keyword, strict=True)]
    if where is not None and (reason := explain_no_match(snapshot, where)):
        logger.warning("the conditions cannot match any document: %s", reason)
    found, facts = snapshot.fetch(ranked), snapshot.manifest
    if options.mode != "dense":
        return [_hits(row, found, query, facts.language) for query, row in zip(queries, ranked, strict=True)]
    if facts.calibration is None:
        return [_hits(row, found) for row in ranked]
    percentiles = iter(facts.calibration.percentiles([one.score for row in ranked for one in row]))
    return [_hits(row, found, percentiles=list(islice(percentiles, len(row)))) for row in ranked]


def explain_no_match(snapshot: Snapshot, where: Where) -> str | None:
    """Explain why no document can meet conditions; return None if one can."""
    return None if snapshot.count(where) else where.explain_no_match(snapshot.types_of)


def rank_dense(snapshot: Snapshot, encoded: Vectors, options: SearchOptions) -> list[list[Ranked]]:
    """Rank documents by the vectors of queries."""
    facts = snapshot.manifest
    least = lowest_score(options.min_score, facts.calibration, facts.vectors)
    return snapshot.candidates(normalize_for(facts.metric, encoded), options.k, least, options.where)


def rank_keyword(snapshot: Snapshot, queries: Sequence[str], options: SearchOptions) -> list[list[Ranked]]:
    """Rank documents by the words of queries."""
    terms = query_terms(queries, snapshot.manifest.language)
    return snapshot.keyword(terms, options.k, lowest_score(options.min_score, None, 0), options.where)


def ranking(ranked: Sequence[Ranked]) -> Ranking:
    """Return ranked documents as arrays."""
    documents = np.array([one.document for one in ranked], dtype=np.int64)
    return Ranking(documents, np.array([one.score for one in ranked]))


def _fuse(
    dense: list[Ranked], keyword: list[Ranked], total: int, weight: float, k: int, least: float | None
) -> list[Ranked]:
    fused = fuse(ranking(dense), ranking(keyword), total, weight, depth=k)
    chunks = {one.document: one.chunk for one in dense}
    return [
        Ranked(score, document, chunks.get(document))
        for score, document in zip(fused.scores.tolist(), fused.documents.tolist(), strict=True)
        if least is None or score >= least
    ]


def _hits(
    row: list[Ranked],
    found: Fetched,
    query: str | None = None,
    language: str = "",
    percentiles: Sequence[float] | None = None,
) -> Hits:
    """Return the hits of a query, with what shows its words if it is given."""
    if not row:
        return Hits()
    keys, texts, metadata = zip(*[found.documents[one.document] for one in row], strict=True)
    spans = [found.spans.get(one.chunk) if one.chunk is not None else None for one in row]
    snippets: Sequence[Snippet | None] = [None] * len(row)
    if query is not None:
        starts = [span.start if span else 0 for span in spans]
        snippets = snippets_of(query, texts, language, starts)
    shown: Sequence[float | None] = percentiles or [None] * len(row)
    scores = [one.score for one in row]
    return Hits(map(Hit, keys, scores, texts, metadata, shown, snippets, spans))


def check_qrels(
    queries: Sequence[str], relevant: Sequence[Iterable[str | int] | Grades]
) -> tuple[list[str], list[dict[str | int, float]]]:
    """Return queries and the grades of their relevant documents, or raise InputError."""
    texts, grades = check_queries(queries, allow_blank=False), [grades_of(one) for one in relevant]
    if len(texts) != len(grades):
        raise InputError(
            f"there are {len(texts)} queries, but relevant documents for {len(grades)}",
            "pass the relevant documents of each query",
        )
    return texts, grades


def weight_by_qrels(
    store: Store,
    encoder: TextEncoder,
    queries: Sequence[str],
    relevant: Sequence[Iterable[str | int] | Grades],
) -> HybridWeight:
    """Return the weight by queries whose relevant documents are known."""
    texts, grades = check_qrels(queries, relevant)
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


def grades_of(relevant: Iterable[str | int] | Grades) -> dict[str | int, float]:
    """Return the grades above 0 of the relevant documents of a query."""
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
