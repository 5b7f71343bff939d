"""Weight generated queries so that they resemble the queries that users ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from sentemb.data.bm25 import count_query_terms, count_terms
from sentemb.data.keywords import bm25_idf
from sentemb.data.lines import read_lines, source_at
from sentemb.data.retrieval import RetrievalSet
from sentemb.data.sentences import word_spans
from sentemb.errors import InputError
from sentemb.evaluation.choosing.calibration import Double

FEWEST = 20
"""Queries of a log; fewer do not show how users ask."""
_WIDTH = 1.5  # of the kernel, in standard deviations of the log
_LEAST_SPREAD = 0.2  # of a feature: logs of equal queries are not followed to the letter
_FLOOR = 0.1  # weight of a query that is unlike all of the log, compared with 1 of the most typical


def read_query_log(log: str | Path | Sequence[str]) -> list[str]:
    """Read the queries of a log, one a line; blank lines are skipped.

    Raises:
        InputError: The file cannot be read, or has fewer than 20 queries.
    """
    lines = [line for _, line in read_lines(source_at(log))] if isinstance(log, (str, Path)) else list(log)
    queries = [line.strip() for line in lines if line.strip()]
    if len(queries) < FEWEST:
        where = log if isinstance(log, (str, Path)) else "the query log"
        raise InputError(
            f"{where}: {len(queries)} queries are too few to show how users ask",
            f"give {FEWEST} or more, a query a line",
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
