"""Evidence that a document answers a query, and a threshold on it by split conformal prediction.

The evidence of a document is a weighted sum of six numbers, none of which lowers it: how many deviations its
similarity is above the mean of all documents, the share of the query's words that it has (a rare word counts
more), BM25 on a logarithmic scale and in units of the query's 100 best, and the margins to the best other
document in similarity and in BM25. The weights were fitted on queries with qrels by `benchmarks/abstain.py`.
With queries of a user, similarity alone is the evidence if it tells answerable from unanswerable ones clearly
better, as it may where queries are paraphrases of documents.

The documents that answer some queries are removed from the rankings, so that these queries are unanswerable.
A search has an answer if at most a share alpha of them has as much evidence (Angelopoulos and Bates, A gentle
introduction to conformal prediction. 2021). An unanswerable query from the same source then gets an answer
with a probability of at most alpha, whatever the weights are; approximately so, where the same queries also
chose similarity alone.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from sentemb._fusion import FUSED, Double, Ranking, background
from sentemb.data.generated_queries import MARGIN, QUERIES, SIMILAR, cut_queries
from sentemb.encoding.encoder import TextEncoder, Vectors, for_role
from sentemb.errors import InputError
from sentemb.search.documents import Numbers, documents_of
from sentemb.search.keywords import QueryTerms, query_terms
from sentemb.search.manifest import Abstention
from sentemb.search.searching import (
    Grades,
    Hits,
    SearchOptions,
    check_qrels,
    rank_dense,
    ranking,
)
from sentemb.search.store import Snapshot, Store
from sentemb.search.where import Where

ALPHA = 0.05
POOL = 20
"""Documents of each ranking that may answer a query."""
RULES = 1
"""The number of the rules and weights of the evidence; a calibration with others is not valid."""
_BEST = 100  # BM25 scores of a query that are its unit
_CHANGED = 0.1  # share of the documents whose change makes a calibration invalid
_ROUNDING = 1e-9
_BETTER = 0.05  # in the area under the ROC curve
_FEWEST = 25  # answerable queries that can show which evidence is better


class Rankings(NamedTuple):
    """Both rankings of a query among a number of documents."""

    terms: QueryTerms
    dense: Ranking
    keyword: Ranking
    total: int

    def without(self, documents: Iterable[int]) -> Rankings:
        """Return the rankings as they are without some documents."""
        removed = np.array([*documents], dtype=np.int64)
        kept = [~np.isin(one.documents, removed) for one in (self.dense, self.keyword)]
        dense, keyword = (
            Ranking(one.documents[rows], one.scores[rows])
            for one, rows in zip((self.dense, self.keyword), kept, strict=True)
        )
        return Rankings(self.terms, dense, keyword, self.total - len(removed))


class Measured(NamedTuple):
    """Measurements on queries with qrels of several corpora, and the weights fitted on them.

    `false_answers` and `kept` are the lowest and the highest share of the sets by alpha, of unanswerable and
    of answerable queries with an answer by thresholds from generated queries.
    """

    weights: Double
    sets: int
    false_answers: Mapping[str, Sequence[float]]
    kept: Mapping[str, Sequence[float]]


@functools.cache
def measured() -> Measured:
    """Return the bundled weights and measurements."""
    values = json.loads((files("sentemb.search") / "abstention.json").read_text(encoding="utf-8"))
    return Measured(np.array(values["weights"]), values["sets"], values["false_answers"], values["kept"])


def rank_queries(
    snapshot: Snapshot, queries: Sequence[str], encoded: Vectors, where: Where | None = None
) -> list[Rankings]:
    """Return the first 1,000 documents of dense and of keyword search for each query."""
    terms = query_terms(queries, snapshot.manifest.language)
    dense = rank_dense(snapshot, encoded, SearchOptions(FUSED, "dense", None, where))
    keyword = snapshot.keyword(terms, FUSED, None, where)
    total = snapshot.count(where)
    rows = zip(terms, map(ranking, dense), map(ranking, keyword), strict=True)
    return [Rankings(*row, total) for row in rows]


def features(snapshot: Snapshot, query: Rankings) -> tuple[Numbers, Double]:
    """Return the documents that may answer a query, and the numbers (documents, 6) that speak for each."""
    terms, dense, keyword, total = query
    pool = np.unique(np.concatenate([dense.documents[:POOL], keyword.documents[:POOL]]).astype(np.int64))
    if not len(pool):
        return pool, np.zeros((0, 6))
    deviations = np.zeros(len(pool))
    if len(dense.documents) > 1:
        mean, deviation = background(dense.scores, total)
        deviations = (_scores_of(pool, dense, float(dense.scores[-1])) - mean) / max(deviation, 1e-9)
    bm25 = _scores_of(pool, keyword, 0.0)
    unit = float(np.linalg.norm(keyword.scores[:_BEST])) / np.sqrt(_BEST)
    coverage, most = snapshot.coverage(terms, pool)
    margins = _margins(deviations), _margins(bm25 / max(most, 1e-9))
    return pool, np.stack([deviations, coverage, np.log1p(bm25), bm25 / max(unit, 1e-9), *margins], axis=1)


def _scores_of(documents: Numbers, found: Ranking, missing: float) -> Double:
    """Return the scores of documents in a ranking, or another value for those that it does not have."""
    known = dict(zip(found.documents.tolist(), found.scores.tolist(), strict=True))
    return np.array([known.get(document, missing) for document in documents.tolist()], dtype=np.float64)


def _margins(scores: Double) -> Double:
    """Return by how much each score exceeds the best other one, or 0 where there is none."""
    if len(scores) < 2:
        return np.asarray(scores)
    second, first = np.sort(scores)[-2:]
    return np.asarray(scores - np.where(np.arange(len(scores)) == scores.argmax(), second, first))


def evidence(snapshot: Snapshot, query: Rankings) -> dict[int, float]:
    """Return the evidence that each of the first documents answers the query, by their numbers."""
    documents, numbers = features(snapshot, query)
    return dict(zip(documents.tolist(), (numbers @ measured().weights).tolist(), strict=True))


def similarities(snapshot: Snapshot, query: Rankings) -> dict[int, float]:
    """Return the similarity of the documents of the dense ranking, by their numbers."""
    return dict(zip(query.dense.documents.tolist(), query.dense.scores.tolist(), strict=True))


_EVIDENCE: Mapping[str, Callable[[Snapshot, Rankings], dict[int, float]]] = {
    "weighted": evidence,
    "similarity": similarities,
}


def best(snapshot: Snapshot, query: Rankings, kind: str = "weighted") -> float:
    """Return the highest evidence of any document for a query."""
    return max(_EVIDENCE[kind](snapshot, query).values(), default=0.0)


def check_alpha(alpha: Any) -> float:
    """Return a share of unanswerable queries that may get an answer, or raise InputError."""
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not 0 < alpha < 1:
        raise InputError(f"alpha is {alpha!r}", "choose a share above 0 and below 1, such as 0.05")
    return float(alpha)


def calibrate_on_qrels(
    store: Store,
    encoder: TextEncoder,
    queries: Sequence[str],
    relevant: Sequence[Iterable[str | int] | Grades],
    alpha: float,
) -> Abstention:
    """Set the threshold by a user's queries, whose relevant documents are removed from the rankings."""
    texts, grades = check_qrels(queries, relevant)
    _check_enough(len(texts), alpha, "queries with qrels", "judge more queries")
    encoded = for_role(encoder, "query").encode(texts)
    with store.snapshot() as snapshot:
        numbers = snapshot.numbers_of({key for own in grades for key in own})
        answers = [{numbers[key] for key in own if key in numbers} for own in grades]
        if any(grades) and not numbers:
            key = next(key for own in grades for key in own)
            raise InputError(
                f"the index does not contain any of the relevant documents, such as {key!r}",
                "check their ids; 1 and '1' are different",
            )
        rows = rank_queries(snapshot, texts, encoded)
        scores, answerable = {}, {}
        for kind in _EVIDENCE:
            pairs = list(zip(rows, answers, strict=True))
            scores[kind] = [best(snapshot, row.without(own), kind) for row, own in pairs]
            answerable[kind] = [best(snapshot, row, kind) for row, own in pairs if own]
        kind = better_evidence({kind: (answerable[kind], scores[kind]) for kind in _EVIDENCE})
        return _abstention(snapshot, alpha, scores[kind], answerable[kind], kind)


def calibrate_on_generated(store: Store, encoder: TextEncoder, alpha: float) -> Abstention:
    """Set the threshold by queries from documents, which are removed from the rankings with their copies."""
    with store.snapshot() as snapshot:
        rows = generate_unanswerable(snapshot, encoder)
        _check_enough(len(rows), alpha, "queries generated from the documents", "add documents")
        return _abstention(snapshot, alpha, [best(snapshot, row) for row in rows], None)


def generate_unanswerable(snapshot: Snapshot, encoder: TextEncoder) -> list[Rankings]:
    """Generate queries of 3 to 10 words from documents, and rank the others for them."""
    chosen = np.sort(np.random.default_rng(0).permutation(snapshot.chunks())[: 2 * QUERIES])
    texts = snapshot.texts(chosen)
    cut = cut_queries(texts, count=QUERIES)
    places = cut.rows[: len(cut.queries)]
    if not places:
        return []
    rows = rank_queries(snapshot, cut.queries, for_role(encoder, "query").encode(cut.queries))
    copies = _copies(snapshot, [texts[place] for place in places], documents_of(chosen)[places])
    return [row.without(some) for row, some in zip(rows, copies, strict=True)]


def _copies(snapshot: Snapshot, texts: Sequence[str], sources: Numbers) -> list[set[int]]:
    """Return each document with those that may say the same, by the margin of `similar_documents`."""
    terms = query_terms(texts, snapshot.manifest.language)
    # Without function words, whose lists are long.
    once = [QueryTerms(Counter(dict.fromkeys(one.content, 1)), Counter()) for one in terms]
    found = []
    for source, ranked in zip(sources.tolist(), snapshot.keyword(once, SIMILAR, None, None), strict=True):
        own = next((one.score for one in ranked if one.document == source), np.inf)
        found.append({source, *(one.document for one in ranked if one.score >= MARGIN * own)})
    return found


def better_evidence(scores: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> str:
    """Return the evidence that tells the scores of answerable queries from those of others."""
    areas = {kind: _area(*both) for kind, both in scores.items()}
    is_better = areas["similarity"] > areas["weighted"] + _BETTER
    return "similarity" if is_better and len(scores["weighted"][0]) >= _FEWEST else "weighted"


def _area(higher: Sequence[float], lower: Sequence[float]) -> float:
    """Return the share of pairs in which the score of `higher` is above; ties count half."""
    rising = np.sort(lower)
    below = np.searchsorted(rising, higher, "left") + np.searchsorted(rising, higher, "right")
    return float(below.sum()) / max(2 * len(higher) * len(lower), 1)


def _check_enough(count: int, alpha: float, what: str, hint: str) -> None:
    """Raise InputError if no threshold on so many queries guarantees alpha."""
    if (count + 1) * alpha < 1 - _ROUNDING:
        needed = int(np.ceil(1 / alpha - 1 - _ROUNDING))
        larger = np.ceil(1000 / (count + 1)) / 1000
        raise InputError(
            f"{count} {what} cannot guarantee alpha {alpha:g}, which needs {needed}",
            f"{hint}, or choose alpha {larger:g} or more" if count > 1 else hint,
        )


def _abstention(
    snapshot: Snapshot,
    alpha: float,
    scores: Sequence[float],
    answerable: Sequence[float] | None,
    kind: str = "weighted",
) -> Abstention:
    """Return a calibration by the evidence of unanswerable queries, and what it keeps of answerable ones."""
    last = int(documents_of(snapshot.chunks()).max(initial=0))
    rising = tuple(sorted(round(score, 6) for score in scores))
    judged, documents = answerable is not None, snapshot.manifest.documents
    found = Abstention(alpha, rising, judged, None, documents, last, RULES, kind)
    if not answerable:
        return found
    answered = [is_answer(found, found.p_value(score)) for score in answerable]
    return dataclasses.replace(found, kept=float(np.mean(answered)))


def is_answer(abstention: Abstention, p_value: float) -> bool:
    """Return whether a p-value is low enough for an answer."""
    return p_value <= abstention.alpha + _ROUNDING


def explain(abstention: Abstention) -> str:
    """Return in sentences what is guaranteed, and what it costs."""
    count, share = len(abstention.scores), f"{100 * abstention.alpha:g} %"
    if abstention.judged:
        kept = f". {100 * (abstention.kept or 0):.0f} % of the answerable ones get one"
        holds = f"This is guaranteed for queries like the {count:,} of the calibration"
        if abstention.evidence == "similarity":
            holds = (
                f"This holds approximately for queries like the {count:,} of the calibration, which also "
                "show that similarity alone is the better evidence here"
            )
        end = "" if abstention.kept is None else kept
        return f"at most {share} of unanswerable queries get an answer. {holds}{end}"
    shifts = measured()
    nearest = min(shifts.false_answers, key=lambda alpha: abs(float(alpha) - abstention.alpha))
    false, kept = (
        "{:.0f} to {:.0f} %".format(*(100 * share for share in some[nearest]))
        for some in (shifts.false_answers, shifts.kept)
    )
    return (
        f"at most {share} of {count:,} generated queries without an answer get one. This is not guaranteed "
        f"for queries of your users: on queries with qrels of {shifts.sets} corpora, a nominal "
        f"{100 * float(nearest):g} % was {false}, and {kept} of the answerable queries got an answer. For a "
        "guarantee, calibrate with --judged"
    )


def explain_no_abstention(snapshot: Snapshot) -> str | None:
    """Explain why a search of an index cannot abstain; return None if it can."""
    abstention = snapshot.manifest.abstention
    if abstention is None:
        return "the index is not calibrated to abstain"
    if abstention.rules != RULES:
        return "another version of sentemb calibrated the index to abstain"
    numbers = np.unique(documents_of(snapshot.chunks()))
    same = int(np.searchsorted(numbers, abstention.last, side="right"))
    changed = abstention.documents - same + len(numbers) - same
    if changed > _CHANGED * abstention.documents:
        share = 100 * changed / abstention.documents
        return f"{share:.0f} % of the documents have changed since the index was calibrated to abstain"
    return None


def decide(
    snapshot: Snapshot,
    queries: Sequence[str],
    encoded: Vectors,
    where: Where | None,
    found: Sequence[Hits],
) -> list[Hits]:
    """Return the hits of each query with their p-values, or none where none of them seems to answer it."""
    abstention = snapshot.manifest.abstention
    assert abstention is not None
    decided = []
    for row, hits in zip(rank_queries(snapshot, queries, encoded, where), found, strict=True):
        scores = _EVIDENCE[abstention.evidence](snapshot, row)
        numbers = snapshot.numbers_of([hit.id for hit in hits])
        for hit in hits:
            hit.p_value = abstention.p_value(scores.get(numbers[hit.id], -np.inf))
        lowest = min((hit.p_value or 0.0 for hit in hits), default=1.0)
        if is_answer(abstention, lowest):
            decided.append(hits)
        else:
            decided.append(Hits())
            decided[-1].reason = (
                f"no document seems to answer this: {100 * lowest:.0f} % of unanswerable queries have as "
                f"much evidence, and {100 * abstention.alpha:g} % may get an answer"
            )
    return decided
