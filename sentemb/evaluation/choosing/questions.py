"""The questions that rank systems: generated queries, queries with qrels, or pairs; and a query log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from sentemb._compat import StaticEmbedding
from sentemb.data.bm25 import bm25_idf, count_query_terms, count_terms
from sentemb.data.documents import Document, read_unique_documents
from sentemb.data.files import read_lines, source_at
from sentemb.data.generated_queries import CHOOSING, FEWEST, NEIGHBORS, QUOTE, SENTENCE, generate_queries
from sentemb.data.retrieval import RetrievalSet, load_retrieval
from sentemb.data.sts import ScoredPairs
from sentemb.data.words import word_spans
from sentemb.encoding import TextEncoder
from sentemb.encoding.cache import CachedEncoder
from sentemb.encoding.sentence import SentenceEncoder
from sentemb.errors import InputError
from sentemb.evaluation.choosing.calibration import Double
from sentemb.evaluation.record import load_predictions
from sentemb.evaluation.retrieval.evaluate import evaluate_retrieval
from sentemb.evaluation.retrieval.metrics import query_scores
from sentemb.evaluation.retrieval.reranking import RerankSearcher
from sentemb.evaluation.retrieval.searchers import DenseSearcher, HybridSearcher, KeywordSearcher, Searcher
from sentemb.evaluation.retrieval.token_vectors import TokenSearcher
from sentemb.evaluation.schema import Record
from sentemb.evaluation.sts import evaluate_pairs, load_sets
from sentemb.evaluation.systems import System, system_of

Basis = Literal["documents", "judged", "pairs"]
_MEASURE = "ndcg@10"
LOGGED = 20
"""Queries of a log; fewer do not show how users ask."""
_WIDTH = 1.5  # of the kernel, in standard deviations of the log
_LEAST_SPREAD = 0.2  # of a feature: logs of equal queries are not followed to the letter
_FLOOR = 0.1  # weight of a query that is unlike all of the log, compared with 1 of the most typical


class Questions(NamedTuple):
    """Sets of queries over documents, or of pairs."""

    basis: Basis
    measure: str  # of the answers
    sets: Sequence[RetrievalSet]  # generated queries, or queries with qrels
    pairs: Sequence[ScoredPairs]
    texts: Sequence[str]  # documents or sentences, on which speed is measured
    own: Sequence[str]  # all texts of the user, including queries

    @property
    def language(self) -> str:
        """The code of the documents' language, for keyword search."""
        return self.sets[0].language if self.sets else "und"

    def record(self, searcher: Searcher) -> Record:
        """Return the record of a system."""
        if not self.pairs:
            # Only the queries of `neighbors` have the id of a document.
            return evaluate_retrieval(searcher, self.sets, exclude_same_ids=self.basis == "documents")
        if not isinstance(searcher, DenseSearcher):
            raise InputError(
                f"{searcher.name} gives no similarity of two texts", "compare encoders by pairs, nothing else"
            )
        return evaluate_pairs(searcher.encoder, self.pairs)

    def system(self, record: Record, name: str) -> System:
        """Return a system by its record."""
        return replace(system_of([record], record.model, measure=self.measure), name=name)


def generated_from(
    texts: str | Path | Sequence[str],
    *,
    count: int,
    most: int,
    seed: int,
    text_column: str | None = None,
    title_column: str | None = None,
    data_dir: str | Path | None = None,
) -> Questions:
    """Generate queries from documents; each kind is a set."""
    if isinstance(texts, (str, Path)):
        documents = read_unique_documents(
            texts, text_column=text_column, title_column=title_column, data_dir=data_dir
        )
    else:
        documents = [Document(text, str(place)) for place, text in enumerate(dict.fromkeys(texts))]
    sets = generate_queries(documents, count=count, most=most, seed=seed, kinds=CHOOSING)
    if not any(one.name == QUOTE for one in sets):
        raise InputError(
            f"{len(documents)} documents are too few to generate {FEWEST} queries of a kind",
            "provide more documents with six words or more, or queries with qrels (--judged)",
        )
    whole = [document.whole for document in documents]
    return Questions("documents", _MEASURE, sets, (), whole, whole)


def judged_queries(judged: str | Path | RetrievalSet, data_dir: str | Path | None) -> Questions:
    """Read queries with relevance judgments."""
    data = judged if isinstance(judged, RetrievalSet) else load_retrieval(judged, data_dir=data_dir)
    return Questions("judged", _MEASURE, (data,), (), data.documents, [*data.documents, *data.queries])


def graded_pairs(pairs: str | Path, data_dir: str | Path | None) -> Questions:
    """Read pairs of texts with gold similarities."""
    sets = load_sets([str(pairs)], data_dir=data_dir)
    texts = list(dict.fromkeys(text for one in sets for text in (*one.first, *one.second)))
    return Questions("pairs", "spearman", (), sets, texts, texts)


def scores_by_query(records: Sequence[Record], sets: Sequence[RetrievalSet]) -> dict[str, Double]:
    """Return NDCG@10 x 100 of each query, shape (systems, queries), for each set."""
    ranks = [load_predictions(record) for record in records]
    return {
        data.name: np.array([100 * query_scores(_MEASURE, own[0][data.name], data.gold) for own in ranks])
        for data in sets
    }


def encoder_of(searcher: Searcher) -> TextEncoder | None:
    """Return the encoder of a searcher, or of its first stage, without its cache."""
    searcher = searcher.first if isinstance(searcher, RerankSearcher) else searcher
    part = searcher.dense if isinstance(searcher, HybridSearcher) else searcher
    if not isinstance(part, DenseSearcher):
        return None
    return part.encoder.encoder if isinstance(part.encoder, CachedEncoder) else part.encoder


def family_of(searcher: Searcher) -> str:
    """Return the family of a system, of `calibration.FAMILIES`; that of its first stage if it has two."""
    searcher = searcher.first if isinstance(searcher, RerankSearcher) else searcher
    if isinstance(searcher, KeywordSearcher):
        return "keyword"
    if isinstance(searcher, HybridSearcher):
        return "hybrid"
    encoder = encoder_of(searcher)
    # Wherever it runs: the fast path of static models is one of the CPU.
    static = isinstance(encoder, SentenceEncoder) and isinstance(encoder.model[0], StaticEmbedding)
    return "static" if static else "transformer"


def is_unmeasured(searcher: Searcher) -> bool:
    """Return whether a system is of a kind on which predictions have not been measured."""
    return isinstance(searcher, (RerankSearcher, TokenSearcher))


def skipped_kinds(sets: Sequence[RetrievalSet]) -> list[str]:
    """Return why a kind of query was not generated, a phrase for each."""
    there = {one.name for one in sets}
    reasons = {
        SENTENCE: "no sentence queries: most documents are a single sentence, of which nothing would be left",
        NEIGHBORS: "no neighbors or topic queries: too few documents are related to others",
    }
    return [reason for kind, reason in reasons.items() if kind not in there]


def read_query_log(log: str | Path | Sequence[str]) -> list[str]:
    """Read the queries of a log, one a line; blank lines are skipped.

    Raises:
        InputError: The file cannot be read, or has fewer than 20 queries.
    """
    lines = [line for _, line in read_lines(source_at(log))] if isinstance(log, (str, Path)) else list(log)
    queries = [line.strip() for line in lines if line.strip()]
    if len(queries) < LOGGED:
        where = log if isinstance(log, (str, Path)) else "the query log"
        raise InputError(
            f"{where}: {len(queries)} queries are too few to show how users ask",
            f"give {LOGGED} or more, a query a line",
        )
    return queries


def log_weights(log: Sequence[str], sets: Sequence[RetrievalSet], texts: Sequence[str]) -> dict[str, Double]:
    """Return a weight for each generated query, by the name of its set.

    A query has more weight the nearer its length and the rarity of its terms are to those of the log.
    """
    language = sets[0].language
    counts, terms = count_terms(texts, language)
    idf = bm25_idf(len(texts), np.bincount(counts.indices, minlength=counts.shape[1]))
    typical = _features(log, language, terms, idf)
    center, spread = typical.mean(axis=0), typical.std(axis=0) + _LEAST_SPREAD
    found = {}
    for one in sets:
        away = (_features(one.queries, language, terms, idf) - center) / (_WIDTH * spread)
        weights = np.exp(-0.5 * (away**2).sum(axis=1)) + _FLOOR
        found[one.name] = weights / weights.sum()
    return found


def _features(queries: Sequence[str], language: str, terms: Mapping[str, int], idf: Double) -> Double:
    """Return the logarithm of the number of words and the mean idf of the known terms, shape (queries, 2)."""
    counted, _ = count_query_terms(queries, language, terms)
    content = counted.content
    rows = np.repeat(np.arange(len(queries)), np.diff(content.indptr))
    sums = np.bincount(rows, weights=idf[content.indices], minlength=len(queries))
    numbers = np.diff(content.indptr)
    lengths = np.log1p([len(word_spans(query)) for query in queries])
    return np.stack([lengths, sums / np.maximum(numbers, 1)], axis=1)
